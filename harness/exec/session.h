// Session: one model being trained by one system on real ranks: its weights, optimizer state and data. The training
// loop (harness/run) drives it; harness/exec/torch implements it. This header is free of LibTorch, so that everything
// above the executor compiles in seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/exec/executor.h"
#include "harness/exec/probe.h"
#include "harness/model/model.h"
#include "harness/model/tensor_split.h"
#include "harness/pipeline/memory_by_kind.h"
#include "harness/pipeline/optimizer.h"
#include "harness/pipeline/plan.h"
#include "harness/program/program.h"

namespace sluice {

class Json;

// Evaluation by generating text. The model's input 1 begins with the token `begin`; the likeliest next token is
// appended to it, until that is `end` or the input is full. The whole prefix goes through the model for every token.
struct Decoding {
  std::string metric;  // name in Evaluation::extra
  std::int64_t begin = 0, end = 0;
  std::int64_t samples = 0;  // how many of the test samples, from the first
  // The generated ids of these samples, without `begin` and `end`.
  std::function<double(std::span<const std::vector<std::int32_t>> generated)> score;
};

// The source of samples. Indices are positions in the data set.
struct DataFeed {
  std::int64_t train_samples = 0, test_samples = 0;
  std::function<void(bool train, std::span<const std::int64_t> indices, double* features)> features_double;
  std::function<void(bool train, std::span<const std::int64_t> indices, float* features)> features;
  // Models that read text: the token ids of model input `input` instead of features.
  std::function<void(bool train, std::size_t input, std::span<const std::int64_t> indices, std::int64_t* ids)> tokens;
  // One per sample; for a model that predicts at every position, one per position (-100: none).
  std::function<void(bool train, std::span<const std::int64_t> indices, std::int64_t* classes)> classes;
  std::function<void(bool train, std::span<const std::int64_t> indices, double* values)> values;  // instead of classes
  std::optional<Decoding> decoding;
};

struct SessionSpec {
  // Experts that are spread over replicas (model/expert_spread.h): of one of them. Initial weights are drawn for whole
  // experts; evaluation, checkpoints, weights() and gradients() are for whole ones.
  ModelGraph model;
  Plan plan;
  OptimizerSpec optimizer;
  std::uint64_t seed = 1;
  std::int64_t micro_batch = 1;       // samples of one micro-batch of the program
  std::string device = "cpu";         // or "cuda": one stream per rank, on as many GPUs as there are
  std::string transport = "threads";  // or "nccl": device "cuda", one GPU per rank
  bool double_precision = false;
  bool batched_weight_gradients = false;  // W of all micro-batches of an update as one GEMM, at the update
  // Bytes at which a bucket of the gradients of replicas is full (pipeline/gradient_buckets.h). 0: they are reduced
  // after the backward, as with batched weight gradients, and on GPUs that are threads.
  Bytes gradient_bucket;
  double loss_scale = 1;             // multiplies the loss and its gradient, in addition to 1 / micro-batches
  std::optional<DataFeed> feed;      // none: one fixed random batch (torch/session/synthetic_batch.h)
  std::int64_t synthetic_batch = 0;  // samples of that batch
  std::optional<std::vector<std::vector<std::vector<double>>>> initial;  // [layer][parameter][element]
  // Tensor parallelism: `model` is this one's `all`, and `plan` is for its layers. Initial weights are drawn for the
  // whole model and split; evaluation, weights() and gradients() are for the whole model. Null: no layer is split.
  std::shared_ptr<const TensorModel> tensor;
  // Rule and sharding of the programs that the session will run: load() needs the rule, and stages of several ranks are
  // sliced by the sharding.
  WeightRule rule;
  Sharding sharding;
  bool inference = false;  // runs forward-only programs: no gradients, no optimizer state; samples are the test part's
  // The processes of the ranks, one each: every call of the session is collective over them and gives the same result
  // in all. Null: all ranks are threads of this process.
  ProcessGroup* processes = nullptr;
  int fail_rank = -1;             // tests: this rank throws ...
  std::int64_t fail_update = -1;  // ... in its step of this update,
  // or in this repartition, from 0, unless load() came before.
  int fail_move = -1;
  bool fail_killed = false;  // there: a signal ends its process once it has sent its layers (processes only)
};

// The session sets `processes` to its own.
struct RunRequest : ExecuteOptions {
  std::vector<std::int64_t> order;  // samples of this run in order: updates * batch of them; inference: none, but the
                                    // test samples in order, again from the first when they are used up
  std::function<void(std::int64_t updates_done)> progress;  // called on a rank's thread: must be quick
  // Learning rate of an update (counted over the session's life); none: the optimizer's.
  std::function<double(std::int64_t update)> learning_rate;
  bool keep_weights = false;  // record every version of every stage (verify)
  // Updates of this run, ascending, after which every stage copies its newest weights, for an evaluation after the run
  // (evaluate_snapshot) without draining the pipeline at each.
  std::vector<std::int64_t> snapshots;
  std::vector<Probe>* probes = nullptr;  // per rank, on the CPU: its timed actions
};

struct RunResult {
  Execution execution;
  // Per update: mean training loss of its samples, times loss_scale. If the run diverged (execution.diverged), up to
  // the last update whose loss is complete and finite.
  std::vector<double> losses;
  // Tensor parallelism: per rank, what it summed with its group during the run. Spread experts: its all-to-alls, and
  // the bytes that it handed to them.
  std::vector<TensorSums> group_sums;
  // Inference: per micro-batch, a hash of the bytes of the model's output.
  std::vector<std::uint64_t> output_digests;
  // keep_weights: [stage][update][element], the weights after each update of this run
  std::vector<std::vector<std::vector<double>>> weights;
};

struct Evaluation {
  double loss = 0;
  double accuracy = 0;                  // fraction, of positions where there are several; 0 without classes
  std::map<std::string, double> extra;  // further metrics by name: of generated text
};

class Session {
 public:
  virtual ~Session() = default;
  // Runs the program; the pipeline is drained when it returns. Throws RunStopped. After a run that diverged the session
  // cannot be used any more.
  virtual RunResult run(const Program& program, const RunRequest& request) = 0;
  virtual Evaluation evaluate() = 0;                        // on the test samples, newest weights
  virtual Evaluation evaluate_snapshot(std::size_t k) = 0;  // the last run's k-th snapshot
  // Weights, optimizer state, running statistics and counters between runs, as one file, written completely or not at
  // all. load() throws InputError: not such a file, or of another model, plan or optimizer. of_any_plan: of another
  // plan, too, where every stage has one rank and no running statistics.
  virtual void save(const std::string& path) const = 0;
  virtual void load(const std::string& path, bool of_any_plan = false) = 0;
  // Per rank, counted allocations since the last reset. All kinds but buffers when their sum is largest; buffers
  // (messages, gradients of activations, scratch memory of kernels) is the difference between that sum and the peak of
  // everything.
  virtual std::vector<MemoryByKind> peak_memory() const = 0;
  virtual void reset_peak_memory() = 0;
  virtual std::vector<double> weights(int layer) const = 0;    // newest, all parameters of the layer in order
  virtual std::vector<double> gradients(int layer) const = 0;  // of the last update before its step, likewise
  virtual std::int64_t updates_done() const = 0;
  // Per layer, a hash of its state for the next run: the newest weights and their number, optimizer state and steps,
  // running statistics. A move or a restart does not change it. For stages with one rank each.
  virtual std::vector<std::uint64_t> layer_digests() const = 0;
  // Between runs: changes to another plan with the same number of ranks. Each layer's state (newest weights, optimizer
  // state, running statistics) moves from its rank to its new one. For stages with one rank each. Throws RunStopped if
  // a rank failed; then the session cannot be used any more, and the files that it saved are unchanged.
  virtual void repartition(const Plan& plan) = 0;
};

// These, measure_in_runs, measure_between_processes (run_profile.h) and measure_co_runs (co_runs.h) load LibTorch when
// first called (training_library.h). In a build without it they throw InputError.
std::unique_ptr<Session> make_session(const SessionSpec& spec);

// The seconds that each layer of the model takes for one micro-batch on this machine, on one thread or (device "cuda")
// on the first GPU: the median of `repeats`.
CostGraph measure_costs(const ModelGraph& model, std::int64_t micro_batch, int repeats,
                        const std::string& device = "cpu");
std::string torch_version();  // "none" in a build without LibTorch

// Why ranks cannot run on GPUs: this program has no CUDA, or the machine has no GPU. "" if they can.
std::string cuda_rejection();
// {"devices": [{"name", "memory_bytes", "compute_capability"}], "driver", "runtime", "nccl": {"header", "library"}} in
// a program with CUDA ("devices" is empty without a GPU), else null.
Json describe_cuda();

}  // namespace sluice
