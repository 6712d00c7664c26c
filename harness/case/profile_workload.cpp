#include "harness/case/profile_workload.h"

#include <map>
#include <memory>
#include <mutex>

#include "harness/base/json.h"
#include "results/store.h"
#include "workloads/models/workload_file.h"
#include "workloads/profiles/profile.h"

namespace sluice {

const ProfileWorkload* profile_workload(const std::string& name, const std::string& costs) {
  if (!is_profile_path(name)) return nullptr;  // before anything is read
  static std::mutex mutex;
  static std::map<std::pair<std::string, bool>, std::unique_ptr<ProfileWorkload>> known;
  const bool raw = costs == "raw";
  const std::lock_guard lock(mutex);
  const auto found = known.find({name, raw});
  if (found != known.end()) return found->second.get();
  if (is_workload_file(name)) return (known[{name, raw}] = nullptr).get();  // find_workload() reads it
  PublishedProfile profile = load_profile(name, raw ? ProfileUnits::published : ProfileUnits::physical);
  auto made = std::make_unique<ProfileWorkload>();
  made->workload.name = name;
  made->workload.title = profile.costs.model;
  made->workload.source = profile.costs.source;
  made->workload.runs_for_real = false;
  made->workload.microbatches = profile.microbatches > 0 ? int_of(profile.microbatches, name, 1) : 32;
  made->workload.batch = profile.costs.micro_batch * made->workload.microbatches;
  made->digest = digest({{"costs", to_json(profile.costs)}, {"microbatches", profile.microbatches}});
  made->costs = std::move(profile.costs);
  made->warnings = std::move(profile.warnings);
  return (known[{name, raw}] = std::move(made)).get();
}

std::string workload_digest(const Workload& workload) {
  if (workload.file.empty()) return "";
  static std::mutex mutex;
  static std::map<const Workload*, std::string> known;  // workloads live as long as the process
  const std::lock_guard lock(mutex);
  std::string& result = known[&workload];
  if (result.empty()) result = digest(to_json(workload));
  return result;
}

const Workload& find_workload_or_profile(const std::string& name, const std::string& costs, const std::string& where) {
  const ProfileWorkload* profile = profile_workload(name, costs);
  return profile ? profile->workload : find_workload(name, where);
}

}  // namespace sluice
