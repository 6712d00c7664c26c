#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "harness/case/profile_workload.h"
#include "harness/cli/commands.h"
#include "harness/cli/evaluated_plan.h"

namespace sluice {

static PlanRequest request_of(const PlanArguments& a, const System& system,
                              const std::map<std::string, std::string>& options) {
  return {&system,
          options,
          a.workload,
          a.cluster,
          a.costs,
          a.ranks,
          a.batch,
          a.microbatches,
          a.data_parallel,
          a.tensor,
          choice_of_flag<Precision>("--precision", a.precision),
          choice_of_flag<AttentionScores>("--attention", a.attention)};
}

// Throws InputError where the plan does not fit into the devices' memory.
static EvaluatedPlan fitting_plan(const PlanRequest& request) {
  EvaluatedPlan e = evaluate_plan(plan_case(request));
  if (!e.over.empty())
    throw InputError("plan", e.over, "use more devices, smaller micro-batches or a cluster with more memory");
  return e;
}

// A line for each of several systems, the fastest first; those without a plan below, with the reason.
static int compare_plans(const PlanArguments& a, const std::vector<const System*>& systems,
                         const std::map<std::string, std::string>& given) {
  std::vector<EvaluatedPlan> plans;
  std::vector<std::string> refused;
  for (const System* system : systems) {
    try {
      plans.push_back(fitting_plan(request_of(a, *system, options_of(*system, given))));
    } catch (const InputError& e) {
      refused.push_back(system->name + ": " + e.what());
    }
  }
  std::ranges::stable_sort(plans, std::greater(), &EvaluatedPlan::samples_per_second);
  if (a.json) {
    Json documents = Json::array();
    for (const EvaluatedPlan& e : plans) documents.push_back(to_json(description(e)));
    fmt::print("{}\n", documents.dump(2));
  } else {
    fmt::print("{:<18} {:>6} {:>5} {:>10} {:>11} {:>7} {:>9} {:>10}\n", "system", "stages", "ranks", "update",
               "samples/s", "bubble", "peak/rank", "search");
    for (const EvaluatedPlan& e : plans)
      fmt::print("{:<18} {:>6} {:>5} {:>10} {:>11.4g} {:>6.1f}% {:>9} {:>10}\n", e.c.system,
                 e.p.plan.stages.size() / static_cast<std::size_t>(group_size(e.p)), e.p.ranks.devices.size(),
                 to_text(Seconds(e.update_seconds)), e.samples_per_second(), 100 * e.simulation.bubble.bubble_ratio,
                 to_text(e.peak()), to_text(Seconds(e.p.plan.search.seconds)));
  }
  for (const std::string& reason : refused) fmt::print(a.json ? stderr : stdout, "no plan: {}\n", reason);
  if (plans.empty()) throw InputError("plan", "none of the systems has a plan");
  return 0;
}

static void print_warnings_of_profile(const PlanArguments& a) {
  if (const ProfileWorkload* profile = profile_workload(a.workload, a.costs))
    for (const std::string& warning : profile->warnings)
      fmt::print(stderr, "note: {}: {}\n", visible(a.workload), visible(warning));
}

EvaluatedPlan plan_of_arguments(const PlanArguments& a, const System& system) {
  print_warnings_of_profile(a);
  return fitting_plan(request_of(a, system, given_options(a.set)));
}

int plan_command(const PlanArguments& a) {
  const std::vector<const System*> systems = systems_named(a.system);
  if (systems.size() > 1) {
    const std::map<std::string, std::string> given = given_options(a.set);
    print_warnings_of_profile(a);
    refuse_undeclared(systems, given);
    if (a.csv) throw InputError("--csv", "is of one plan", "give one system");
    plan_case(request_of(a, *systems.front(), {}));  // what is wrong with the flags is said once
    return compare_plans(a, systems, given);
  }
  const EvaluatedPlan e = plan_of_arguments(a, *systems.front());
  if (a.csv) {
    fmt::print("{}", plan_table(e));
  } else if (a.json) {
    fmt::print("{}\n", to_json(description(e)).dump(2));
  } else {
    print_plan(e);
  }
  return 0;
}

}  // namespace sluice
