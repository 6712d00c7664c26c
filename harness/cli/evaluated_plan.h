// A plan with what the virtual clock and the memory model say of it: `sluice plan` shows one, `sluice advise` ranks
// many.
#pragma once

#include <optional>
#include <string>

#include "harness/case/case.h"
#include "harness/case/prepared.h"
#include "harness/case/profile_store.h"
#include "harness/pipeline/plan_description.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulation.h"
#include "results/metrics.h"

namespace sluice {

struct EvaluatedPlan {
  RunCase c;
  Prepared p;
  Program program;  // that updates repeat
  double update_seconds = 0;
  Simulation simulation;  // of the program, once
  std::vector<RankMemory> memory;
  std::string over;  // over_memory()
  double samples_per_second() const { return static_cast<double>(samples_per_update(p)) / update_seconds; }
  std::optional<ModelRates> rates() const;  // none: a published profile
  Bytes peak() const;                       // of the fullest rank
};
// Throws the system's InputErrors; a plan that does not fit is told by `over`.
EvaluatedPlan evaluate_plan(const RunCase& c, ProfileStore& profiles);
// For a case that flags made: errors name settings by their flags. Throws InputError also where the plan does not fit.
EvaluatedPlan fitting_plan(const RunCase& c, ProfileStore& profiles);

// On stderr: what a published profile, where it is the workload, leaves out.
void print_warnings_of_profile(const RunCase& c);

// Its stages, what they take and hold, and what its update takes.
void print_plan(const EvaluatedPlan& plan);
// Devices on which a stage is, each once: of a tensor-parallel group all.
std::size_t devices_of(const Plan& plan);

// Its stages as Megatron-LM's layout (harness/model/pipeline_layout.h), "" where they are none.
std::string layout_of(const EvaluatedPlan& plan);

// Its stages, one for all members of a tensor-parallel group.
PlanDescription description(const EvaluatedPlan& plan);

// The columns of tokens/s, TFLOP/s per device and MFU in a table of plans of one request: those that there are.
class RateColumns {
 public:
  explicit RateColumns(const std::optional<ModelRates>& like);
  std::string heading() const;
  std::string cells(const std::optional<ModelRates>& rates) const;

 private:
  bool tokens_, utilisation_;
};

// Share of an update that messages and collectives cost: what it is shorter by where they take no time.
double exposed_communication(const EvaluatedPlan& plan);

// The compute ops of a program, as a schedule lists them.
Schedule schedule_of(const Program& program);

// What its ranks do in one run of its program, with their memory, for Perfetto (chrome_trace.h).
std::string trace_text(const EvaluatedPlan& plan);
// The same as a page with sliders (timeline_page.h).
std::string page_text(const EvaluatedPlan& plan);
// The order of a plan's ops, in which a tensor-parallel group is one rank.
Schedule table_schedule(const EvaluatedPlan& plan);

// PyTorch's table of a plan's order, in which a tensor-parallel group is one rank; throws InputError where PyTorch
// cannot run it.
std::string plan_table(const EvaluatedPlan& plan);

}  // namespace sluice
