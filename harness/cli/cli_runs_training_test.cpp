// Runs as a user meets them: cases that fail, diverge, are tuned, broken off or gone on with.
#include <cmath>

#include "harness/cli/cli_test_support.h"
#include "harness/exec/co_runs.h"

namespace sluice {
namespace {

TEST_F(Cli, AFailingRankIsARecordAndTheNextCaseStillRuns) {
  const std::string out = at("r.jsonl");
  const Json grid = {{{"inject_failure", {{"rank", 1}, {"update", 3}}}, {"seed", 1}}, {{"seed", 2}}};
  const Json defaults = {{"system", "gpipe"}, {"workload", "tiny"}, {"steps", 20}, {"ranks", 2}, {"costs", "analytic"}};
  const std::string file = put("s.json", Json{{"defaults", defaults}, {"grid", grid}}.dump());
  EXPECT_EQ(sluice({"run", file, "--out", out}).code, 1);
  const auto found = records(out);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["outcome"], "failed");
  EXPECT_EQ(found[0]["failed_rank"], 1);
  EXPECT_EQ(found[1]["outcome"], "ok");
}

// Two inputs of different lengths, words and numbers, and a loss that reads both.
TEST_F(Cli, AWorkloadThatIsAFileTrainsOnBothClocksAlike) {
  const Json embed = {{"name", "embed"}, {"kind", "Embedding"}, {"vocabulary", 20}, {"width", 8}};
  const Json layers = {embed,
                       {{"name", "words"}, {"kind", "SequencePool"}, {"inputs", {"embed", -1}}},
                       {{"name", "numbers"}, {"kind", "Linear"}, {"in", 5}, {"out", 8}, {"inputs", Json::array({-2})}},
                       {{"name", "sum"}, {"kind", "Add"}, {"inputs", {"words", "numbers"}}},
                       {{"name", "tanh"}, {"kind", "Activation"}, {"function", "tanh"}},
                       {{"name", "head"}, {"kind", "Linear"}, {"in", 8}, {"out", 3}},
                       {{"name", "loss"}, {"kind", "CrossEntropyLoss"}}};
  const Json inputs = {{{"shape", Json::array({6})}, {"token_ids", true}}, {{"shape", Json::array({5})}}};
  const Json model = {{"schema", "sluice/model/1"}, {"name", "two"}, {"inputs", inputs}, {"layers", layers}};
  const std::string file = put("two.json", Json{{"schema", "sluice/workload/1"},
                                                {"model", model},
                                                {"batch", 16},
                                                {"microbatches", 4},
                                                {"optimizer", {{"learning_rate", 0.2}}}}
                                               .dump());
  const Arguments run = {"run", "--workload", file, "--steps", "30", "--costs", "analytic", "--out", at("r.jsonl")};
  for (const Arguments& more :
       {Arguments{"--system", "single_device"}, Arguments{"--system", "1f1b"}, Arguments{"--system", "pipedream"},
        Arguments{"--system", "1f1b", "--clock", "virtual", "--cluster", "flat:2"}}) {
    Arguments all = run;
    all.insert(all.end(), more.begin(), more.end());
    const Finished f = sluice(all);
    EXPECT_EQ(f.code, 0) << f.err;
  }
  const auto found = records(at("r.jsonl"));
  ASSERT_EQ(found.size(), 4u);
  for (const Json& r : found) {
    EXPECT_EQ(r["workload"], file);
    EXPECT_EQ(r["options"]["workload_digest"].get<std::string>().size(), 16u);
    EXPECT_EQ(r["workload_facts"]["parameters"], 20 * 8 + 5 * 8 + 8 + 8 * 3 + 3);
    EXPECT_LT(r["curve"].back()["loss"].get<double>(), r["curve"][0]["loss"].get<double>());
  }
  EXPECT_EQ(found[1]["curve"].back()["loss"], found[3]["curve"].back()["loss"]);
  EXPECT_NEAR(found[0]["curve"].back()["loss"].get<double>(), found[1]["curve"].back()["loss"].get<double>(), 1e-5);
  const Finished profiled = sluice({"profile", "--workload", file, "--neighbours", "0"});
  EXPECT_EQ(profiled.code, 0) << profiled.err;
  EXPECT_NE(profiled.out.find("\"embed\""), std::string::npos);
}

// How much slower depends on the machine: only that the rows are whole, and that DynPipe takes them, is held here.
TEST_F(Cli, ProfileMeasuresCoRunsAndDynPipeLearnsFromThem) {
  if (co_run_cores() == 0) GTEST_SKIP() << "threads cannot be put on cores here";
  const std::string rows = at("co_runs.json");
  const std::string published =
      put("published.csv", "gpu,victim,beside,steps,n,slowdown\nk80,a,x,2,1,1.5\nk80,b,x,4,1,3\n");
  const Finished profiled = sluice(
      {"profile", "--workload", "tiny", "--co-run", "--seconds", "0.02", "--published", published, "--out", rows});
  ASSERT_EQ(profiled.code, 0) << profiled.err;
  EXPECT_NE(profiled.err.find(", 2 published rows\n"), std::string::npos) << profiled.err;
  EXPECT_NE(profiled.err.find("mean squared error "), std::string::npos) << profiled.err;
  const Json json = Json::parse(content(rows));
  const auto loads = static_cast<std::size_t>(3 * 4 * co_run_cores());  // resources, shares, cores
  ASSERT_EQ(json["loads"].size(), loads);
  ASSERT_EQ(json["rows"].size(), 24 * loads);
  for (const Json& row : json["rows"]) {
    EXPECT_EQ(row["features"].size(), 7u);
    const double slowdown = row["slowdown"].get<double>();
    EXPECT_TRUE(std::isfinite(slowdown) && slowdown > 0) << slowdown;
  }
  EXPECT_TRUE(std::isfinite(json["held_out"]["mean_squared_error"].get<double>()));
  const Arguments run = {"run",
                         "--system",
                         "dynpipe",
                         "--workload",
                         "tiny",
                         "--ranks",
                         "2",
                         "--clock",
                         "virtual",
                         "--cluster",
                         "flat:2,speed=0.01",
                         "--no-train",
                         "--steps",
                         "300",
                         "--interference",
                         "compute:1@1-x3",
                         "--out",
                         at("r.jsonl"),
                         "--set"};
  for (const std::string& set : {"forest=" + rows, "published=" + published}) {
    Arguments all = run;
    all.push_back(set);
    const Finished f = sluice(all);
    EXPECT_EQ(f.code, 0) << f.err;
  }
  const auto found = records(at("r.jsonl"));
  ASSERT_EQ(found.size(), 2u);
  for (const Json& record : found) EXPECT_EQ(record["outcome"], "ok");
}

TEST_F(Cli, ADivergedRunIsAResultNotAFailure) {
  write_test_data(folder_);
  const Variables data = {{"SLUICE_DATA", folder_}};
  const std::string out = at("r.jsonl"), file = training({{"optimizer", {{"learning_rate", 3}}}});
  const Finished f = sluice({"run", file, "--out", out}, data);
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.err.find("diverged at update "), std::string::npos) << f.err;
  EXPECT_NE(f.out.find("not reached 0/2"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("0/2 ok, 2 diverged, the first at update "), std::string::npos) << f.out;
  const auto found = records(out);
  ASSERT_EQ(found.size(), 2u);
  for (const Json& r : found) {
    EXPECT_EQ(r["outcome"], "diverged");
    EXPECT_EQ(r["curve"].size(), r["diverged_at"]);
    EXPECT_EQ(r["curve"].back()["loss"], "NaN");
  }
  // A result is not run again.
  EXPECT_EQ(sluice({"run", file, "--out", out, "--resume"}, data).code, 0);
  EXPECT_EQ(records(out).size(), 2u);
  EXPECT_NE(sluice({"export", out}).out.find(",diverged,"), std::string::npos);
}

TEST_F(Cli, ATunedSweepRunsItsSearchOnceAndShowsEqualAndTunedApart) {
  write_test_data(folder_);
  const Variables data = {{"SLUICE_DATA", folder_}};
  const std::string out = at("r.jsonl"),
                    file = training({{"optimizer", {{"learning_rate", {0.01, "tuned"}}}},
                                     {"tune", {{"learning_rate", {0.02, 0.05, 3}}, {"steps", 20}}}});
  const Finished dry = sluice({"run", file, "--dry-run"});
  EXPECT_EQ(lines(dry.out).size(), 7u) << dry.out;
  EXPECT_NE(dry.out.find("seed 101, tuning: rate 0.02"), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("seed 1, rate to be tuned"), std::string::npos) << dry.out;
  const Finished f = sluice({"run", file, "--out", out}, data);
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("learning rate 0.01, momentum 0.9\n"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("learning rate tuned, momentum 0.9\n"), std::string::npos) << f.out;
  int searched = 0, tuned = 0;
  for (const Json& r : records(out)) {
    searched += r["purpose"] == "tune";
    if (r["tuning"].empty()) continue;
    ++tuned;
    EXPECT_EQ(r["tuning"]["results"].size(), 3u);
    EXPECT_EQ(r["tuning"]["results"][2]["outcome"], "diverged");
    EXPECT_EQ(r["tuning"]["criterion"], "training loss");
    EXPECT_EQ(r["options"]["optimizer"]["learning_rate"], r["tuning"]["chosen"]);
  }
  EXPECT_EQ(searched, 3);
  EXPECT_EQ(tuned, 2);
  const Finished again = sluice({"run", file, "--out", out, "--resume"}, data);
  EXPECT_NE(again.err.find("7 of 7 cases were finished before"), std::string::npos) << again.err;
  const Json compared = document({"compare", out, "--json"});
  ASSERT_EQ(compared.size(), 2u);
  EXPECT_EQ(compared[0]["learning_rate_policy"], "equal");
  EXPECT_EQ(compared[1]["learning_rate_policy"], "tuned");
}

TEST_F(Cli, ABoundaryIsReadFromItsRecords) {
  write_test_data(folder_);
  const std::string out = at("r.jsonl"), file = training({{"system", {"single_device", "pipedream"}},
                                                          {"purpose", "boundary"},
                                                          {"epochs", 0},
                                                          {"steps", 40},
                                                          {"optimizer", {{"learning_rate", {0.02, 3}}}}});
  const Finished f = sluice({"run", file, "--out", out}, {{"SLUICE_DATA", folder_}});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("Largest stable learning rate"), std::string::npos) << f.out;
  const Json b = document({"compare", out, "--metric", "largest_stable_rate", "--json"});
  ASSERT_EQ(b.size(), 1u);
  ASSERT_EQ(b[0]["rows"].size(), 2u);
  for (const Json& row : b[0]["rows"]) EXPECT_EQ(row["largest_stable_rate"], 0.02);
  EXPECT_EQ(document({"compare", out, "--json"}), Json::array());
}

