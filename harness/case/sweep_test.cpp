// From sweep files to cases: what a grid expands into, and what is said about each bad input.
#include "harness/case/sweep.h"

#include <gtest/gtest.h>
#include <sluice_build.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/settings.h"
#include "harness/pipeline/system.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

std::vector<RunCase> cases_of(const Json& entry) { return expand_case({entry, in_file("s.json", "/grid/0")}); }

std::string error_in(const Json& entry) {
  return error_of([&] { cases_of(entry); });
}

// {"system": "gpipe", "workload": "tiny"} with more keys, or other values for these.
Json tiny(const Json& more = Json::object()) {
  Json entry = {{"system", "gpipe"}, {"workload", "tiny"}};
  entry.update(more);
  return entry;
}

TEST(ExpandCase, DefaultsComeFromTheWorkload) {
  const std::vector<RunCase> cases = cases_of(tiny());
  ASSERT_EQ(cases.size(), 1u);
  const RunCase& c = cases.front();
  EXPECT_EQ(c.system, "gpipe");
  EXPECT_EQ(c.options.at("backward"), "lifo");
  EXPECT_EQ(c.clock, Clock::wall);
  EXPECT_EQ(c.cluster, "this machine");
  EXPECT_EQ(c.costs, "profile");
  EXPECT_EQ(c.transport, TransportKind::threads);
  EXPECT_EQ(c.device, DeviceKind::cpu);
  EXPECT_EQ(c.ranks, 2);
  EXPECT_EQ(c.batch, 64);
  EXPECT_EQ(c.microbatches, 8);
  EXPECT_EQ(c.seed, 1u);
  EXPECT_EQ(c.epochs, 0);
  EXPECT_EQ(c.steps, 100);
  EXPECT_TRUE(c.train);
  EXPECT_DOUBLE_EQ(c.optimizer.learning_rate, 0.01);
  EXPECT_LT(c.fail_rank, 0);
}

TEST(ExpandCase, AWorkloadWithDataTrainsItsEpochs) {
  const RunCase epochs = cases_of({{"system", "gpipe"}, {"workload", "fmnist_mlp"}}).front();
  EXPECT_EQ(epochs.epochs, find_workload("fmnist_mlp").epochs);
  EXPECT_EQ(epochs.steps, 0);
  EXPECT_DOUBLE_EQ(epochs.optimizer.momentum, 0.9);
  const RunCase steps = cases_of({{"system", "gpipe"}, {"workload", "fmnist_mlp"}, {"steps", 7}}).front();
  EXPECT_EQ(steps.epochs, 0);
  EXPECT_EQ(steps.steps, 7);
}

TEST(ExpandCase, TheVirtualClockHasNeitherTransportNorDevice) {
  const RunCase c = cases_of(tiny({{"clock", "virtual"}})).front();
  EXPECT_EQ(c.cluster, "flat:4");
  EXPECT_EQ(c.costs, "analytic");
  EXPECT_EQ(c.transport, TransportKind::none);
  EXPECT_EQ(c.device, DeviceKind::none);
  EXPECT_EQ(to_json(c)["transport"], "none");
  EXPECT_EQ(to_json(c)["device"], "");
}

TEST(ExpandCase, EveryCombinationOnce) {
  const auto cases = cases_of(tiny({{"system", {"gpipe", "1f1b"}}, {"ranks", {2, 4}}, {"seed", {1, 2, 3}}}));
  EXPECT_EQ(cases.size(), 12u);
  std::set<std::string> digests;
  for (const RunCase& c : cases) digests.insert(digest_of(c));
  EXPECT_EQ(digests.size(), 12u);
}

TEST(ExpandCase, AliasesBecomeFullNames) {
  EXPECT_EQ(cases_of(tiny({{"system", "1f1b"}})).front().system, "one_f_one_b");
}

TEST(ExpandCase, StarMeansEverySystem) {
  for (const Json& value : {Json("*"), Json::array({"*"})}) {
    std::set<std::string> found, all;
    for (const RunCase& c : cases_of(tiny({{"system", value}}))) found.insert(c.system);
    for (const System* s : all_systems())
      if (!s->inference_only) all.insert(s->name);
    EXPECT_EQ(found, all);
  }
}

