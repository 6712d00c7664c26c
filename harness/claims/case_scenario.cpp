// Scenarios of kind "case": the settings of a sweep's case on the virtual clock, of which any may be a list: the best
// of the combinations counts, by throughput among those that fit into memory. Fields: case, measure, and for a
// published profile as the workload "profile" (a file of workloads/profiles/published); any_memory: devices hold
// whatever is asked of them.

#include <algorithm>
#include <memory>

#include "harness/base/error.h"
#include "harness/case/predict_memory.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/sweep.h"
#include "harness/claims/measure.h"
#include "workloads/profiles/profile.h"

namespace sluice {

namespace {

struct RunOfCase {
  Prepared prepared;
  double seconds = 0;     // of an update
  double throughput = 0;  // samples/s
  double peak_bytes = 0;  // of the fullest rank
};

// "15-1": the devices of every stage.
std::string replicas_text(const Plan& plan) {
  std::string text;
  for (const PlanStage& stage : plan.stages) text += (text.empty() ? "" : "-") + std::to_string(stage.devices.size());
  return text;
}

// "6-6-5": the layers of every stage.
std::string layers_text(const Plan& plan) {
  std::string text;
  for (const PlanStage& stage : plan.stages) text += (text.empty() ? "" : "-") + std::to_string(stage.layers.size());
  return text;
}

// Seconds of the slowest stage on one micro-batch, divided among its replicas; without messages.
double bottleneck(const RunOfCase& run) {
  const std::vector<StageCost> costs = stage_costs(run.prepared.plan, run.prepared.costs, run.prepared.cluster);
  double slowest = 0;
  for (std::size_t s = 0; s < costs.size(); ++s)
    slowest = std::max(slowest, (costs[s].forward + costs[s].input_gradient + costs[s].weight_gradient).value /
                                    static_cast<double>(run.prepared.plan.stages[s].devices.size()));
  return slowest;
}

double whole_model_seconds(const RunOfCase& run) {
  double seconds = 0;
  for (const LayerCost& layer : run.prepared.costs.layers)
    seconds += (layer.forward + layer.input_gradient + layer.weight_gradient).value;
  return seconds;
}

struct CaseMeasure {
  const char* name;
  Figure (*value)(const RunOfCase&);
};

constexpr CaseMeasure kCaseMeasures[] = {
    {"throughput",
     [](const RunOfCase& r) {
       return Figure{r.throughput, {}};
     }},
    {"update_seconds",
     [](const RunOfCase& r) {
       return Figure{r.seconds, {}};
     }},
    {"peak_gib",
     [](const RunOfCase& r) {
       return Figure{r.peak_bytes / (1 << 30), {}};
     }},
    {"replicas",
     [](const RunOfCase& r) {
       return Figure{{}, replicas_text(r.prepared.plan)};
     }},
    {"layers",
     [](const RunOfCase& r) {
       return Figure{{}, layers_text(r.prepared.plan)};
     }},
    {"objective",
     [](const RunOfCase& r) {
       return Figure{r.prepared.plan.search.objective, {}};
     }},
    {"speedup_of_bottleneck",
     [](const RunOfCase& r) {
       return Figure{whole_model_seconds(r) / bottleneck(r), {}};
     }},
};

// Without a throughput where it does not fit into memory.
RunOfCase run(const RunCase& c, bool any_memory, ProfileStore& profiles) {
  RunOfCase result{.prepared = prepare(c, profiles)};
  const Prepared& p = result.prepared;
  const Program program = program_of_updates(p);
  const std::vector<RankMemory> held = memory(program, stage_memory(p, c.optimizer, program.rule));
  for (const RankMemory& rank : held)
    result.peak_bytes = std::max(result.peak_bytes, static_cast<double>(rank.peak.total().value));
  if (!any_memory && !over_memory(p, held).empty()) return result;
  result.seconds = simulated_update(p, program).value;
  result.throughput = static_cast<double>(samples_per_update(p)) / result.seconds;
  return result;
}

Figure best_of(const std::vector<RunCase>& cases, bool any_memory, const CaseMeasure& measure, ProfileStore& profiles) {
  std::unique_ptr<RunOfCase> best;
  std::string rejected;
  for (const RunCase& c : cases) {
    try {
      auto now = std::make_unique<RunOfCase>(run(c, any_memory, profiles));
      if (!best || now->throughput > best->throughput) best = std::move(now);
    } catch (const InputError& rejection) {  // this combination has no plan; others may
      rejected = rejection.what();
    }
  }
  if (!best) throw NotAvailable("no combination runs: " + rejected);
  const bool needs_time = std::string(measure.name) == "throughput" || std::string(measure.name) == "update_seconds";
  if (best->throughput == 0 && needs_time) throw NotAvailable("no combination fits into memory");
  return measure.value(*best);
}

std::vector<RunCase> expand(Json entry, const std::string& where) {
  entry["clock"] = "virtual";
  if (!entry.contains("train")) entry["train"] = false;
  if (!entry.contains("costs")) entry["costs"] = "analytic";
  if (!entry.contains("steps") && !entry.contains("epochs")) entry["steps"] = 1;
  return expand_case({entry, in_file(where)});
}

}  // namespace

Scenario read_case_scenario(JsonReader& reader) {
  const Json entry = reader.object("case").json();
  const std::string where = reader.where("case");
  const std::string profile = reader.text("profile", "");
  const bool any_memory = reader.boolean("any_memory", false);
  const CaseMeasure& measure = read_measure(reader, kCaseMeasures);
  if (profile.empty())
    return [cases = expand(entry, where), any_memory, &measure](ProfileStore& profiles) {
      return best_of(cases, any_memory, measure, profiles);
    };
  return [entry, where, profile, any_memory, &measure](ProfileStore& profiles) {
    Json with_profile = entry;
    with_profile["workload"] = published_profile_path(profile);
    return best_of(expand(with_profile, where), any_memory, measure, profiles);
  };
}

std::vector<std::string> case_measures() { return names_of(kCaseMeasures); }

}  // namespace sluice
