#include <fmt/format.h>

#include <optional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/quantities.h"
#include "harness/base/read_text.h"
#include "harness/case/profile_store.h"
#include "harness/case/profile_workload.h"
#include "harness/case/settings.h"
#include "harness/cli/commands.h"
#include "harness/cli/gpu_program.h"
#include "workloads/models/registry.h"

namespace sluice {

int profile_command(const ProfileArguments& a) {
  const Workload& workload = find_workload(a.workload);
  const std::optional<DeviceKind> device = choice_named<DeviceKind>(a.device);
  if (!device) throw InputError("--device", "unknown device '" + a.device + "'", "give cpu or cuda");
  if (!workload.runs_for_real)
    throw InputError("--workload", "'" + a.workload + "' is a full-size declaration",
                     "profile a workload that runs here");
  const long batch = a.batch.value_or(workload.batch), microbatches = a.microbatches.value_or(workload.microbatches);
  if (batch < 1 || batch > kMostSamples) throw InputError("--batch", "must be 1 to " + std::to_string(kMostSamples));
  if (microbatches < 1) throw InputError("--microbatches", "must be at least 1");
  if (batch % microbatches != 0)
    throw InputError("--microbatches",
                     std::to_string(microbatches) + " do not divide the batch of " + std::to_string(batch),
                     "choose a batch that is a multiple");
  need_device(*device);
  if (a.beside && *a.beside < 0) throw InputError("--beside", "must be at least 0");
  ProfileKey key{.workload = workload.name, .micro_batch = batch / microbatches, .device = *device};
  key.workload_digest = workload_digest(workload);
  key.optimizer = read_case({{"system", "single_device"}, {"workload", workload.name}}, "profile", "").optimizer;
  if (a.beside) key.neighbours = *a.beside;
  const CostGraph graph = measure_profile(key, workload);
  if (!a.beside) store_profile(key, graph);
  const std::string text = to_json(graph).dump(2) + "\n";
  if (a.out.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  write_text(a.out, text);
  return 0;
}

}  // namespace sluice