TEST(ExpandCase, SystemsAreThoseWithAndThoseWithoutAFlush) {
  const auto named = [](const char* pattern) {
    std::set<std::string> names;
    for (const RunCase& c : cases_of(tiny({{"system", pattern}}))) names.insert(c.system);
    return names;
  };
  const std::set<std::string> with = named("*synchronous"), without = named("*asynchronous");
  EXPECT_TRUE(with.contains("one_f_one_b") && with.contains("single_device") && without.contains("pipedream"));
  std::set<std::string> both = with;
  both.insert(without.begin(), without.end());
  EXPECT_EQ(both.size(), with.size() + without.size()) << "none is both";
  EXPECT_EQ(both, named("*"));
  // A setting that asynchronous systems reject stops no sweep over the others.
  EXPECT_EQ(cases_of(tiny({{"system", "*synchronous"}, {"clip_norm", 1}})).size(), with.size());
}

TEST(ExpandCase, AnExclamationMarkLeavesASystemOut) {
  std::set<std::string> found;
  for (const RunCase& c : cases_of(tiny({{"system", {"*asynchronous", "!pipedream", "gpipe", "!2bw"}}})))
    found.insert(c.system);
  EXPECT_TRUE(found.contains("gpipe"));
  EXPECT_TRUE(found.contains("spectrain"));
  EXPECT_FALSE(found.contains("pipedream"));
  EXPECT_FALSE(found.contains("pipedream_2bw"));
  EXPECT_TRUE(error_of([] {
                cases_of(tiny({{"system", {"*", "!gpip"}}}));
              }).find("unknown system 'gpip'") != std::string::npos);
}

TEST(ExpandCase, ListsOfOptionsMultiply) {
  const auto cases = cases_of(tiny({{"options", {{"backward", {"lifo", "fifo"}}}}}));
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].options.at("backward"), "lifo");
  EXPECT_EQ(cases[1].options.at("backward"), "fifo");
}

TEST(ExpandCase, AsynchronousSystemsTakeWholeBatches) {
  EXPECT_EQ(cases_of(tiny({{"system", "pipedream"}})).front().microbatches, 1);
}

TEST(ExpandCase, ReadsTheOptimizerAndTheInjectedFailure) {
  const RunCase c = cases_of(tiny({{"optimizer", {{"kind", "adamw"}, {"learning_rate", 0.5}}},
                                   {"inject_failure", {{"rank", 1}, {"update", 3}}}}))
                        .front();
  EXPECT_EQ(c.optimizer.kind, OptimizerSpec::Kind::adamw);
  EXPECT_DOUBLE_EQ(c.optimizer.learning_rate, 0.5);
  EXPECT_EQ(c.fail_rank, 1);
  EXPECT_EQ(c.fail_update, 3);
}

TEST(ExpandCase, PipelinesBesideEachOtherDivideTheRanks) {
  const RunCase c = cases_of(tiny({{"ranks", 4}, {"data_parallel", 2}, {"layout", "pipelines"}}))[0];
  EXPECT_EQ(c.data_parallel, 2);
  EXPECT_EQ(to_json(c).at("layout"), "pipelines");
  // One pipeline has no layout, and cases from before there were several keep their digests.
  const Json one = to_json(cases_of(tiny({{"layout", "pipelines"}}))[0]);
  for (const char* key : {"data_parallel", "layout", "sharding"}) EXPECT_FALSE(one.contains(key));
  EXPECT_EQ(error_in(tiny({{"ranks", 3}, {"data_parallel", 2}})),
            "s.json: /grid/0/data_parallel: 2 pipelines do not divide 3 ranks; choose ranks that "
            "are a multiple");
  EXPECT_EQ(error_in(tiny({{"sharding", "zero"}})),
            "s.json: /grid/0/sharding: unknown value 'zero'; known: system, none, "
            "optimizer, use, visit, update");
}

