#include "harness/run/prepare_in_job.h"

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/stop.h"
#include "harness/case/prepare.h"
#include "harness/case/profile_store.h"
#include "harness/exec/executor.h"
#include "results/store.h"

namespace sluice {

// What the first process tells the others: its costs and the number of ranks, or why the case is rejected.
static Json prepare_first(const RunCase& c, ProfileStore& profiles, Prepared& prepared) {
  try {
    prepared = prepare(c, profiles);
    return {{"costs", profiles.to_json()}, {"ranks", prepared.ranks.devices.size()}};
  } catch (const InputError& e) {
    return {{"rejected", e.what()}};
  } catch (const Stopped& stopped) {
    return {{"stopped", stopped.what()}, {"cancelled", stopped.kind == Stopped::Kind::cancelled}};
  }
}

std::unique_ptr<ProcessGroup> prepare_in_job(const RunCase& c, ProcessGroup& job, ProfileStore& profiles,
                                             Prepared& prepared) {
  std::string message;
  if (job.rank() == 0) message = prepare_first(c, profiles, prepared).dump();
  const Json json = Json::parse(job.broadcast(message, 0));
  if (json.contains("stopped"))
    throw Stopped(json.at("cancelled").get<bool>() ? Stopped::Kind::cancelled : Stopped::Kind::timed_out,
                  json.at("stopped").get<std::string>());
  if (json.contains("rejected")) throw InputError("", json.at("rejected").get<std::string>());
  std::unique_ptr<ProcessGroup> processes = job.first(json.at("ranks").get<int>());
  if (!processes) return nullptr;
  agree_on_error(processes.get(), [&] {
    if (processes->rank() == 0) return;
    profiles.adopt(json.at("costs"));
    prepared = prepare(c, profiles);
  });
  return processes;
}

void compare_programs(ProcessGroup& processes, RecordOutcome outcome, const Program& program) {
  std::string text = choice_name(outcome);
  for (const auto& rank : program.ranks)
    for (const Instruction& instruction : rank) text += "\n" + to_text(instruction);
  const std::vector<std::string> digests = processes.all_gather(digest(Json(text)));
  for (std::size_t r = 0; r < digests.size(); ++r)
    if (digests[r] != digests[0])
      throw RunStopped(
          RunStopped::Kind::failed, Rank(r),
          "process " + std::to_string(r) + " plans another program than process 0: another build, or other files");
}

}  // namespace sluice
