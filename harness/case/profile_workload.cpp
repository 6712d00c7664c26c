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

std::vector<StageMemory> profile_stage_memory(const Plan& plan, const CostGraph& costs,
                                              const OptimizerSpec& optimizer) {
  std::vector<StageMemory> result;
  const StageGraph graph = stage_graph(plan, costs);
  for (const PlanStage& stage : plan.stages) {
    StageMemory memory;
    const StageId id(result.size());
    for (const StageId before : graph.predecessors[id.index()]) memory.input += edge_bytes(plan, costs, before, id);
    for (std::size_t i = 0; i < stage.layers.size(); ++i) {
      const LayerCost& layer = costs.layers[static_cast<std::size_t>(stage.layers[i])];
      if (stage.variants.empty() || layer.variants.empty()) {
        memory.weights += layer.parameters;
        memory.gradients += layer.parameters;
        memory.optimizer += layer.parameters * optimizer.state_tensors();
        memory.stash += layer.output;
      } else {  // as published: what is always there beyond the weights is not told apart
        const LayerVariant& v = layer.variants[static_cast<std::size_t>(stage.variants[i])];
        memory.weights += std::min(v.parameters, v.always);
        memory.gradients += v.always - std::min(v.parameters, v.always);
        memory.stash += v.in_flight;
      }
    }
    result.push_back(memory);
  }
  return result;
}

}  // namespace sluice