TEST(ExpandCase, TheDigestKnowsWhatMattersOnly) {
  const auto name_of = [](const Json& entry) { return digest_of(cases_of(entry).front()); };
  EXPECT_EQ(name_of(tiny()), name_of(tiny({{"steps", 100}, {"ranks", 2}})));
  EXPECT_EQ(name_of(tiny()), name_of(tiny({{"timeout_seconds", 9}})));
  EXPECT_NE(name_of(tiny()), name_of(tiny({{"steps", 101}})));
  EXPECT_NE(name_of(tiny()), name_of(tiny({{"seed", 2}})));
  EXPECT_NE(name_of(tiny()), name_of(tiny({{"system", "gpipe"}, {"step", "barrier"}})));
  EXPECT_EQ(cases_of(tiny({{"system", "gpipe"}, {"step", "barrier"}})).front().step, UpdateStart::barrier);
  EXPECT_EQ(cases_of(tiny({{"system", "pipedream"}, {"step", "barrier"}})).front().step, UpdateStart::free)
      << "it has no flush to wait at";
  EXPECT_NE(name_of(tiny()), name_of(tiny({{"optimizer", {{"learning_rate", 0.5}}}})));
  EXPECT_EQ(name_of(tiny()), name_of(tiny({{"pin", "none"}})));
}

struct BadInput {
  std::string name;
  Json entry;
  std::string error;  // the whole message, or its beginning if it ends in "..."
};
void PrintTo(const BadInput& bad, std::ostream* out) { *out << bad.name; }

class BadCase : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadCase, IsRejectedWithItsPlace) {
  const std::string found = error_in(GetParam().entry);
  std::string expected = GetParam().error;
  if (expected.ends_with("...")) {
    expected.resize(expected.size() - 3);
    EXPECT_EQ(found.substr(0, expected.size()), expected) << found;
  } else {
    EXPECT_EQ(found, expected);
  }
  EXPECT_EQ(found.find('\n'), std::string::npos);
}

