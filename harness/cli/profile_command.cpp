#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/error.h"
#include "harness/case/real_executor.h"
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
  if (a.micro_batch < 0) throw InputError("--micro-batch", "must be at least 1");
  need_device(*device);
  const CostGraph graph = real_executor::measure_costs(
      workload.model, a.micro_batch > 0 ? a.micro_batch : workload.batch / workload.microbatches, *device);
  const std::string text = to_json(graph).dump(2) + "\n";
  if (a.out.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  std::ofstream out(a.out);
  out << text;
  out.flush();
  if (!out) throw InputError("--out", "'" + a.out + "' cannot be written");
  return 0;
}

}  // namespace sluice
