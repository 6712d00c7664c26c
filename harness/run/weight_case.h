// A weight-version case: a chain of linear stages, trained on small batches, with the exact expected weights after
// every update. harness/tests/data/weights.json has cases with one weight and one bias per stage, weights_2025.json
// also with matrices; both state their model, loss and schedule.
#pragma once

#include <string>
#include <vector>

#include "harness/base/json_reader.h"
#include "harness/base/options.h"
#include "harness/exec/session.h"
#include "harness/pipeline/system.h"

namespace sluice {

struct WeightCase {
  using Matrix = std::vector<std::vector<double>>;

  std::string name;
  std::string published_system;    // its name in the file
  const System* system = nullptr;  // replays it; null: no system does, and the rest is not read
  Options options;                 // of that system
  int stages = 0;
  int epochs = 0;                            // drained runs of the pipeline
  int batches_per_epoch = 0;                 // a batch is one micro-batch
  int accumulate = 1;                        // batches per update
  std::vector<int> weight_gradient_devices;  // by stage: its own number, or another device; empty: each its own
  OptimizerSpec optimizer;
  std::vector<double> rate_by_epoch;  // learning rate per epoch; empty: the optimizer's
  std::int64_t samples_per_batch = 2;
  struct Linear {
    std::int64_t in = 1, out = 1;
  };
  std::vector<Linear> linear;  // [stage]
  Matrix x, target;            // [batch][sample, feature]
  Matrix initial;              // [stage]: weights (row by row), biases
  double tolerance = 0;        // stated by the case; 0: none
  // Expected:
  std::vector<double> losses;   // per batch
  std::vector<Matrix> weights;  // [stage][update]: as initial; update 0: the initial ones
  // Versions that every forward and backward of a stage reads.
  struct VersionRead {
    std::int64_t batch = 0;  // from 1 over the case
    std::int64_t version = 0;
    int horizon = 0;  // of its prediction; negative: back to older weights
  };
  struct StageReads {
    std::vector<VersionRead> forward, backward;
  };
  std::vector<StageReads> reads;  // by stage; empty: not in the case

  // Micro-batches of one program: an update of a synchronous system, an epoch of an asynchronous one.
  int microbatches_of_program() const { return system->synchronous ? accumulate : batches_per_epoch; }
};

// One entry of the file's "cases". Throws InputError if it is not such a case, or lacks something for its replay.
WeightCase read_weight_case(JsonReader& file, JsonReader& entry);

}  // namespace sluice
