#include "harness/run/validation_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/case/costs.h"
#include "harness/case/settings.h"
#include "harness/pipeline/system.h"

namespace sluice {

namespace {

using json = Json;

// What takes from milliseconds to a fifth of a second an update, of every kind of layer.
const std::vector<std::string> kWorkloads = {
    "mlp1024",         "fmnist_cnn",     "tiny",     "sentiment_transformer", "fmnist_mlp", "tfm256",
    "fmnist_mlp_deep", "sentiment_lstm", "mmt_small"};
const std::vector<int> kMicrobatches = {8, 4, 2, 16, 1};

class CaseList {
 public:
  CaseList(int ranks, bool few) : ranks_(ranks), few_(few) {}

  void add(json entry, const std::string& what = "") {
    entry["clock"] = "wall";
    entry["ranks"] = ranks_;
    entry["steps"] = 30;
    ValidationCase c{.entry = entry};
    try {
      c.wall = resolve({entry, in_file("validation")});
    } catch (const InputError&) {
      return;  // these micro-batches do not divide the batch
    }
    if (!seen_.insert(digest_of(c.wall)).second) return;
    c.label = fmt::format("{} {}, {} micro-batch{} of {}{}", c.wall.system, c.wall.workload, c.wall.microbatches,
                          c.wall.microbatches == 1 ? "" : "es", c.wall.batch / c.wall.microbatches,
                          what.empty() ? "" : ", " + what);
    cases_.push_back(std::move(c));
  }

  void add_systems() {
    const auto systems = all_systems();
    for (std::size_t s = 0; s < systems.size(); ++s)
      for (std::size_t k = 0; k < (few_ ? 1 : kWorkloads.size()); ++k)
        add({{"system", systems[s]->name},
             {"workload", few_ ? std::string("fmnist_mlp_deep") : kWorkloads[(2 * s + k) % kWorkloads.size()]},
             {"microbatches", kMicrobatches[few_ ? 1 : (s + k) % kMicrobatches.size()]}});
  }

  void add_variants() {
    const std::vector<std::string> workloads =
        few_ ? std::vector<std::string>{"fmnist_mlp"}
             : std::vector<std::string>{"mlp1024", "fmnist_cnn", "sentiment_transformer", "fmnist_mlp"};
    for (const std::string& workload : workloads)
      for (const int micros : few_ ? std::vector<int>{4} : std::vector<int>{4, 8}) {
        const json base = {{"workload", workload}, {"microbatches", micros}};
        const auto with = [&](json more) {
          json entry = base;
          entry.update(more);
          return entry;
        };
        for (const char* system : {"gpipe", "one_f_one_b"})
          add(with({{"system", system}, {"options", {{"recompute", "yes"}}}}), "recomputation");
        for (const char* system : {"single_device", "one_f_one_b", "zero_bubble"})
          add(with({{"system", system}, {"weight_gradient", "batched"}}), "batched weight gradients");
        for (const char* sharding : {"optimizer", "update"})
          add(with({{"system", "data_parallel"}, {"sharding", sharding}}), std::string("sharding ") + sharding);
        if (ranks_ % 2 == 0)
          for (const char* system : {"gpipe", "one_f_one_b"})
            add(with({{"system", system}, {"data_parallel", 2}}), "2 replicas");
      }
  }

  void add_processes() {
    for (const char* workload : {"mlp1024", "fmnist_cnn", "sentiment_transformer", "fmnist_mlp"})
      for (const char* system : {"gpipe", "one_f_one_b", "zero_bubble", "pipedream_2bw", "data_parallel"}) {
        if (few_ && (std::string(system) != "one_f_one_b" || std::string(workload) != "fmnist_mlp")) continue;
        add({{"system", system}, {"workload", workload}, {"microbatches", 4}, {"transport", "mpi"}}, "processes");
      }
  }

  std::vector<ValidationCase> take() { return std::move(cases_); }

 private:
  int ranks_;
  bool few_;
  std::set<std::string> seen_;
  std::vector<ValidationCase> cases_;
};

}  // namespace

std::vector<ValidationCase> validation_cases(int ranks, bool processes, bool few) {
  CaseList list(ranks, few);
  list.add_systems();
  list.add_variants();
  if (processes) list.add_processes();
  return list.take();
}

std::vector<ValidationCase> filtered(std::vector<ValidationCase> cases, const std::string& text) {
  std::erase_if(cases, [&](const ValidationCase& c) { return c.label.find(text) == std::string::npos; });
  return cases;
}

RunCase of_steps(const ValidationCase& c, int steps) {
  json entry = c.entry;
  entry["steps"] = steps;
  return resolve({entry, in_file("validation")});
}

RunCase on_virtual_clock(const ValidationCase& c, int steps) {
  json entry = c.entry;
  entry.update({{"steps", steps},
                {"clock", "virtual"},
                {"cluster", c.wall.transport == TransportKind::mpi ? kThisMachineProcesses : kThisMachine},
                {"costs", kMeasuredCosts},
                {"train", false}});
  entry.erase("transport");
  return resolve({entry, in_file("validation")});
}

}  // namespace sluice