const BadInput kBad[] = {
    {"system", tiny({{"system", "gpip"}}), "s.json: /grid/0/system: unknown system 'gpip'; did you mean 'gpipe'?"},
    {"system_type", tiny({{"system", 3}}), "s.json: /grid/0/system: must be a text, is number"},
    {"no_system", {{"workload", "tiny"}}, "s.json: /grid/0/system: is missing"},
    {"no_workload", {{"system", "gpipe"}}, "s.json: /grid/0/workload: is missing"},
    {"workload", tiny({{"workload", "tinny"}}),
     "s.json: /grid/0/workload: unknown workload 'tinny'; did you mean 'tiny'?"},
    {"key", tiny({{"rank", 2}}), "s.json: /grid/0/rank: unknown key 'rank'; did you mean 'ranks'?"},
    {"option", tiny({{"options", {{"bakward", "lifo"}}}}),
     "s.json: /grid/0/options: unknown option 'bakward'; did you mean 'backward'?"},
    {"option_without_a_name", tiny({{"options", {{"", "paper"}, {"backward", "lifo"}}}}),
     "s.json: /grid/0/options: unknown option ''..."},
    {"option_value", tiny({{"options", {{"backward", "last"}}}}),
     "s.json: /grid/0/options: option 'backward': unknown value 'last'..."},
    {"options_type", tiny({{"options", 3}}), "s.json: /grid/0/options: must be an object, is number"},
    {"clock", tiny({{"clock", "wal"}}), "s.json: /grid/0/clock: unknown value 'wal'; did you mean 'wall'?"},
    {"ranks_type", tiny({{"ranks", "2"}}), "s.json: /grid/0/ranks: must be an integer, is string"},
    {"ranks_fraction", tiny({{"ranks", 2.5}}), "s.json: /grid/0/ranks: must be an integer, is number"},
    {"ranks_zero", tiny({{"ranks", 0}}), "s.json: /grid/0/ranks: is 0; must be at least 1"},
    {"ranks_negative", tiny({{"ranks", -1}}), "s.json: /grid/0/ranks: is -1; must be at least 1"},
    {"ranks_huge", tiny({{"ranks", 5'000'000'000}}),
     "s.json: /grid/0/ranks: 5000000000 is too large; must be at most 1000000000"},
    {"batch_zero", tiny({{"batch", 0}}), "s.json: /grid/0/batch: is 0; must be at least 1"},
    {"microbatches_zero", tiny({{"microbatches", 0}}), "s.json: /grid/0/microbatches: is 0; must be at least 1"},
    {"indivisible", tiny({{"microbatches", 3}}),
     "s.json: /grid/0/microbatches: 3 micro-batches do not divide the batch of 64..."},
    {"seed_negative", tiny({{"seed", -1}}), "s.json: /grid/0/seed: is -1; must be at least 0"},
    {"steps_zero", tiny({{"steps", 0}}), "s.json: /grid/0/steps: is 0; must be at least 1"},
    {"steps_negative", tiny({{"steps", -5}}), "s.json: /grid/0/steps: is -5..."},
    {"both",
     {{"system", "gpipe"}, {"workload", "fmnist_mlp"}, {"steps", 5}, {"epochs", 1}},
     "s.json: /grid/0/steps: give epochs or steps, not both"},
    {"epochs_without_data", tiny({{"epochs", 2}}),
     "s.json: /grid/0/epochs: workload 'tiny' has no data set; give steps"},
    {"evaluations_zero", tiny({{"evaluations_per_epoch", 0}}),
     "s.json: /grid/0/evaluations_per_epoch: is 0; must be at least 1"},
    {"train_type", tiny({{"train", "yes"}}), "s.json: /grid/0/train: must be true or false, is string"},
    {"train_on_the_wall", tiny({{"train", false}}), "s.json: /grid/0/train: the wall clock always trains"},
    {"full_size", tiny({{"workload", "vgg16"}}),
     "s.json: /grid/0/workload: 'vgg16' is a full-size declaration for the virtual clock..."},
    {"virtual_mpi", tiny({{"clock", "virtual"}, {"transport", "mpi"}}),
     "s.json: /grid/0/transport: the virtual clock runs in one process; leave transport out"},
    {"nccl_without_gpus", tiny({{"transport", "nccl"}}),
     "s.json: /grid/0/transport: nccl connects GPUs; use --device cuda, or threads"},
    {"transport", tiny({{"transport", "thread"}}),
     "s.json: /grid/0/transport: unknown value 'thread'; did you mean 'threads'?"},
    {"device", tiny({{"device", "cpus"}}), "s.json: /grid/0/device: unknown value 'cpus'; did you mean 'cpu'?"},
    {"weight_gradient", tiny({{"weight_gradient", "batch"}}),
     "s.json: /grid/0/weight_gradient: unknown value 'batch'; did you mean 'batched'?"},
    {"step", tiny({{"step", "barier"}}), "s.json: /grid/0/step: unknown value 'barier'; did you mean 'barrier'?"},
    {"pin", tiny({{"pin", "cores"}}), "s.json: /grid/0/pin: unknown value 'cores'; did you mean 'core'?"},
    {"pin_of_no_rank", tiny({{"pin", "core"}, {"clock", "virtual"}}),
     "s.json: /grid/0/pin: the virtual clock has no ranks to pin"},
    {"timeout", tiny({{"timeout_seconds", -1}}), "s.json: /grid/0/timeout_seconds: must not be negative"},
    {"optimizer_kind", tiny({{"optimizer", {{"kind", "adm"}}}}),
     "s.json: /grid/0/optimizer/kind: unknown value 'adm'; did you mean 'adam'?"},
    {"optimizer_key", tiny({{"optimizer", {{"momentun", 0.9}}}}),
     "s.json: /grid/0/optimizer/momentun: unknown key 'momentun'; did you mean 'momentum'?"},
    {"optimizer_rate", tiny({{"optimizer", {{"learning_rate", -0.1}}}}),
     "s.json: /grid/0/optimizer/learning_rate: must not be negative"},
    {"optimizer_momentum", tiny({{"optimizer", {{"kind", "adam"}, {"momentum", 0.9}}}}),
     "s.json: /grid/0/optimizer/momentum: belongs to sgd, not to adam; leave it out"},
    {"optimizer_nesterov", tiny({{"optimizer", {{"kind", "sgd"}, {"momentum", 0}, {"nesterov", true}}}}),
     "s.json: /grid/0/optimizer/nesterov: has no effect without momentum; give a momentum above 0, or leave it out"},
    {"boundary_of_no_training",
     tiny({{"clock", "virtual"}, {"cluster", "flat:2"}, {"train", false}, {"steps", 3}, {"purpose", "boundary"}}),
     "s.json: /grid/0/train: a divergence boundary needs a real training; use a case that trains"},
    {"boundary_of_epochs", tiny({{"workload", "fmnist_mlp"}, {"epochs", 1}, {"purpose", "boundary"}}),
     "s.json: /grid/0/steps: a divergence boundary needs the loss of every update; give steps instead of epochs"},
    {"slowdown", tiny({{"clock", "virtual"}, {"cluster", "flat:4"}, {"slowdown", "1,2"}}),
     "s.json: /grid/0/slowdown: is of real ranks; give a cluster whose devices differ in speed"},
    {"throttle", tiny({{"clock", "virtual"}, {"cluster", "flat:4"}, {"throttle", "0-7:rate=1GB/s"}}),
     "s.json: /grid/0/throttle: is of real links; give a cluster with such links"},
    {"excluded", tiny({{"system", "!gpipe"}}),
     "s.json: /grid/0/system: excludes every system that it names; name those that remain, too: [\"*\", \"!gpipe\"]"},
    {"raw_costs", tiny({{"costs", "raw"}}), "s.json: /grid/0/costs: raw is for published profiles..."},
    {"failure_killed_thread", tiny({{"inject_failure", {{"rank", 1}, {"move", 0}, {"killed", true}}}}),
     "s.json: /grid/0/inject_failure/killed: ends a rank's process, and ranks are threads here; "
     "give \"transport\": \"mpi\""},
    {"failure_key", tiny({{"inject_failure", {{"rank", 1}}}}), "s.json: /grid/0/inject_failure/update: is missing"},
    {"cluster", tiny({{"clock", "virtual"}, {"cluster", "flatt:4"}}),
     "s.json: /grid/0/cluster: unknown cluster 'flatt:4'; did you mean 'flat:4'?"},
    {"cluster_size", tiny({{"clock", "virtual"}, {"cluster", "flat:4"}, {"ranks", 5}}),
     "s.json: /grid/0/ranks: 5 ranks on a cluster of 4 devices..."},
    {"costs", tiny({{"costs", "profle"}}), "s.json: /grid/0/costs: no such file 'profle'..."},
    {"empty_list", tiny({{"ranks", Json::array()}}),
     "s.json: /grid/0/ranks: is an empty list; give at least one value"},
    {"empty_option_list", tiny({{"options", {{"backward", Json::array()}}}}),
     "s.json: /grid/0/options/backward: is an empty list; give at least one value"},
    {"not_an_object", Json(3), "s.json: /grid/0: must be an object, is number"},
    {"null", tiny({{"ranks", nullptr}}), "s.json: /grid/0/ranks: must be an integer, is null"},
};

INSTANTIATE_TEST_SUITE_P(Sweeps, BadCase, ::testing::ValuesIn(kBad), [](const auto& bad) { return bad.param.name; });

TEST(ExpandCase, AMillionCombinationsAreTooMany) {
  Json many = Json::array();
  for (int i = 1; i <= 1100; ++i) many.push_back(i);
  EXPECT_EQ(error_in(tiny({{"seed", many}, {"steps", many}})),
            "s.json: /grid/0: more than 100000 combinations; cut the lists, or make several sweeps");
}

class SweepFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-case-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/mine.json";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Sweep load(const std::string& text) const {
    std::ofstream(path_) << text;
    return load_sweep(path_);
  }
  std::string error(const std::string& text) const {
    return error_of([&] { load(text); });
  }
  std::string folder_, path_;
};

TEST_F(SweepFile, IsNamedAfterItsFile) {
  const Sweep sweep = load(R"({"grid": [{"system": "gpipe", "workload": "tiny"}]})");
  EXPECT_EQ(sweep.name, "mine");
  EXPECT_EQ(sweep.title, "mine");
  EXPECT_EQ(sweep.cases.size(), 1u);
}

TEST_F(SweepFile, DefaultsFillWhatAnEntryLeavesOut) {
  const Sweep sweep = load(R"({"name": "n", "title": "t",
    "defaults": {"system": "gpipe", "workload": "tiny", "ranks": 4, "seed": [1, 2]},
    "grid": [{}, {"ranks": 3, "seed": 9}]})");
  EXPECT_EQ(sweep.title, "t");
  ASSERT_EQ(sweep.cases.size(), 3u);
  EXPECT_EQ(sweep.cases[1].ranks, 4);
  EXPECT_EQ(sweep.cases[1].seed, 2u);
  EXPECT_EQ(sweep.cases[2].ranks, 3);
  EXPECT_EQ(sweep.cases[2].seed, 9u);
}

