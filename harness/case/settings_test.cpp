// The table of settings: every setting survives JSON; flags and help follow from it; digests stay what they were.
#include "harness/case/settings.h"

#include <gtest/gtest.h>
#include <sluice_build.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/sweep.h"
#include "results/store.h"
#include "workloads/models/registry.h"
#include "workloads/models/workload_file.h"

namespace sluice {
namespace {

const std::string kFileWithExperts = SLUICE_SOURCE_DIR "/harness/tests/fuzz/corpus/workload/hf_mixtral.json";

RunCase read(const Json& entry) { return resolve({entry, in_file("s.json", "/grid/0")}); }

const Setting& setting_of(const std::string& key) {
  const auto found = std::ranges::find(settings(), key, &Setting::key);
  if (found == settings().end()) throw std::logic_error("no setting " + key);
  return *found;
}

Json tiny_workload() { return to_json(find_workload("tiny")); }

// Of this process: tests run side by side.
std::string workload_file() {
  static const struct File {
    std::string path = testing::TempDir() + "settings_test_workload." + std::to_string(::getpid()) + ".json";
    File() { std::ofstream(path) << tiny_workload().dump(); }
    ~File() { std::filesystem::remove(path); }
  } file;
  return file.path;
}

std::string interference_file() {
  static const struct File {
    std::string path = testing::TempDir() + "settings_test_interference." + std::to_string(::getpid()) + ".json";
    File() { std::ofstream(path) << R"({"episodes": []})"; }
    ~File() { std::filesystem::remove(path); }
  } file;
  return file.path;
}

// An entry that a value of `key` other than the default goes with.
Json entry_with(const std::string& key, const Json& value) {
  Json entry = {{"system", "gpipe"}, {"workload", "tiny"}};
  if (key == "evaluation" || key == "leftover")
    entry = {{"system", "pipedream_2bw"}, {"workload", "fmnist_mlp"}, {"microbatches", 4}};
  if (key == "epochs" || key == "evaluations_per_epoch") entry["workload"] = "fmnist_mlp";
  if (key == "workload_digest") entry["workload"] = workload_file();
  if (key == "file_digests") entry["interference"] = interference_file();
  if (key == "queue") entry["task"] = "inference";
  if (key == "layout" || key == "gradient_buckets" || key == "sharding") entry["data_parallel"] = 2;
  if (key == "experts") {
    entry["data_parallel"] = 2;
    entry["workload"] = kFileWithExperts;
  }
  if (key == "update") entry["system"] = "pipedream";
  if (key == "cluster" || key == "costs" || key == "train" || key == "cuts") entry["clock"] = "virtual";
  if (key == "precision" || key == "attention") {
    entry["clock"] = "virtual";
    entry["workload"] = "gpt_tiny";
  }
  if (key == "tune") entry["optimizer"] = {{"learning_rate", "tuned"}};
  if (key == "transport") entry["device"] = "cuda";
  entry[key] = value;
  return entry;
}

// A value of each setting that is not its default in entry_with; of a choice: each of its names. None: it takes more
// than this build has.
std::vector<Json> other_values(const Setting& setting) {
  static const std::map<std::string, Json> values = {
      {"system", "one_f_one_b"},
      {"options", {{"backward", "fifo"}}},
      {"workload", "fmnist_mlp"},
      {"cluster", "flat:3"},
      {"costs", "profile"},
      {"ranks", 4},
      {"data_parallel", 2},
      {"gradient_buckets", "100MB"},
      {"stages", "2"},
      {"tensor", 2},
      {"batch", 128},
      {"microbatches", 16},
      {"microbatch_sizes", {3, 1}},
      {"seed", 7},
      {"epochs", 3},
      {"steps", 9},
      {"queue", 9},
      {"workload_digest", digest(tiny_workload())},
      {"file_digests", "interference:" + digest(R"({"episodes": []})")},
      {"evaluations_per_epoch", 2},
      {"train", false},
      {"interference", "compute:1@10-20x2"},
      {"slowdown", "1,2"},
      {"throttle", "rate=100Mbit/s,latency=1ms"},
      {"timeout_seconds", 2.5},
      {"optimizer", {{"kind", "sgd"}, {"learning_rate", 0.5}, {"schedule", {{"kind", "step"}, {"every_epochs", 2}}}}},
      {"clip_norm", 0.5},
      {"tune", {{"learning_rate", {0.1, 0.2}}, {"seed", 9}, {"steps", 5}}},
      {"inject_failure", {{"rank", 1}, {"update", 3}}}};
  if (setting.value.choices.empty()) return {values.at(setting.key)};
  std::vector<Json> choices;
  for (const std::string& name : setting.value.choices)
    if (setting.key != "pin" && setting.key != "interference_by" && name != "mpi") choices.emplace_back(name);
  return choices;
}

TEST(Settings, EachIsReadIntoTheCaseAndWrittenBack) {
  for (const Setting& setting : settings())
    for (const Json& value : other_values(setting)) {
      const RunCase c = read(entry_with(setting.key, value));
      const Json written = setting.value.write(c);
      if (value.is_object()) {
        for (const auto& item : value.items()) {
          const Json& found = written.at(item.first);
          EXPECT_EQ(found.is_object() ? found.at("kind") : found,
                    found.is_object() ? item.second.at("kind") : item.second)
              << setting.key;
        }
      } else {
        EXPECT_EQ(written, value) << setting.key;
      }
    }
}

// GPT-like numbers: a batch of 512 in micro-batches of 4.
TEST(Settings, ClippingNeedsTheGradientsOfAllStagesAtOnce) {
  EXPECT_EQ(read({{"system", "gpipe"}, {"workload", "tiny"}, {"clip_norm", 1}}).optimizer.clip_norm, 1);
  EXPECT_EQ(error_of([] {
              read({{"system", "pipedream"}, {"workload", "tiny"}, {"clip_norm", 1}});
            }),
            "s.json: /grid/0/clip_norm: pipedream updates every stage at its own time, so that the gradients of all "
            "stages, whose "
            "norm it is, never exist at once; leave clip_norm out, or use a system with a flush");
  EXPECT_EQ(read({{"system", "pipedream"}, {"workload", "tiny"}, {"clip_norm", 0}}).optimizer.clip_norm, 0);
}

TEST(Settings, AnAsynchronousSystemUpdatesAfterTheBatchOrAfterEveryMicroBatch) {
  const auto of = [](const char* system, const char* update) {
    const RunCase c =
        read({{"system", system}, {"workload", "tiny"}, {"batch", 512}, {"microbatches", 128}, {"update", update}});
    return std::pair(c.batch, c.microbatches);
  };
  EXPECT_EQ(of("pipedream", "batch"), std::pair(std::int64_t{512}, 1));
  EXPECT_EQ(of("pipedream", "micro_batch"), std::pair(std::int64_t{4}, 1));
  // Those that accumulate, and synchronous ones, update after the batch.
  EXPECT_EQ(of("pipedream_2bw", "micro_batch"), std::pair(std::int64_t{512}, 128));
  EXPECT_EQ(of("gpipe", "micro_batch"), std::pair(std::int64_t{512}, 128));
  // It is the case of that batch: one digest.
  const Json small = {{"system", "pipedream"}, {"workload", "tiny"}, {"batch", 4}, {"microbatches", 1}};
  const Json asked = {
      {"system", "pipedream"}, {"workload", "tiny"}, {"batch", 512}, {"microbatches", 128}, {"update", "micro_batch"}};
  EXPECT_EQ(digest_of(read(small)), digest_of(read(asked)));
}

TEST(Settings, ValuesThatDecideNothingAreNamed) {
  using Named = std::map<std::string, std::string>;
  const auto named = [](const Json& values) { return read_case({values, in_file("s.json", "")}).without_effect; };
  const Json pipedream = {{"system", "pipedream"}, {"workload", "tiny"}, {"batch", 512}, {"microbatches", 64}};
  EXPECT_TRUE(named(pipedream).contains("/microbatches"));
  EXPECT_EQ(named(pipedream).size(), 1u);
  Json every = pipedream;
  every["update"] = "micro_batch";
  EXPECT_EQ(named(every), Named{});
  Json synchronous = every;
  synchronous["system"] = "gpipe";
  EXPECT_EQ(named(synchronous), (Named{{"/update", "it has a flush, accumulates gradients or infers"}}));
  const Json zero_bubble = {
      {"system", "zero_bubble"},
      {"workload", "tiny"},
      {"clock", "virtual"},
      {"train", false},
      {"seed", 5},
      {"queue", 8},
      {"options", {{"memory", 3}}},
      {"optimizer", {{"kind", "adam"}, {"learning_rate", 0.5}, {"schedule", {{"kind", "polynomial"}}}}}};
  EXPECT_EQ(named(zero_bubble), (Named{{"/options/memory", "only with variant=auto"},
                                       {"/optimizer/learning_rate", "nothing is trained"},
                                       {"/optimizer/schedule", "nothing is trained"},
                                       {"/queue", "only inference through several stages has queues"},
                                       {"/seed", "nothing is trained"}}));
  EXPECT_EQ(named(to_json(read(synchronous))), Named{}) << "the canonical JSON";
}

TEST(Settings, TheShardingOfASystemIsOnlyWithoutOneOfTheCase) {
  const Json zero = {
      {"system", "one_f_one_b"}, {"workload", "tiny"},       {"clock", "virtual"}, {"data_parallel", 2},
      {"train", false},          {"options", {{"zero", 3}}}, {"ranks", 4},         {"cluster", "flat:4"}};
  Json none = zero;
  none["sharding"] = "none";
  Json plain = none;
  plain.erase("options");
  const ReadCase read_none = read_case({none, in_file("s.json", "")});
  EXPECT_EQ(read_none.without_effect,
            (std::map<std::string, std::string>{{"/options/zero", "only with sharding=system"}}));
  EXPECT_EQ(digest_of(read_none.c), digest_of(read(plain)));
  EXPECT_TRUE(read_case({zero, in_file("s.json", "")}).without_effect.empty());
}

TEST(Settings, ThePairShareOfAClusterIsOfOrdersWithPairs) {
  const auto with = [](const std::string& system, const std::string& cluster) {
    return Json{{"system", system}, {"workload", "tiny"}, {"clock", "virtual"}, {"cluster", cluster}};
  };
  const std::string plain = "flat:4,latency=1us", paired = "flat:4,pair_share=0.75,latency=1us";
  EXPECT_EQ(digest_of(read(with("gpipe", paired))), digest_of(read(with("gpipe", plain))));
  EXPECT_EQ(read_case({with("gpipe", paired), in_file("s.json", "")}).without_effect,
            (std::map<std::string, std::string>{{"/cluster/pair_share", "no op runs in an overlapped pair"}}));
  EXPECT_NE(digest_of(read(with("dualpipe", paired))), digest_of(read(with("dualpipe", plain))));
  const std::string overlap = "flat:4,pairs=overlap,latency=1us";
  EXPECT_EQ(digest_of(read(with("dualpipe", overlap))), digest_of(read(with("dualpipe", plain))));
  const auto tensor = [&](const std::string& system, const std::string& cluster) {
    Json entry = with(system, cluster);
    entry.update(Json{{"workload", "tfm256"}, {"ranks", 4}, {"tensor", 2}});
    return digest_of(read(entry));
  };
  EXPECT_NE(tensor("dualpipe", overlap), tensor("dualpipe", plain));
  EXPECT_EQ(tensor("gpipe", overlap), tensor("gpipe", plain));
}

TEST(Settings, AnOptionWhoseConditionDoesNotHoldMakesNoOtherCase) {
  const auto digest = [](const Json& options, const char* task) {
    return digest_of(read({{"system", "pipedream_2bw"}, {"workload", "tiny"}, {"task", task}, {"options", options}}));
  };
  const std::string plain = digest(Json::object(), "train");
  EXPECT_EQ(digest({{"memory", "accounted"}}, "train"), plain);
  EXPECT_NE(digest({{"memory", "accounted"}, {"planner", "paper"}}, "train"), digest({{"planner", "paper"}}, "train"));
  EXPECT_NE(digest({{"recompute", "yes"}}, "train"), plain);
  EXPECT_EQ(digest({{"recompute", "yes"}}, "inference"), digest(Json::object(), "inference"));
}

// gpt_1.3b has a batch of 512 in 128 micro-batches.
TEST(Settings, AGivenBatchIsCutIntoAsManyMicroBatchesAsDivideItAndTheWorkloadsOwn) {
  const auto cut = [](int batch) {
    return read({{"system", "gpipe"},
                 {"workload", "gpt_1.3b"},
                 {"clock", "virtual"},
                 {"train", false},
                 {"batch", batch}})
        .microbatches;
  };
  EXPECT_EQ(cut(512), 128);
  EXPECT_EQ(cut(64), 64);
  EXPECT_EQ(cut(96), 32);
  EXPECT_EQ(cut(7), 1);
}

TEST(Settings, GivenStagesAscendAndAreOfPipelines) {
  const auto rejected = [](const char* stages) {
    return error_of([&] { read({{"system", "gpipe"}, {"workload", "tiny"}, {"stages", stages}}); });
  };
  EXPECT_EQ(read({{"system", "gpipe"}, {"workload", "tiny"}, {"stages", "1,2"}}).first_layers, (std::vector{1, 2}));
  for (const char* stages : {"2,1", "1,1", "0", "a", "1,,2", "1 2"})
    EXPECT_NE(rejected(stages).find("/grid/0/stages"), std::string::npos) << stages << ": " << rejected(stages);
  for (const char* whole : {"single_device", "data_parallel"})
    EXPECT_EQ(read({{"system", whole}, {"workload", "tiny"}, {"stages", "2"}}).first_layers, std::vector<int>())
        << whole;
}

TEST(Settings, TheCanonicalJsonMakesTheSameCaseAgain) {
  for (const Setting& setting : settings())
    for (const Json& value : other_values(setting)) {
      const Json once = to_json(read(entry_with(setting.key, value)));
      EXPECT_EQ(to_json(read(once)), once) << setting.key;
    }
}

// Every setting at random, and the options of the system. What cannot be together is passed over.
TEST(Settings, TheJsonOfAnyCaseMakesTheSameCaseAgain) {
  std::mt19937 random(2025);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const auto one_of = [&](const auto& list) { return list[below(list.size())]; };
  const std::vector<std::string> workloads = {"tiny",  "fmnist_mlp",    "fmnist_cnn",    "gpt_tiny",
                                              "vgg16", workload_file(), kFileWithExperts};
  std::map<std::string, std::set<std::string>> seen;  // values in the JSON of cases, by setting
  int cases = 0;
  for (int k = 0; k < 20'000 && cases < 3000; ++k) {
    const System& system = *one_of(all_systems());
    Json entry = {{"system", system.name}, {"workload", one_of(workloads)}, {"clock", below(3) ? "virtual" : "wall"}};
    for (const Setting& setting : settings()) {
      static const std::set<std::string> elsewhere = {"system", "options",      "workload",        "clock",
                                                      "tune",   "file_digests", "workload_digest", "costs"};
      // Of several ranks, where the case has one: what the case says of the others is an error when it is read again.
      static const std::set<std::string> of_ranks = {"interference", "slowdown", "throttle"};
      if (system.one_process && of_ranks.contains(setting.key)) continue;
      if (elsewhere.contains(setting.key) || below(4)) continue;
      const std::vector<Json> values = other_values(setting);
      if (!values.empty()) entry[setting.key] = one_of(values);
    }
    if (below(4) == 0) entry["gradient_buckets"] = one_of(std::vector<std::string>{"end", "25MB", "1500kB"});
    if (below(8) == 0) {
      entry["optimizer"] = {{"learning_rate", "tuned"}};
      entry["tune"] = {{"learning_rate", {0.1, 0.2}}, {"steps", 5}};
    }
    for (const OptionSpec& option : system.options)
      if (!option.choices.empty() && below(4) == 0) entry["options"][option.name] = one_of(option.choices);
    std::optional<RunCase> c;
    try {
      c = read(entry);
    } catch (const InputError&) {
      continue;
    }
    ++cases;
    std::vector<RunCase> all = {*c};
    if (c->tune)
      for (const double rate : c->tune->learning_rates) {
        all.push_back(*c);
        all.back().optimizer.learning_rate = rate;  // as chosen
      }
    for (const RunCase& one : all) {
      const Json json = to_json(one);
      const RunCase again = read(json);
      ASSERT_EQ(to_json(again), json) << entry.dump();
      ASSERT_EQ(digest_of(again), digest_of(one)) << entry.dump();
      for (const auto& [key, value] : json.items()) seen[key].insert(value.dump());
    }
  }
  EXPECT_GE(cases, 1000);
  for (const Setting& setting : settings())
    for (const Json& value : other_values(setting)) {
      const bool is_choice = !setting.value.choices.empty() && value != setting.value.write(RunCase{});
      if (!is_choice) continue;
      EXPECT_TRUE(seen[setting.key].contains(value.dump())) << setting.key << ": " << value.dump();
    }
  EXPECT_TRUE(seen["gradient_buckets"].contains("\"end\""));
}

// What digests leave out is not what the setting's default is: the JSON says it.
TEST(Settings, TheJsonOfACaseSaysWhatItsDigestLeavesOut) {
  const Json entry = {{"system", "data_parallel"}, {"workload", "tiny"}, {"gradient_buckets", "end"}};
  EXPECT_EQ(to_json(read(entry))["gradient_buckets"], "end");
  const Json chain = {{"system", "gpipe"}, {"workload", "tiny"}, {"clock", "virtual"}, {"cuts", "compute"}};
  EXPECT_EQ(to_json(read(chain))["cuts"], "compute");
  Json hashed = to_json(read(chain));
  hashed.erase("cuts");
  hashed.erase("gradient_buckets");
  EXPECT_EQ(digest_of(read(chain)), digest(hashed));
}

TEST(Settings, BucketsOfGradientsAreOfCasesThatCanHaveReplicas) {
  const auto buckets = [](Json entry) {
    entry["workload"] = "tiny";
    return to_json(read(entry))["gradient_buckets"].get<std::string>();
  };
  EXPECT_EQ(buckets({{"system", "gpipe"}, {"data_parallel", 2}}), "25MB");
  EXPECT_EQ(buckets({{"system", "gpipe"}, {"data_parallel", 2}, {"gradient_buckets", "1500kB"}}), "1500000B");
  EXPECT_EQ(buckets({{"system", "data_parallel"}}), "25MB");
  EXPECT_EQ(buckets({{"system", "fsdp"}}), "25MB");
  EXPECT_EQ(buckets({{"system", "chimera"}}), "25MB");
  EXPECT_EQ(buckets({{"system", "pipedream"}, {"options", {{"planner", "paper"}}}}), "25MB");
  EXPECT_EQ(buckets({{"system", "data_parallel"}, {"gradient_buckets", "end"}}), "end");
  for (const char* without : {"gpipe", "single_device", "pipedream", "pipedream_2bw", "zero_bubble"})
    EXPECT_EQ(buckets({{"system", without}}), "end") << without;
  EXPECT_EQ(buckets({{"system", "data_parallel"}, {"ranks", 1}}), "end");
  EXPECT_EQ(buckets({{"system", "one_f_one_b"}, {"data_parallel", 2}, {"task", "inference"}}), "end");
  for (const char* size : {"0B", "-1MB", "25"})
    EXPECT_NE(error_of([&] {
                read({{"system", "data_parallel"}, {"workload", "tiny"}, {"gradient_buckets", size}});
              }).find("/grid/0/gradient_buckets"),
              std::string::npos)
        << size;
}

TEST(Settings, TheDigestKnowsThoseThatTheTableSays) {
  for (const Setting& setting : settings())
    for (const Json& value : other_values(setting)) {
      const RunCase c = read(entry_with(setting.key, value));
      const Json written = setting.value.write(c);
      Json without = to_json(c);
      const bool in_json = without.contains(setting.key);
      without.erase(setting.key);
      // Its other settings are hashed as before.
      for (const char* key : {"gradient_buckets", "cuts"})
        if (const Json* other = without.find(key); other && *other == setting_of(key).before) without.erase(key);
      const bool left_out =
          setting.in_digest == InDigest::never || !in_json ||
          (setting.in_digest == InDigest::unless_as_before && written == setting.before) ||
          (setting.in_digest == InDigest::unless_default && written == setting.value.write(RunCase{}));
      EXPECT_EQ(digest_of(c) == digest(without), left_out) << setting.key << " " << value.dump();
    }
}

TEST(Settings, KeysAndFlagsAreUnique) {
  std::set<std::string> keys, flags;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    if (!setting.has_flag) continue;
    EXPECT_TRUE(flags.insert(flag_of(setting)).second) << setting.key;
  }
  EXPECT_EQ(flag_of(setting_of("weight_gradient")), "--weight-gradient");
  EXPECT_EQ(flag_of(setting_of("timeout_seconds")), "--timeout");
  EXPECT_EQ(place_of_flag("/timeout_seconds"), "--timeout");
  EXPECT_EQ(place_of_flag("/optimizer/beta1"), "--optimizer beta1");
  EXPECT_EQ(place_of_flag("/optimizer"), "--optimizer");
  EXPECT_EQ(place_of_flag("/options/chunks"), "--set");
  EXPECT_EQ(place_of_flag("/tune"), "'tune', which only a sweep can give");
  EXPECT_EQ(place_of_flag(""), "command line");
}

TEST(Settings, HelpNamesEveryChoiceAndTheDefault) {
  for (const Setting& setting : settings()) {
    if (!setting.has_flag) continue;
    EXPECT_FALSE(setting.help.empty()) << setting.key;
    EXPECT_FALSE(setting.help.ends_with('.')) << setting.key;
    for (const std::string& name : setting.value.choices)
      EXPECT_NE(help_of(setting).find(name), std::string::npos) << setting.key;
  }
  EXPECT_TRUE(help_of(setting_of("device")).starts_with("cpu (default) or cuda: "));
  EXPECT_TRUE(help_of(setting_of("transport")).starts_with("threads (default), mpi or nccl: "));
  EXPECT_TRUE(help_of(setting_of("seed")).ends_with(" (default: 1)"));
  EXPECT_TRUE(help_of(setting_of("batch")).ends_with(" (default: the workload's)"));
}

TEST(Settings, AMisspeltKeyOrChoiceIsSuggested) {
  for (const Setting& setting : settings()) {
    const std::string known = error_of([&] {
      read({{"system", "gpipe"}, {"workload", "tiny"}, {setting.key + "x", 1}});
    });
    EXPECT_NE(known.find("did you mean '" + setting.key + "'?"), std::string::npos) << known;
    if (setting.value.choices.empty()) continue;
    const std::string name = setting.value.choices.front();
    const std::string choice = error_of([&] { read(entry_with(setting.key, name + "x")); });
    EXPECT_TRUE(choice.starts_with("s.json: /grid/0/" + setting.key + ": unknown value '" + name + "x'")) << choice;
  }
}

TEST(Settings, ARecordNamesThoseThatTellRunsApart) {
  EXPECT_EQ(record_options(read({{"system", "gpipe"}, {"workload", "tiny"}})),
            (std::map<std::string, std::string>{{"weight_gradient", "per_microbatch"}}));
  EXPECT_EQ(record_options(read({{"system", "gpipe"},
                                 {"workload", "tiny"},
                                 {"data_parallel", 2},
                                 {"sharding", "optimizer"},
                                 {"step", "barrier"}})),
            (std::map<std::string, std::string>{{"weight_gradient", "per_microbatch"},
                                                {"data_parallel", "2"},
                                                {"gradient_buckets", "25MB"},
                                                {"layout", "groups"},
                                                {"sharding", "optimizer"},
                                                {"step", "barrier"}}));
}

template <ClosedChoice E>
std::set<std::string> all_names() {
  std::set<std::string> names;
  for (const Choice<E>& choice : Choices<E>::all) names.insert(choice.name);
  return names;
}

TEST(Settings, TheSchemaOfRecordsHasTheirChoices) {
  const Json schema = parse_json_file(SLUICE_SOURCE_DIR "/results/record.schema.json");
  const auto names = [&](const char* key) {
    return schema.at("properties").at(key).at("enum").get<std::set<std::string>>();
  };
  EXPECT_EQ(names("clock"), all_names<Clock>());
  EXPECT_EQ(names("transport"), all_names<TransportKind>());
  EXPECT_EQ(names("purpose"), all_names<Purpose>());
}

// The cases of the repository's sweeps, by the digests that their records have, in order. The file's lines: SWEEP
// DIGEST. A digest that changes parts the records that there are from their cases; a new sweep, or a new system in a
// sweep over all systems, needs no line.
TEST(Settings, CasesKeepTheirDigests) {
  std::map<std::string, std::vector<std::string>> recorded;
  std::ifstream file(SLUICE_SOURCE_DIR "/harness/case/testdata/digests.txt");
  for (std::string sweep, name; file >> sweep >> name;) recorded[sweep].push_back(name);
  ASSERT_FALSE(recorded.empty());
  for (const auto& [sweep, expected] : recorded) {
    const std::string path = SLUICE_SOURCE_DIR "/harness/sweeps/" + sweep + ".json";
    std::size_t found = 0;
    for (const RunCase& c : load_sweep(path).cases)
      if (found < expected.size() && digest_of(c) == expected[found]) ++found;
    EXPECT_EQ(found, expected.size()) << path << ": no case has digest "
                                      << expected[std::min(found, expected.size() - 1)];
  }
}

// Records of these were made before a case knew what its cluster's file holds.
TEST(Settings, AShippedFileAsItWasRecordedAddsNothingToADigest) {
  for (const char* name :
       {"dgx_a100_x2", "edge_mixed_16", "edge_rates_9", "heterogeneous_edge", "rcc_ve_16", "summit_v100",
        "summit_v100,bandwidth=1GB/s", "two_level_v100", "uneven_3", "uneven_4", "uneven_v100", "flat:4"})
    EXPECT_EQ(read({{"system", "gpipe"}, {"workload", "tiny"}, {"clock", "virtual"}, {"cluster", name}}).file_digests,
              "")
        << name;
  EXPECT_EQ(read({{"system", "gpipe"},
                  {"workload", "tiny"},
                  {"clock", "virtual"},
                  {"cluster", "summit_v100"},
                  {"costs", "calibrated"}})
                .file_digests,
            "");
}

// A case with every setting that is not always part of the digest.
TEST(Settings, ACaseWithEverySettingKeepsItsDigest) {
  const RunCase c = read({{"system", "gpipe"},
                          {"workload", "tiny"},
                          {"clock", "virtual"},
                          {"ranks", 4},
                          {"data_parallel", 2},
                          {"gradient_buckets", "end"},
                          {"cuts", "compute"},
                          {"layout", "pipelines"},
                          {"sharding", "visit"},
                          {"step", "barrier"},
                          {"purpose", "boundary"},
                          {"optimizer",
                           {{"kind", "sgd"},
                            {"momentum", 0.9},
                            {"nesterov", true},
                            {"dampening", 0.1},
                            {"schedule", {{"kind", "polynomial"}, {"power", 2}}}}},
                          {"inject_failure", {{"rank", 1}, {"update", 3}}}});
  EXPECT_EQ(digest_of(c), "caa2157c2211c8a3");
  const RunCase snapshot = read({{"system", "pipedream_2bw"},
                                 {"workload", "fmnist_mlp"},
                                 {"microbatches", 4},
                                 {"evaluation", "snapshot"},
                                 {"optimizer", {{"learning_rate", "tuned"}, {"momentum_ema", true}}},
                                 {"tune", {{"learning_rate", {0.2, 0.1}}, {"epochs", 1}}}});
  EXPECT_EQ(digest_of(snapshot), "e3a12e56f95e78ac");
  const RunCase partial =
      read({{"system", "pipedream_2bw"}, {"workload", "fmnist_mlp"}, {"microbatches", 4}, {"leftover", "partial"}});
  EXPECT_EQ(digest_of(partial), "1309223df75f51a7");
}

}  // namespace
}  // namespace sluice
