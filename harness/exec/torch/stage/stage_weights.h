// StageWeights: the weights of one stage on one rank: a flat tensor per version with a view per parameter, the gradient
// accumulator, and the optimizer. A step writes the next version: in place when no op will read the old one again, else
// into another buffer. No version is ever copied: keeping the old one means not overwriting it. A prediction is a
// tensor of its own, made in one fused pass.
//
// Of a sharded stage (harness/pipeline/sharding.h) a rank's versions, gradients and optimizer state are its slice of
// the flat tensors. Layers read a gathered copy, which exists from a gather to the next free, and accumulate into whole
// gradients, which exist until the next reduce-scatter.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "harness/exec/session.h"
#include "harness/exec/torch/stage/memory_counter.h"
#include "harness/exec/torch/stage/optimizer.h"
#include "harness/exec/torch/stage/resizable_storage.h"
#include "harness/model/layer_spec.h"
#include "harness/program/program.h"

namespace sluice {

// The slice of a stage on a rank; one member: all of it, the stage is not sharded.
struct Share {
  std::size_t members = 1, member = 0;
  bool keeps_whole = false;  // ZeRO-1: always the whole weights; the slice is a part of them
};

class StageWeights {
 public:
  // matrices: parameters that the optimizer treats as matrices; empty: none. learns: false: the weights never change,
  // so there are no gradients and no optimizer state.
  StageWeights(const std::vector<ParameterSpec>& parameters, std::span<const at::Tensor> initial,
               const OptimizerSpec& optimizer, const at::TensorOptions& options, MemoryCounters* counters,
               const Share& share = {}, bool learns = true, const std::vector<bool>& matrices = {});

  // The rule of the following programs; once before the first begin(). Allocates the tensors of predictions.
  void follow(const WeightRule& rule, StageId stage);
  // Number of reads per program of each version (counted from its start) and each predicted tensor. Versions that the
  // next run still reads (retained versions) count one read more.
  struct Uses {
    std::map<std::int32_t, int> versions;
    std::vector<int> predictions;
    int updates = 0;  // of the program
  };
  // Starts an iteration of a program: the newest version becomes version 0.
  void begin(const Uses& uses);
  // The weights of a compute instruction, one view per parameter; a prediction is made at its first read. Throws
  // logic_error if the version is gone, or not gathered. learning_rate: the current one, for predictions.
  std::span<const at::Tensor> read(const Instruction& op, double learning_rate);
  void used(const Instruction& op);                                        // its read has ended
  const at::Tensor& newest_flat() const { return versions_.back().flat; }  // or the slice of it
  const at::Tensor& newest_view(std::size_t parameter) const { return versions_.back().views[parameter]; }
  std::int32_t newest_version() const { return versions_.back().number; }  // over the session
  // A view of every parameter in a flat tensor of the whole stage.
  std::vector<at::Tensor> views_of(const at::Tensor& flat) const;
  std::int64_t size() const { return size_; }  // elements of the whole stage

  // Views of the accumulator; the first call after a step, or a reduce-scatter, clears it.
  std::span<const at::Tensor> gradients();
  const at::Tensor& gradients_flat();
  bool clears_gradients() const { return sharded() ? !whole_gradient_.allocated() : clear_gradient_; }  // at that call

  // The sum of the squares of elements `first` to `end` of the whole stage's gradients; for a sharded stage, of those
  // in its slice. Added up in double precision, in blocks of one size.
  double squares(std::int64_t first, std::int64_t end) const;

  // For a sharded stage. Memory for all slices of the newest weights, with the own one set; they count as gathered from
  // now on.
  const at::Tensor& begin_gather();
  void free_gathered();
  // All slices of the gradients accumulated since the last reduce-scatter; end_reduce_scatter releases their memory.
  // add_reduced: the sum of the own slice over the members.
  const at::Tensor& begin_reduce_scatter();
  void end_reduce_scatter();
  void add_reduced(const at::Tensor& sum);

  // gradient_scale multiplies the gradient first.
  void step(double learning_rate, double gradient_scale = 1);

  // For checkpoints: every tensor that outlives a run (including retained versions), in a fixed order, and the numbers
  // that belong to them.
  struct State {
    std::vector<at::Tensor> tensors;
    std::vector<std::int64_t> numbers;
  };
  // For a sharded stage, state() has the slice and restore() takes the whole.
  State state() const;
  void restore(const State& state);  // throws logic_error if it is not of these weights and rule

 private:
  struct Version {
    std::int32_t number = 0;
    int uses = 0;
    at::Tensor flat;
    std::vector<at::Tensor> views;
  };
  Version make_version() const;
  Version take_buffer(MemoryKind kind);  // one that no op reads any more, or a new one
  bool sharded() const { return share_.members > 1; }
  std::int64_t slice() const;                          // elements of versions_, gradient_
  at::Tensor own_slice(const at::Tensor& all) const;   // of a tensor with all slices
  at::Tensor own_part(const at::Tensor& whole) const;  // of one without the padding
  std::span<const at::Tensor> gathered(const Instruction& op) const;
  std::int32_t absolute(std::int32_t version) const;
  std::span<const at::Tensor> predicted(const Instruction& op, double learning_rate);
  void release(Version& version);
  double discounted(double learning_rate) const;
  void correct(const at::Tensor& before, double learning_rate);

  const std::vector<ParameterSpec> parameters_;
  const std::int64_t size_;
  const Share share_;
  at::TensorOptions options_;
  MemoryCounters* counters_;
  std::vector<Version> versions_;     // ascending, numbered over the session; the newest is last
  std::vector<Version> predictions_;  // by id of the program; no tensor: not made, or gone
  std::vector<Version> spare_;        // buffers that no op reads any more
  std::int32_t base_ = 0;             // the version the program calls 0
  std::map<std::int32_t, int> uses_;  // by number over the session
  at::Tensor gradient_;
  std::vector<at::Tensor> gradient_views_;
  bool clear_gradient_ = true;
  ResizableStorage whole_weights_, whole_gradient_;  // sharded stages: all slices
  std::optional<std::int32_t> gathered_;             // the version in whole_weights_
  Optimizer optimizer_;
  WeightRule rule_;
  StageId stage_;
  at::Tensor moving_average_;      // of W_new - W_old (PipeMare), or of (W_old - W_new) / rate
  bool averages_updates_ = false;  // which of the two
  at::Tensor last_update_;         // what the optimizer subtracted last; error feedback only
  int updates_of_run_ = 0;
};

}  // namespace sluice