TEST_F(SweepFile, OneDeviceIsTheSameExperimentUnderEveryRankCount) {
  const Sweep sweep = load(R"({"grid": [{"system": ["single_device", "gpipe"], "workload": "tiny",
                                         "ranks": [2, 3, 4]}]})");
  EXPECT_EQ(sweep.cases.size(), 4u);
  EXPECT_EQ(sweep.combinations, 6u);
  EXPECT_EQ(sweep.experiments, 4u);
  EXPECT_EQ(std::ranges::count(sweep.cases, "single_device", &RunCase::system), 1);
}

TEST_F(SweepFile, SaysWhatHasNoEffectInAnyCombinationOfAnEntry) {
  const Sweep sweep =
      load(R"({"defaults": {"workload": "tiny", "clock": "virtual", "cluster": "flat:4", "train": false},
    "grid": [{"system": ["gpipe", "zero_bubble"], "queue": 7, "layout": ["groups", "pipelines"],
              "data_parallel": [1, 2]},
             {"system": "zero_bubble", "options": {"variant": ["h1", "h2"], "memory": [2, 3]}}]})");
  EXPECT_EQ(sweep.combinations, 12u);
  EXPECT_EQ(sweep.cases.size(), 7u);  // the layout of one pipeline and the memory have no effect; h1 is in both
  EXPECT_EQ(sweep.without_effect,
            (std::vector<std::string>{path_ + ": /grid/0/queue: only inference through several stages has queues",
                                      path_ + ": /grid/1/options/memory: only with variant=auto"}));
}

