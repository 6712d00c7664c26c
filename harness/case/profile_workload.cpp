#include "harness/case/profile_workload.h"

#include <map>
#include <memory>
#include <mutex>

#include "harness/base/error.h"
#include "workloads/profiles/profile.h"

namespace sluice {

const ProfileWorkload* profile_workload(const std::string& name, const std::string& costs) {
  if (!is_profile_path(name)) return nullptr;
  static std::mutex mutex;
  static std::map<std::pair<std::string, bool>, std::unique_ptr<ProfileWorkload>> known;
  const bool raw = costs == "raw";
  const std::lock_guard lock(mutex);
  auto& entry = known[{name, raw}];
  if (entry) return entry.get();
  PublishedProfile profile = load_profile(name, raw ? ProfileUnits::published : ProfileUnits::physical);
  auto made = std::make_unique<ProfileWorkload>();
  made->workload.name = name;
  made->workload.title = profile.costs.model;
  made->workload.source = profile.costs.source;
  made->workload.runs_for_real = false;
  made->workload.microbatches = profile.microbatches > 0 ? static_cast<int>(profile.microbatches) : 32;
  made->workload.batch = profile.costs.micro_batch * made->workload.microbatches;
  made->costs = std::move(profile.costs);
  made->warnings = std::move(profile.warnings);
  entry = std::move(made);
  return entry.get();
}

}  // namespace sluice
