#include "harness/run/validation_cases.h"

#include <algorithm>
#include <set>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/case/costs.h"
#include "harness/case/settings.h"
#include "harness/pipeline/system.h"
#include "results/validation.h"

namespace sluice {

namespace {

using json = Json;

// What takes from milliseconds to a fifth of a second an update, of every kind of layer.
const std::vector<std::string> kWorkloads = {
    "mlp1024",         "fmnist_cnn",     "tiny",     "sentiment_transformer", "fmnist_mlp", "tfm256",
    "fmnist_mlp_deep", "sentiment_lstm", "mmt_small"};
// Large enough that a GPU's kernels take longer than the host takes to start them.
const std::vector<std::string> kGpuWorkloads = {"vgg16_batch64", "gpt2_small", "resnet152_batch64"};
const std::vector<int> kMicrobatches = {8, 4, 2, 16, 1};

class CaseList {
 public:
  explicit CaseList(const ValidationScope& scope)
      : ranks_(scope.ranks), few_(scope.few), gpus_(scope.device == DeviceKind::cuda) {}

  void add(json entry, const std::string& what = "") {
    entry["clock"] = "wall";
    entry["device"] = choice_name(gpus_ ? DeviceKind::cuda : DeviceKind::cpu);
    entry["ranks"] = ranks_;
    entry["steps"] = 30;
    ValidationCase c{.entry = entry};
    try {
      c.wall = resolve({entry, in_file("validation")});
    } catch (const InputError&) {
      return;  // these micro-batches do not divide the batch
    }
    if (!seen_.insert(digest_of(c.wall)).second) return;
    c.label =
        validation_label(c.wall.system, c.wall.workload, c.wall.microbatches, c.wall.batch / c.wall.microbatches) +
        (what.empty() ? "" : ", " + what);
    cases_.push_back(std::move(c));
  }

  void add_systems() {
    const auto systems = all_systems();
    const std::vector<std::string>& workloads = gpus_ ? kGpuWorkloads : kWorkloads;
    const std::string small = gpus_ ? "vgg16_batch64" : "fmnist_mlp_deep";
    for (std::size_t s = 0; s < systems.size(); ++s)
      for (std::size_t k = 0; k < (few_ ? 1 : workloads.size()); ++k)
        add({{"system", systems[s]->name},
             {"workload", few_ ? small : workloads[(2 * s + k) % workloads.size()]},
             {"microbatches", kMicrobatches[few_ ? 1 : (s + k) % kMicrobatches.size()]}});
  }

  void add_variants() {
    const std::vector<std::string> workloads =
        few_ ? std::vector<std::string>{"fmnist_mlp"}
             : std::vector<std::string>{"mlp1024", "fmnist_cnn", "sentiment_transformer", "fmnist_mlp"};
    for (const std::string& workload : workloads)
      for (const int microbatches : few_ ? std::vector<int>{4} : std::vector<int>{4, 8}) {
        const json base = {{"workload", workload}, {"microbatches", microbatches}};
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
  bool few_, gpus_;
  std::set<std::string> seen_;
  std::vector<ValidationCase> cases_;
};

}  // namespace

std::vector<ValidationCase> validation_cases(const ValidationScope& scope) {
  CaseList list(scope);
  list.add_systems();
  if (scope.device == DeviceKind::cuda) return list.take();
  list.add_variants();
  if (scope.processes) list.add_processes();
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
  const bool processes = c.wall.transport == TransportKind::mpi;
  entry.update({{"steps", steps},
                {"clock", "virtual"},
                {"cluster", is_on_gpus(c.wall) ? kThisMachineGpus
                            : processes        ? kThisMachineProcesses
                                               : kThisMachine},
                {"costs", kMeasuredCosts},
                {"train", false}});
  for (const char* of_wall_clock : {"transport", "device"}) entry.erase(of_wall_clock);
  return resolve({entry, in_file("validation")});
}

}  // namespace sluice