TEST_F(SweepFile, NamesADefaultOnceIfItHasNoEffectInAnyEntryThatTakesIt) {
  const Sweep sweep = load(R"({"defaults": {"workload": "tiny", "clock": "virtual", "cluster": "flat:4", "train": false,
                                            "queue": 7, "layout": "groups"},
    "grid": [{"system": "gpipe"}, {"system": "zero_bubble"}, {"system": "gpipe", "data_parallel": 2},
             {"system": "gpipe", "ranks": 2, "queue": 6}]})");
  EXPECT_EQ(sweep.without_effect,
            (std::vector<std::string>{path_ + ": /defaults/queue: only inference through several stages has queues",
                                      path_ + ": /grid/3/queue: only inference through several stages has queues"}));
}

TEST_F(SweepFile, ARateToBeTunedHasAnEffect) {
  const Sweep sweep = load(R"({"defaults": {"workload": "tiny", "optimizer": {"kind": "adam", "learning_rate": "tuned"},
                                            "tune": {"learning_rate": [0.01, 0.1], "seed": 7}},
                              "grid": [{"system": "gpipe", "ranks": 2}]})");
  EXPECT_EQ(sweep.without_effect, std::vector<std::string>{});
}

TEST_F(SweepFile, HasALimitOfCombinationsInAll) {
  const std::string entry = R"({"system": "gpipe", "workload": "tiny", "steps": [1,2,3,4,5,6,7,8,9,10],
    "batch": [8,16,24,32,40,48,56,64,72,80], "seed": [1,2,3,4,5,6,7,8,9,10], "ranks": [1,2,3,4,5,6,7,8],
    "microbatches": [1,2,4,8]})";  // 32,000
  EXPECT_EQ(error(R"({"grid": [)" + entry + "," + entry + "," + entry + "," + entry + "]}"),
            path_ + ": /grid: more than 100000 combinations; cut the lists, or make several sweeps");
}

