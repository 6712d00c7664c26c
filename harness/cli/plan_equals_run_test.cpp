// What `sluice plan` and `sluice advise` say of a case is what `sluice run --no-train` records of it: peaks of every
// rank and seconds of an update, for every workload, system and precision.
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/cli/case_flags.h"
#include "harness/cli/cli_test_support.h"
#include "harness/cli/evaluated_plan.h"
#include "harness/run/run_case.h"
#include "results/metrics.h"
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

void expect_equal(Flags flags) {
  flags.insert(kMachine.begin(), kMachine.end());
  std::string text;
  for (const auto& [key, value] : flags) text += key + " " + value + " ";
  SCOPED_TRACE(text);
  const RunCase planned = planned_case(flags);
  std::optional<EvaluatedPlan> e;
  std::string reason;
  try {
    e = evaluate_plan(planned, test_profiles());
  } catch (const InputError& error) {
    reason = error.what();
  }
  // As long as the plan's program: in a shorter run of an asynchronous system fewer micro-batches are in flight.
  const int steps = !e ? 1 : find_system(planned.system, "test").synchronous ? 3 : e->program.updates;
  const Record record = run_case(run_case_of(flags, steps), test_profiles(), {});
  if (!e) {
    EXPECT_EQ(record.outcome, RecordOutcome::unsupported) << reason;
    EXPECT_EQ(record.reason, reason);
    return;
  }
  ASSERT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
  EXPECT_EQ(peaks(*e), peaks(record));
  EXPECT_NEAR(e->update_seconds, update_seconds(record).value(), 1e-9 * e->update_seconds);
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
        EXPECT_EQ(digest_of(planned), digest_of(run)) << system->name << " " << workload.name;
      }
}

// The arguments of a printed line whose words need no quotes, without the program's name.
Arguments words_of(const std::string& line) {
  std::istringstream in(line);
  Arguments words;
  for (std::string word; in >> word;) words.push_back(word);
  EXPECT_EQ(words.front(), "sluice");
  words.erase(words.begin());
  return words;
}

TEST_F(Cli, TheRunLinesOfAdviceGiveTheNumbersBesideThem) {
  const std::vector<Arguments> questions = {{"-w", "fmnist_cnn", "-c", "flat:4,bandwidth=1GB/s", "-b", "64"},
                                            {"-w", "gpt_tiny", "-c", "dgx_a100_x2", "-n", "8", "--precision", "mixed",
                                             "--optimizer", "adamw,beta1=0.8", "--tensor", "1,2"}};
  int records = 0;
  for (const Arguments& question : questions) {
    Arguments ask = {"advise", "--json", "-m", "8", "-s", "single_device,data_parallel,1f1b,zero_bubble,pipedream"};
    ask.insert(ask.end(), question.begin(), question.end());
    const Json advice = document(ask);
    int compared = 0;
    for (const Json& candidate : advice["candidates"]) {
      if (!candidate["rejected"].is_null()) continue;
      const std::string line = candidate["run"].get<std::string>();
      SCOPED_TRACE(line);
      Arguments run = words_of(line);
      run.insert(run.end(), {"--out", at("record" + std::to_string(records++) + ".jsonl")});
      const Finished finished = sluice(run);
      ASSERT_EQ(finished.code, 0) << finished.err;
      const Record record = read_records(run.back()).records.at(0);
      EXPECT_EQ(peak_memory(record), candidate["peak_bytes"].get<std::int64_t>());
      ++compared;
      const double promised = candidate["samples_per_second"].get<double>();
      EXPECT_NEAR(throughput(record).value().samples_per_second, promised, 1e-6 * promised);
    }
    EXPECT_GT(compared, 8);
  }
}

TEST_F(Cli, AdvicePrintsTheLinesOfItsWinnerLast) {
  const Arguments ask = {"advise", "-w", "gpt_tiny", "-c", "flat:4", "-m", "8", "-s", "gpipe,1f1b"};
  Arguments json = ask;
  json.push_back("--json");
  const Json winner = document(json)["winner"];
  const std::vector<std::string> printed = lines(sluice(ask).out);
  ASSERT_GE(printed.size(), 2u);
  EXPECT_EQ(printed[printed.size() - 2], winner["plan"].get<std::string>());
  EXPECT_EQ(printed.back(), winner["run"].get<std::string>());
  EXPECT_EQ(sluice(words_of(printed[printed.size() - 2])).code, 0);
}

