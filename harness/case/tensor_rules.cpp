#include "harness/case/tensor_rules.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/case/costs.h"
#include "harness/model/tensor_split.h"

namespace sluice {

void reject_shared_and_sharded() {
  throw InputError("tensor", "sharding divides weights among replicas by itself", "leave tensor or sharding out");
}

void reject_tensor(const RunCase& c, const System& system) {
  const std::string remedy = "leave tensor out";
  if (!system.synchronous)
    throw InputError("tensor", c.system + " updates without a flush; layers are shared by systems that have one",
                     remedy);
  if (c.sharding != StageSharding::system && c.sharding != StageSharding::none) reject_shared_and_sharded();
  if (c.task == Task::inference) throw InputError("tensor", "inference runs with whole layers", remedy);
  if (c.optimizer.treats_matrices())
    throw InputError("tensor", choice_name(c.optimizer.kind) + " needs whole matrices, and tensor divides them",
                     remedy);
  if (is_cost_file(c.costs))
    throw InputError("tensor", "a file of costs holds those of whole layers", "use analytic, calibrated or profile");
}

void reject_word_slices(const RunCase& c, const Workload& workload) {
  const auto reject = [&](const std::string& setting, const std::string& found, const std::string& remedy) {
    throw InputError(setting, c.system + " divides the words among all ranks, " + found, remedy);
  };
  if (workload.model.layers.empty())
    reject("workload", "and '" + c.workload + "' is a file of costs, which has no layers",
           "use a workload with layers");
  if (c.tensor > 1) reject("tensor", "which are then no tensor-parallel groups", "leave tensor out");
  if (c.data_parallel > 1) reject("data_parallel", "which are then one pipeline", "leave data_parallel out");
  if (c.sharding != StageSharding::system && c.sharding != StageSharding::none)
    reject("sharding", "so that no stage has replicas", "leave sharding out");
  if (c.task == Task::inference) reject("task", "and inference runs with whole layers", "use another system");
  if (c.optimizer.treats_matrices())
    reject("optimizer.kind", "and " + choice_name(c.optimizer.kind) + " needs whole matrices",
           "use an optimizer of single elements");
}

void check_groups(const RunCase& c, const Workload& workload, const std::string& where) {
  const auto together = exact_product<std::int64_t>(c.tensor, c.data_parallel);
  if (c.ranks % together != 0)
    throw InputError(where,
                     "groups of " + std::to_string(c.tensor) + " devices" +
                         (c.data_parallel > 1 ? ", in " + std::to_string(c.data_parallel) + " pipelines," : "") +
                         " do not divide " + std::to_string(c.ranks) + " ranks",
                     "choose ranks that are a multiple of " + std::to_string(together));
  if (workload.model.layers.empty())
    throw InputError(where, "'" + c.workload + "' is a file of costs, which has no layers", "leave tensor out");
  try {
    split_tensors(workload.model, c.tensor);
  } catch (const InputError& e) {
    throw InputError(where, e.what());
  }
}

int shared_degree(const RunCase& c, const Plan& plan, const ModelGraph& model) {
  int degree = 1;
  for (const PlanStage& stage : plan.stages) degree = std::max(degree, stage.tensor);
  const bool equal = std::ranges::all_of(plan.stages, [&](const PlanStage& s) { return s.tensor == degree; });
  if (degree == 1 || (c.clock != Clock::wall && (!equal || model.layers.empty()))) return 1;
  if (model.layers.empty())
    throw InputError(c.system, "the plan uses tensor parallelism, and a published profile has no layers to run",
                     "use the virtual clock, or tensor_parallel=no");
  if (c.tensor > 1) throw InputError("tensor", "the planner decides which layers are shared", "leave tensor out");
  return degree;
}

}  // namespace sluice