TEST_F(SweepFile, TheSameEntryTwiceIsOneCase) {
  const std::string entry = R"({"system": "gpipe", "workload": "tiny"})";
  EXPECT_EQ(load(R"({"grid": [)" + entry + "," + entry + "]}").cases.size(), 1u);
}

TEST_F(SweepFile, BrokenJsonNamesTheLine) {
  const std::string message = error("{\n  \"grid\": [\n    {\"system\" \"gpipe\"}\n  ]\n}\n");
  EXPECT_TRUE(message.starts_with(path_ + ":3:")) << message;
  EXPECT_NE(message.find("is not JSON"), std::string::npos) << message;
}

TEST_F(SweepFile, MissingFileFolderAndEmptyFile) {
  EXPECT_TRUE(error_of([&] { load_sweep(path_); }).starts_with(path_ + ": no such file"));
  EXPECT_TRUE(error_of([&] { load_sweep(folder_); }).starts_with(folder_ + ": is a folder"));
  EXPECT_TRUE(error("").starts_with(path_ + ":1:1: is not JSON"));
}

TEST_F(SweepFile, EmptyOrMissingGrid) {
  EXPECT_EQ(error(R"({"grid": []})"), path_ + ": /grid: must be a list of at least one object");
  EXPECT_EQ(error(R"({"grid": {}})"), path_ + ": /grid: must be a list of at least one object");
  EXPECT_EQ(error("{}"), path_ + ": /grid: is missing");
  EXPECT_EQ(error("[]"), path_ + ": /: must be an object, is array");
  EXPECT_EQ(error(R"({"grid": [3]})"), path_ + ": /grid/0: must be an object, is number");
}

TEST_F(SweepFile, UnknownKeyAtTheTop) {
  const std::string message = error(R"({"gird": [], "grid": [{"system": "*", "workload": "tiny"}]})");
  EXPECT_EQ(message, path_ + ": /gird: unknown key 'gird'; did you mean 'grid'?");
}

TEST_F(SweepFile, NamesThatAreNotPlain) {
  for (const char* name : {"", "a/b", "../x"})
    EXPECT_EQ(error(R"({"name": ")" + std::string(name) + R"(", "grid": [{}]})"),
              path_ + ": /name: '" + name +
                  "' is not a plain name of at most 100 printable characters; it names files: no slash or space, and "
                  "no dot or dash in front");
}

TEST_F(SweepFile, TheSecondEntryIsNamed) {
  const std::string message = error(R"({"grid": [{"system": "gpipe", "workload": "tiny"},
                                                 {"system": "gpipe", "workload": "tinny"}]})");
  EXPECT_TRUE(message.starts_with(path_ + ": /grid/1/workload: unknown workload")) << message;
}

TEST(Sweeps, OfTheRepositoryCanBeRead) {
  std::filesystem::current_path(SLUICE_SOURCE_DIR);  // as their commands are given
  for (const auto& entry : std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/harness/sweeps"))
    if (entry.path().extension() == ".json") {
      EXPECT_FALSE(load_sweep(entry.path().string()).cases.empty()) << entry.path();
    }
}

TEST(Sweeps, TheFullOneHasEveryWorkloadButThoseOfYourOwnData) {
  const std::set<std::string> fetched = {"synthetic", "fashion-mnist", "movie-reviews", "libreoffice-de",
                                         "jargon-file"};
  std::set<std::string> missing;
  for (const Workload& workload : all_workloads())
    if (workload.file.empty() && fetched.contains(workload.dataset)) missing.insert(workload.name);
  for (const RunCase& c : load_sweep(SLUICE_SOURCE_DIR "/harness/sweeps/full.json").cases) missing.erase(c.workload);
  EXPECT_EQ(missing, std::set<std::string>{});
}

}  // namespace
}  // namespace sluice
