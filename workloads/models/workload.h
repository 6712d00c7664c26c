// A workload: a model, its data, and how it is trained. Full-size declarations (runs_for_real false) are for
// planners and the virtual clock.
#pragma once

#include <optional>
#include <string>

#include "harness/model/model.h"

namespace sluice {

struct WorkloadOptimizer {
  std::string name = "sgd";  // sgd, adam, adamw
  double lr = 0.1, momentum = 0, weight_decay = 0;
};

struct Workload {
  std::string name, title, task;
  std::string file = {};  // where it was read from (workload_file.h); empty: declared here
  ModelGraph model;
  std::string dataset = "synthetic";  // a name of workloads/data/locate.h; synthetic: one fixed random batch
  std::string metric = "loss", metric_direction = "down";  // loss, perplexity (of a token; down), accuracy (up)
  // The result of single-device training in `epochs` with `optimizer` and `batch`, measured as in workloads/README.md,
  // and the target: 98 % of it or, if lower is better, the result divided by 0.98.
  std::optional<double> single_device_value, target;
  int epochs = 0;
  std::int64_t batch = 32;  // samples per update
  int microbatches = 4;
  WorkloadOptimizer optimizer;
  bool runs_for_real = true;
  std::string source;  // paper or definition
};

}  // namespace sluice