TEST_F(Cli, InjectedFailureOfOneCase) {
  const std::string out = at("r.jsonl");
  const Finished f = sluice({"run", "--system", "gpipe", "--workload", "tiny", "--ranks", "2", "--steps", "20",
                             "--inject-failure", "1:3", "--out", out});
  EXPECT_EQ(f.code, 1);
  EXPECT_NE(f.err.find("failed (rank 1)"), std::string::npos) << f.err;
  ASSERT_EQ(records(out).size(), 1u);
  EXPECT_EQ(records(out)[0]["outcome"], "failed");
}

TEST_F(Cli, ATimeOutIsARecord) {
  const std::string out = at("r.jsonl");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(sluice({"run", sweep(1, 10'000'000, {{"timeout_seconds", 0.2}}), "--out", out}).code, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  ASSERT_EQ(records(out).size(), 1u);
  EXPECT_EQ(records(out)[0]["outcome"], "timed_out");
}

TEST_F(Cli, ResumeRunsOnlyWhatIsMissing) {
  const std::string out = at("r.jsonl"), file = sweep(3, 4);
  ASSERT_EQ(sluice({"run", file, "--out", out}).code, 0);
  const std::string all = content(out);
  const Finished again = sluice({"run", file, "--out", out, "--resume"});
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(content(out), all);
  EXPECT_NE(again.err.find("3 of 3 cases were finished before"), std::string::npos) << again.err;
  // The second record is taken out and the third torn in its middle.
  const auto stored = lines(all);
  put("r.jsonl", stored[0] + "\n" + stored[2].substr(0, stored[2].size() / 2));
  const Finished rest = sluice({"run", file, "--out", out, "--resume"});
  EXPECT_EQ(rest.code, 0);
  EXPECT_NE(rest.err.find("torn"), std::string::npos) << rest.err;
  EXPECT_EQ(seeds(out), (std::multiset<int>{1, 2, 3}));
  EXPECT_TRUE(content(out).starts_with(stored[0] + "\n"));
  EXPECT_TRUE(fs::exists(out + ".torn"));
}

// True once `path` holds at least one whole line.
bool has_a_record(const std::string& path) {
  for (int i = 0; i < 3000; ++i) {
    if (content(path).find('\n') != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

TEST_F(Cli, AKilledSweepIsCompletedByResume) {
  const std::string out = at("r.jsonl"), file = sweep(4, 300);
  const pid_t child = start({"run", file, "--out", out});
  const bool began = has_a_record(out);
  ::kill(child, SIGKILL);
  wait(child);
  ASSERT_TRUE(began);
  EXPECT_EQ(sluice({"run", file, "--out", out, "--resume"}).code, 0);
  EXPECT_EQ(seeds(out), (std::multiset<int>{1, 2, 3, 4}));
  for (const Json& r : records(out)) EXPECT_EQ(r["outcome"], "ok");
}

TEST_F(Cli, AnInterruptKeepsWhatIsFinishedAndTellsHowToGoOn) {
  const std::string out = at("r.jsonl");
  Json grid = Json::array();
  for (const int steps : {4, 10'000'000})
    grid.push_back({{"system", "gpipe"}, {"workload", "tiny"}, {"steps", steps}, {"costs", "analytic"}});
  const pid_t child = start({"run", put("s.json", Json{{"grid", grid}}.dump()), "--out", out});
  const bool began = has_a_record(out);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(child, began ? SIGINT : SIGKILL);
  const Finished f = wait(child);
  EXPECT_EQ(f.code, 1) << f.err;
  EXPECT_NE(f.err.find("--resume"), std::string::npos) << f.err;
  ASSERT_EQ(records(out).size(), 1u);
  EXPECT_EQ(records(out)[0]["outcome"], "ok");
}

TEST_F(Cli, ADryRunWritesNothing) {
  const std::string file = sweep(3, 4);
  const Finished f = sluice({"run", file, "--out", at("deep/r.jsonl"), "--dry-run"});
  EXPECT_EQ(f.code, 0);
  EXPECT_EQ(lines(f.out).size(), 3u);
  EXPECT_FALSE(fs::exists(at("deep")));
}

TEST_F(Cli, ShardsCoverAllCasesOnce) {
  const std::string out = at("r.jsonl"), file = sweep(5, 4);
  for (const char* shard : {"0/2", "1/2"}) EXPECT_EQ(sluice({"run", file, "--out", out, "--shard", shard}).code, 0);
  EXPECT_EQ(seeds(out), (std::multiset<int>{1, 2, 3, 4, 5}));
}

TEST_F(Cli, OneSeedForAllMakesEqualCasesOne) {
  EXPECT_EQ(document({"run", sweep(3, 4), "--seed", "9", "--dry-run", "--json"}).size(), 1u);
}

}  // namespace
}  // namespace sluice
