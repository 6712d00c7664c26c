#include "harness/run/prepare_in_job.h"

#include "harness/base/error.h"
#include "harness/case/costs.h"
#include "harness/exec/executor.h"
#include "results/store.h"

namespace sluice {

// What the first process tells the others: its costs and the number of ranks, or why the case is refused.
static nlohmann::json prepare_first(const RunCase& c, Prepared& prepared) {
  try {
    prepared = prepare(c);
    return {{"costs", measured_costs()}, {"ranks", prepared.ranks.devices.size()}};
  } catch (const InputError& e) {
    return {{"refused", e.what()}};
  }
}

std::unique_ptr<ProcessGroup> prepare_in_job(const RunCase& c, ProcessGroup& job, Prepared& prepared) {
  std::string message;
  if (job.rank() == 0) message = prepare_first(c, prepared).dump();
  const nlohmann::json json = nlohmann::json::parse(job.broadcast(message, 0));
  if (json.contains("refused")) throw InputError("", json.at("refused").get<std::string>());
  std::unique_ptr<ProcessGroup> processes = job.first(json.at("ranks").get<int>());
  if (!processes) return nullptr;
  agree_on_error(processes.get(), [&] {
    if (processes->rank() == 0) return;
    adopt_measured_costs(json.at("costs"));
    prepared = prepare(c);
  });
  return processes;
}

void compare_programs(ProcessGroup& processes, const std::string& outcome, const Program& program) {
  std::string text = outcome;
  for (const auto& rank : program.ranks)
    for (const Instruction& instruction : rank) text += "\n" + to_text(instruction);
  const std::vector<std::string> digests = processes.all_gather(digest(nlohmann::json(text)));
  for (std::size_t r = 0; r < digests.size(); ++r)
    if (digests[r] != digests[0])
      throw RunStopped(
          RunStopped::Kind::failed, Rank(r),
          "process " + std::to_string(r) + " plans another program than process 0: another build, or other files");
}

}  // namespace sluice
