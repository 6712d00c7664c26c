// A weight-version case: a chain of stages of one weight and one bias each, trained on batches of two samples, with the
// exact weights that it must have after every update. harness/tests/data/weights.json holds such cases and states their
// model, loss and schedule.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/base/json_reader.h"
#include "harness/base/options.h"
#include "harness/exec/session.h"
#include "harness/pipeline/system.h"

namespace sluice {

inline constexpr std::int64_t kSamplesPerBatch = 2;

struct WeightCase {
  using Matrix = std::vector<std::vector<double>>;

  std::string name;
  std::string published_system;    // as the file names it
  const System* system = nullptr;  // that replays it; null: none does, and nothing else is read
  Options options;                 // of that system
  int stages = 0;
  int epochs = 0;             // runs of the pipeline, each drained at its end
  int batches_per_epoch = 0;  // a batch is one micro-batch
  int accumulate = 1;         // batches of one update
  OptimizerSpec optimizer;
  std::vector<double> rate_by_epoch;  // learning rate of every epoch; empty: the optimizer's
  Matrix x, target;                   // [batch][sample]
  Matrix initial;                     // [stage]: weight, bias
  // What is expected:
  std::vector<double> losses;   // per batch
  std::vector<Matrix> weights;  // [stage][update]: weight, bias; update 0: the initial ones
  // {"stage0": {"F": [[batch (from 1 over the case), version, prediction horizon], ...], "B": ...}, ...}; null: the
  // case does not say.
  nlohmann::json versions;

  // Micro-batches of one program: an update of a synchronous system, an epoch of an asynchronous one.
  int microbatches_of_program() const { return system->synchronous ? accumulate : batches_per_epoch; }
};

// One entry of file["cases"]. Throws InputError or nlohmann::json::exception: it is no such case, or lacks something
// that its replay needs.
WeightCase read_weight_case(const nlohmann::json& file, JsonReader& entry);

}  // namespace sluice
