// How a run's updates are cut into segments, with an evaluation after each. An asynchronous pipeline is drained before
// an evaluation, unless it evaluates snapshots of its weights: then all segments run without a drain between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/prepared.h"

namespace sluice {

// The segments between two drains of the pipeline: a single one or, with snapshots, all of the run's.
struct UndrainedSegment {
  std::size_t first = 0;           // its first segment, counted over the run
  std::vector<std::int64_t> ends;  // of its segments, in updates from its own start; ascending
  std::int64_t updates() const { return ends.back(); }
};

// The progress of a training.
struct TrainingPosition {
  std::size_t next = 0;      // undrained segment, counted over the run
  std::int64_t updates = 0;  // done
  double seconds = 0;        // of training on the case's clock
  std::string layers;        // Session::layer_digests of a training whose layers may move; "": unknown
};

class Segments {
 public:
  // train_samples: of the data set's training part; 0: the case trains on a synthetic batch. Throws InputError: an
  // epoch has fewer updates than evaluations.
  Segments(const RunCase& c, const Prepared& prepared, std::int64_t train_samples);

  std::vector<UndrainedSegment> undrained() const;
  bool snapshots() const;  // true: evaluations use snapshots; false: drained weights
  std::int64_t total_updates() const;
  std::int64_t updates_per_epoch() const { return updates_per_epoch_; }  // 0 if the case trains by steps
  std::int64_t first_updates() const { return updates_.front(); }        // of the first segment
  // The epoch of a segment, from 0; 0 if the case trains by steps.
  int epoch_of(std::size_t segment) const;

  // The program of a synchronous system is one update, and is repeated; that of an asynchronous system or of inference
  // is all updates between two drains. Returns its number of micro-batches, and its number of runs, for `updates`
  // updates from the beginning of `segment` on.
  int microbatches_of_program(std::size_t segment, std::int64_t updates) const;
  int iterations_of_program(std::int64_t updates) const;

  // The training samples in order, as indices into the data set; empty for a synthetic batch. Drops the last samples of
  // an epoch that fill no batch or, if its last update may be partial, no micro-batch.
  std::vector<std::int64_t> samples(const UndrainedSegment& segment) const;

 private:
  // Whether a program is one update, which is repeated. Inference runs without a drain.
  bool synchronous() const { return prepared_.system->synchronous && !prepared_.inference; }
  bool ends_epoch(std::size_t segment) const;
  bool ends_with_partial_update(std::size_t segment) const { return leftover_ > 0 && ends_epoch(segment); }
  void append_samples(std::size_t segment, std::vector<std::int64_t>& order) const;
  std::vector<std::int64_t> repeated_epochs(std::int64_t samples) const;

  const RunCase& case_;
  const Prepared& prepared_;
  std::int64_t train_samples_;
  std::vector<std::int64_t> updates_;  // of every segment
  std::int64_t updates_per_epoch_ = 0;
  int leftover_ = 0;  // micro-batches of the partial update that ends an epoch; 0: none
};

}  // namespace sluice
