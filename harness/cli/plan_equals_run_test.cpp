// What `sluice plan` says of a case is what `sluice run --no-train` records of it: peaks of every rank and seconds of an
// update, for every workload, system and precision.
#include <gtest/gtest.h>

#include <numeric>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/case/settings.h"
#include "harness/cli/case_flags.h"
#include "harness/cli/evaluated_plan.h"
#include "harness/run/run_case.h"
#include "results/store.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

using Flags = std::map<std::string, std::string>;

// Devices that say how fast they are in 16 bit, with room for every model.
const Flags kMachine = {{"cluster", "dgx_a100_x2,memory=65536GiB"}, {"ranks", "4"}};

RunCase planned_case(const Flags& flags) { return resolve(entries_of({flags, {}}, timed_only()).front()); }

RunCase run_case_of(Flags flags, int steps) {
  flags.insert({{"clock", "virtual"}, {"train", "false"}, {"steps", std::to_string(steps)}});
  return resolve(entries_of({flags, {}}).front());
}

std::vector<std::int64_t> peaks(const EvaluatedPlan& e) {
  std::vector<std::int64_t> result;
  for (const RankMemory& rank : e.memory) result.push_back(rank.peak.total().value);
  return result;
}

std::vector<std::int64_t> peaks(const Record& record) {
  std::vector<std::int64_t> result;
  for (const MemorySplit& rank : record.peak_bytes) result.push_back(rank.total);
  return result;
}

// Seconds of an update, over the steps from which the plan takes its own: of a synchronous system the last one, of an
// asynchronous one all of them.
double update_of(const Record& record, const System& system) {
  if (system.synchronous) return record.step_seconds.back();
  return std::accumulate(record.step_seconds.begin(), record.step_seconds.end(), 0.0) /
         static_cast<double>(record.step_seconds.size());
}

void expect_equal(Flags flags) {
  flags.insert(kMachine.begin(), kMachine.end());
  std::string text;
  for (const auto& [key, value] : flags) text += key + " " + value + " ";
  SCOPED_TRACE(text);
  const RunCase planned = planned_case(flags);
  const System& system = find_system(planned.system, "test");
  std::optional<EvaluatedPlan> e;
  std::string reason;
  try {
    e = evaluate_plan(planned);
  } catch (const InputError& error) {
    reason = error.what();
  }
  const int steps = !e ? 1 : system.synchronous ? 3 : e->program.updates;
  const Record record = run_case(run_case_of(flags, steps), {});
  if (!e) {
    EXPECT_EQ(record.outcome, RecordOutcome::unsupported) << reason;
    EXPECT_EQ(record.reason, reason);
    return;
  }
  ASSERT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
  EXPECT_EQ(peaks(*e), peaks(record));
  EXPECT_NEAR(e->update_seconds, update_of(record, system), 1e-9 * e->update_seconds);
}

TEST(PlanEqualsRun, ForEveryWorkload) {
  for (const Workload& workload : all_workloads())
    expect_equal({{"system", "one_f_one_b"}, {"workload", workload.name}, {"ranks", "2"}});
}

TEST(PlanEqualsRun, ForEverySystem) {
  for (const System* system : all_systems()) {
    if (system->inference_only) continue;
    expect_equal({{"system", system->name}, {"workload", "language_gpt"}});
  }
}

TEST(PlanEqualsRun, ForEveryPrecision) {
  for (const std::string& precision : choice_names<Precision>())
    for (const char* system : {"single_device", "gpipe", "zero_bubble", "data_parallel", "fsdp", "pipedream_2bw"})
      expect_equal({{"system", system}, {"workload", "language_gpt"}, {"precision", precision}});
}

TEST(PlanEqualsRun, WithTheOptimizerThatIsGiven) {
  for (const char* optimizer : {"sgd", "sgd,momentum=0.9", "adamw,learning_rate=1e-4", "rmsprop"})
    for (const char* system : {"gpipe", "fsdp"})
      expect_equal({{"system", system}, {"workload", "tfm256"}, {"optimizer", optimizer}});
}

// Plans are of the very case that runs, whatever the combination; only its length is the run's own.
TEST(PlanEqualsRun, InEverySettingOfTheCase) {
  for (const Workload& workload : all_workloads())
    for (const System* system : all_systems())
      for (const char* precision : {"fp32", "mixed"}) {
        Flags flags = {{"system", system->name}, {"workload", workload.name}, {"precision", precision}};
        flags.insert(kMachine.begin(), kMachine.end());
        RunCase run = run_case_of(flags, 7);
        const RunCase planned = planned_case(flags);
        run.steps = planned.steps;
        EXPECT_EQ(digest(to_json(planned)), digest(to_json(run))) << system->name << " " << workload.name;
      }
}

}  // namespace
}  // namespace sluice