// Adam's two tensors are part of the peak: 10.0 MiB without them.
TEST_F(Cli, APlanThatFitsOnlyWithoutTheOptimizersStateIsRejected) {
  const Arguments tight = {"plan", "-s", "gpipe", "-w", "language_gpt", "-c", "flat:4,memory=10.2MiB"};
  rejects(tight, {"rank 3 needs 10.4 MiB", "use more devices"});
  Arguments stateless = tight;
  stateless.insert(stateless.end(), {"--optimizer", "sgd"});
  EXPECT_EQ(sluice(stateless).code, 0);
}

TEST_F(Cli, FlagsThatDecideNothingAreNamed) {
  const Finished plan = sluice({"plan", "-s", "pipedream", "-w", "tiny", "-n", "2", "--step", "barrier"});
  EXPECT_EQ(plan.code, 0);
  EXPECT_EQ(plan.err,
            "note: --step has no effect on pipedream: it updates without a flush, on one device, or not at all\n");
  const Finished run = sluice({"run", "-s", "single_device", "-w", "tiny", "--clock", "virtual", "--no-train", "-n",
                               "3", "--seed", "2", "--progress", "none", "--out", at("r.jsonl")});
  EXPECT_EQ(run.err,
            "note: --ranks has no effect on single_device: it runs on one device\n"
            "note: --seed has no effect on single_device: nothing is trained\n");
  // It has one on gpipe.
  EXPECT_EQ(sluice({"run", "-s", "single_device,gpipe", "-w", "tiny", "--clock", "virtual", "--no-train", "-n", "3",
                    "--progress", "none", "--out", at("both.jsonl")})
                .err,
            "");
}

TEST_F(Cli, AnErrorOfAPlanNamesTheFlag) {
  rejects({"plan", "-s", "gpipe", "-w", "vgg16", "-c", "flat:4", "--stages", "1,2"}, {"--stages: 3 stages are given"});
  rejects({"plan", "-s", "data_parallel", "-w", "vgg16", "-c", "flat:4", "--data-parallel", "2"},
          {"the system data_parallel is data parallel by itself; leave --data-parallel out"});
}

TEST_F(Cli, AShardIsNotTakenForEqualExperiments) {
  const auto said = [&](const std::string& system, const char* shard) {
    const Json entry = {{"system", system}, {"workload", "tiny"}, {"clock", "virtual"},  {"cluster", "flat:4"},
                        {"ranks", {2, 3}},  {"train", false},     {"costs", "analytic"}, {"batch", 48}};
    put("s.json", Json({{"grid", Json::array({entry})}}).dump());
    const Finished f = sluice({"run", "s.json", "--dry-run", "--shard", shard, "--out", at("r.jsonl")});
    EXPECT_EQ(f.code, 0) << f.err;
    return f.err;
  };
  for (const char* shard : {"0/2", "4/5"})
    EXPECT_EQ(said("gpipe", shard).find("combinations"), std::string::npos) << shard;
  EXPECT_NE(said("single_device", "0/2").find("2 combinations are 1 experiment; each is run once"), std::string::npos);
}

TEST_F(Cli, TheOptimizersFlagIsReadLikeASweepsObject) {
  const Arguments plan = {"plan", "-s", "gpipe", "-w", "tiny", "--optimizer"};
  const auto with = [&](const std::string& value) {
    Arguments all = plan;
    all.push_back(value);
    return all;
  };
  rejects(with("adma"), {"--optimizer kind: unknown value 'adma'", "did you mean 'adam'?"});
  rejects(with("adam,lr=1"), {"--optimizer lr: unknown key 'lr'"});
  rejects(with("adam,,beta1=0.9"), {"--optimizer", "is not KIND[,KEY=VALUE...]", "write adamw,learning_rate=1e-4"});
  rejects(with("adam,beta1=x"), {"--optimizer beta1: must be a number"});
  rejects(with("sgd,schedule=step"), {"--optimizer schedule: only a sweep can give it"});
  rejects(with("sgd,learning_rate=-1"), {"--optimizer learning_rate: must not be negative"});
  rejects(with("adam,momentum=0.9"), {"--optimizer momentum: belongs to sgd, not to adam; leave it out"});
  rejects(with("sgd,momentum=0,nesterov=true"),
          {"--optimizer nesterov: has no effect without momentum; give a momentum above 0, or leave it out"});
  rejects(with("adam,learning_rate=tuned"), {"only training can be tuned"});
  EXPECT_EQ(sluice(with("momentum=0.5")).code, 0);
}

}  // namespace
}  // namespace sluice
