// Command lines and files that a hostile user would try, one line each: the exit code, what the error says, and that
// the answer comes at once, in our own words. harness/case/README.md documents the codes.
#include <sys/stat.h>

#include "harness/cli/cli_test_support.h"
#include "harness/exec/mpi/mpi.h"
#include "results/store.h"

namespace sluice {
namespace {

struct Attempt {
  Arguments arguments;
  std::vector<std::string> says;  // all in the error line
  int code = 2;
};

class HostileInput : public Cli {
 protected:
  void expect(const std::vector<Attempt>& attempts, const Variables& variables = {}) const {
    for (const Attempt& attempt : attempts) {
      SCOPED_TRACE(::testing::PrintToString(attempt.arguments));
      const auto begin = std::chrono::steady_clock::now();
      const Finished finished = sluice(attempt.arguments, variables);
      expect_error(finished, attempt.code, attempt.says);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(kSeconds));
      for (const char* words : {"json.exception", "vector::", "basic_string", "filesystem error",
                                "std::", "c10::", "terminate", "internal error", "bad_alloc"})
        EXPECT_EQ(finished.err.find(words), std::string::npos) << finished.err;
    }
  }
  // A run of one case on the virtual clock, with more flags.
  static Arguments run(Arguments more) {
    Arguments all = {"run",    "--system", "gpipe", "--workload", "tiny",    "--clock",    "virtual", "--cluster",
                     "flat:2", "--ranks",  "2",     "--out",      "a.jsonl", "--progress", "none"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Arguments plan(const std::string& system, const std::string& workload) {
    return {"plan", "--system", system, "--workload", workload, "--cluster", "flat:2"};
  }
  std::string sweep_file(const std::string& name, const Json& more) const {
    Json entry = {{"system", "gpipe"},   {"workload", "tiny"},  {"clock", "virtual"},
                  {"cluster", "flat:2"}, {"costs", "analytic"}, {"train", false}};
    entry.update(more);
    return put(name, Json({{"grid", Json::array({entry})}}).dump());
  }
  std::string cost_file(const std::string& name, const Json& seconds, const Json& parameters = 10) const {
    Json costs = {
        {"schema", "sluice/cost_graph/1"}, {"model", "m"}, {"source", "p"}, {"device", "c"}, {"micro_batch", 4},
        {"layers", Json::array()}};
    for (int l = 0; l < 4; ++l)
      costs["layers"].push_back({{"name", "l" + std::to_string(l)},
                                 {"inputs", Json::array({l - 1})},
                                 {"forward", seconds},
                                 {"input_gradient", seconds},
                                 {"weight_gradient", seconds},
                                 {"update", 0},
                                 {"parameters", parameters},
                                 {"output", 10}});
    return put(name, costs.dump());
  }

  static constexpr int kSeconds = 120;  // tells an answer from a search or a wait without end, on any machine
};

TEST_F(HostileInput, AbsurdNumbersAreRejectedWhereTheyAreRead) {
  expect({{run({"--steps", "1000000000"}), {"--steps", "1000000000"}},
          {run({"--batch", "4000000000000000000"}), {"--batch"}},
          {run({"--microbatches", "2305843009213693952"}), {"--microbatches"}},
          {run({"--steps", "1e999"}), {"--steps"}},
          {run({"--steps", "2", "--timeout", "-1"}), {"--timeout"}},
          {run({"--steps", "2", "--inject-failure", "4294967297:1"}), {"--inject-failure", "RANK:UPDATE"}},
          {run({"--steps", "2", "--inject-failure", "1:5"}), {"--inject-failure", "no case has an update 5"}},
          {run({"--steps", "2", "--no-train", "--inject-failure", "1:1"}), {"--inject-failure", "no case trains"}},
          {run({"--epochs", "0"}), {"--epochs: is 0"}},
          {run({"--set", "backward=lifo", "--set", "backward=fifo"}), {"--set", "'backward' is given twice"}},
          {{"run", "--system", "gpipe", "--workload", "tiny", "--cluster", "flat:2", "--out", "a.jsonl"},
           {"--cluster: 'flat:2' is simulated", "leave cluster out"}},
          {run({"--steps", "2", "--shard", "1/0"}), {"--shard"}},
          {{"plan", "--system", "gpipe", "--workload", "tiny", "--batch", "9000000000000000000"}, {"--batch"}},
          {{"plan", "--system", "gpipe", "--workload", "tiny", "--cluster", "flat:99999999999"}, {"flat:99999999999"}},
          {{"schedule", "--system", "1f1b", "--costs", "1e308/1/1"}, {"--costs"}},
          {{"schedule", "--system", "1f1b", "--microbatches", "99999999999"}, {"--microbatches"}}});
}

TEST_F(HostileInput, CostsThatNoMachineTakesReachNoPlanner) {
  cost_file("absurd.json", 1e308);
  cost_file("heavy.json", 0.1, 9'000'000'000'000'000'000);
  for (const char* system : {"torchgpipe", "graphpipe", "dapple", "piper", "pipedream", "spp", "2bw"})
    expect({{plan(system, "absurd.json"), {"absurd.json", "forward"}},
            {plan(system, "heavy.json"), {"heavy.json", "parameters"}}});
  put("piper.json",
      R"({"mbsInBatch": 4294967296, "bandwidth": 1, "maxMemoryPerDevice": 1, "maxDevices": 1, "nodes": [],
          "edges": []})");
  expect({{plan("piper", "piper.json"), {"piper.json"}}});
}

TEST_F(HostileInput, CostFilesAreReadBeforeAnythingRuns) {
  put("broken.json", "{");
  expect({{run({"--steps", "2", "--costs", "none.json"}), {"no such file 'none.json'"}},
          {run({"--steps", "2", "--costs", "broken.json"}), {"broken.json"}},
          {run({"--steps", "2", "--costs", cost_file("other.json", 0.1)}), {"layers"}}});
  EXPECT_FALSE(fs::exists(at("a.jsonl")));
}

TEST_F(HostileInput, WhatIsNoFileIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(at("pipe.json").c_str(), 0600), 0);
  fs::create_symlink("two", at("one"));
  fs::create_symlink("one", at("two"));
  const std::string longest(300, 'x');
  expect({{{"run", "pipe.json"}, {"pipe.json"}},
          {{"compare", "pipe"}, {"pipe"}},
          {run({"--steps", "2", "--costs", "pipe.json"}), {"pipe.json"}},
          {{"plan", "--system", "gpipe", "--workload", "tiny", "--cluster", "pipe.json"}, {"pipe.json"}},
          {{"compare", "one"}, {"one"}},
          {{"run", "one"}, {"one"}},
          {{"run", longest}, {longest}},
          {{"compare", longest}, {longest}},
          {{"run", sweep_file("s.json", {{"ranks", 2}}), "--out", longest}, {longest}},
          {{"compare", "."}, {"folder"}}});
}

TEST_F(HostileInput, DeepAndHugeFilesAreRejected) {
  put("deep.json", std::string(100'000, '[') + std::string(100'000, ']'));
  put("objects.json", [] {
    std::string text;
    for (int k = 0; k < 100'000; ++k) text += "{\"a\":";
    return text + "1" + std::string(100'000, '}');
  }());
  put("models.yml", std::string(200'000, '['));
  put("device_types.yml", "parameters_out:");
  put("deep.yml", "parameters_out: " + std::string(200'000, '['));
  Json seeds = Json::array();
  for (int k = 0; k < 1000; ++k) seeds.push_back(k);
  sweep_file("many.json", {{"seed", seeds}, {"batch", seeds}, {"ranks", seeds}});
  expect({{{"run", "deep.json"}, {"deep.json"}},
          {{"run", "objects.json"}, {"objects.json"}},
          {{"compare", "deep.json"}, {"deep.json"}},
          {plan("gpipe", "deep.yml"), {"brackets"}},
          {{"run", "many.json"}, {"many.json", "combinations"}}});
}

TEST_F(HostileInput, ASweepsNameStaysInItsFolder) {
  for (const std::string name : {"..", ".", "a/b", "-x", "a b", "\x1b[31m", ""}) {
    put("named.json",
        Json({{"name", name}, {"grid", Json::array({Json({{"system", "gpipe"}, {"workload", "tiny"}})})}}).dump());
    expect({{{"run", "named.json"}, {"/name"}}});
  }
}

TEST_F(HostileInput, KeysThatStandTwiceAndNumbersOutOfRangeAreNamed) {
  put("twice.json", R"({"grid": [{"system": "gpipe", "workload": "tiny", "ranks": 2, "ranks": 3}]})");
  put("infinite.json", R"({"grid": [{"system": "gpipe", "workload": "tiny", "ranks": 1e999}]})");
  put("bytes.json", "{\"grid\": [{\"system\": \"gpipe\xff\", \"workload\": \"tiny\"}]}");
  expect({{{"run", "twice.json"}, {"ranks"}},
          {{"run", "infinite.json"}, {"infinite.json"}},
          {{"run", "bytes.json"}, {"bytes.json"}}});
}

TEST_F(HostileInput, NoShellReadsAFolderName) {
  const std::string home = at("'; touch broken; '");
  sluice(run({"--steps", "2", "--costs", "analytic"}), {{"SLUICE_HOME", home}});
  EXPECT_FALSE(fs::exists(at("broken")));
}

TEST_F(HostileInput, AnOutputReplacesNothingThatIsNotOurs) {
  const std::string sweep = sweep_file("s.json", {{"ranks", 2}});
  put("notes.txt", "my notes");
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/null", at("device"));
  fs::create_symlink("notes.txt", at("link"));
  fs::create_directory(at("folder"));
  const std::string binary = std::string(
                        "\x7f"
                        "ELF\0\1",
                        6),
                    sweep_text = content(sweep);
  put("binary", binary);
  const std::vector<std::pair<Arguments, std::string>> writers = {
      {{"run", "s.json"}, "--out"},
      {{"run", "s.json", "--resume", "--shard", "0/2"}, "--out"},
      {{"run", "--system", "gpipe", "--workload", "tiny", "--clock", "virtual"}, "--html"},
      {{"profile", "--workload", "fmnist_mlp"}, "--out"},
      {{"schedule", "--system", "1f1b"}, "--trace"},
      {{"advise", "--workload", "vgg16", "--cluster", "flat:2"}, "--csv"},
      {{"validate", "--records", "none.jsonl"}, "--chart"},
      {{"validate", "--quick"}, "--out"},
      {{"leaderboard"}, "--html"}};
  for (const auto& [command, flag] : writers)
    for (const char* name : {"notes.txt", "s.json", "binary", "pipe", "device", "link", "folder"}) {
      Arguments arguments = command;
      arguments.insert(arguments.end(), {flag, name});
      expect({{arguments, {name}}});
    }
  put("p.0.et", "my notes");
  expect({{{"export", "--format", "chakra", "--system", "1f1b", "--workload", "vgg16", "--cluster", "flat:2", "--out",
            "p"},
           {"p.0.et", "holds something else"}},
          {{"report", "s.json", "--out", "notes.txt"}, {}}});
  EXPECT_EQ(content(at("notes.txt")), "my notes");
  EXPECT_EQ(content(at("p.0.et")), "my notes");
  EXPECT_EQ(content(at("binary")), binary);
  EXPECT_EQ(content(sweep), sweep_text);
  EXPECT_TRUE(fs::is_fifo(at("pipe")));
  EXPECT_TRUE(fs::is_symlink(at("device")));
  EXPECT_TRUE(fs::is_symlink(at("link")));
}

TEST_F(HostileInput, APictureReplacesNothingThatIsNotOne) {
  ASSERT_EQ(
      sluice({"run", "-s", "gpipe", "-w", "tiny", "-n", "2", "--clock", "virtual", "--no-train", "--out", "a.jsonl"})
          .code,
      0);
  const std::string chart = "report/charts/throughput-tiny-virtual-analytic";
  fs::create_directories(at("report/charts"));
  fs::create_directories(at("drawn/.drawing"));
  for (const std::string& name : {std::string("throughput.pdf"), chart + ".svg", chart + ".png",
                                  std::string("report/charts/mine.vl.json"), std::string("drawn/.drawing/notes.txt")})
    put(name, "my notes");
  expect({{{"figure", "throughput", "a.jsonl"}, {"throughput.pdf", "holds something else than a PDF"}},
          {{"report", "a.jsonl", "--out", "report"}, {"analytic.svg", "holds something else than an SVG"}}});
  fs::remove(at(chart + ".svg"));
  expect({{{"report", "a.jsonl", "--out", "report", "--formats", "svg,png"}, {"analytic.png"}}});
  sluice({"figure", "throughput", "a.jsonl", "--out", "drawn"});  // with or without a renderer
  for (const std::string& name : {std::string("throughput.pdf"), chart + ".png",
                                  std::string("report/charts/mine.vl.json"), std::string("drawn/.drawing/notes.txt")})
    EXPECT_EQ(content(at(name)), "my notes") << name;
}

TEST_F(HostileInput, AnOutputReplacesItsOwnKind) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sluice({"schedule", "--system", "1f1b", "--trace", "t.json"}).code, 0);
    EXPECT_EQ(sluice({"advise", "-w", "vgg16", "-c", "flat:2", "-s", "1f1b", "--csv", "t.csv"}).code, 0);
    EXPECT_EQ(sluice({"export", "--format", "chakra", "--system", "zeropp", "--workload", "tfm256", "--cluster",
                      "flat:4", "--ranks", "4", "--out", "t"})
                  .code,
              0);
  }
}

TEST_F(HostileInput, VariablesOfALauncherWithoutOneAreNamed) {
  if (!mpi_built()) GTEST_SKIP() << "a build without MPI";
  const Arguments run = {"run", "-s", "gpipe", "-w", "fmnist_mlp", "-n", "2", "--steps", "2", "--out", "a.jsonl"};
  for (const char* transport : {"mpi", "threads"}) {
    Arguments arguments = run;
    arguments.insert(arguments.end(), {"--transport", transport});
    expect({{arguments, {"2 processes were started", "mpirun"}}},
           {{"OMPI_COMM_WORLD_SIZE", "2"},
            {"OMPI_COMM_WORLD_RANK", "1"},
            {"ASAN_OPTIONS", "detect_leaks=0"}});  // of Open MPI, which keeps what it allocates
  }
  EXPECT_FALSE(fs::exists(at("a.jsonl")));
}

TEST_F(HostileInput, EscapesInNamesDoNotReachTheTerminal) {
  const Finished finished = sluice({"run", "\x1b[31mred\x1b[0m"});
  EXPECT_EQ(finished.err.find('\x1b'), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("\\x1b[31m"), std::string::npos) << finished.err;
}

TEST_F(HostileInput, EscapesInFilesAndNamesOfOutputsDoNotReachStdout) {
  const std::string red = "\x1b[31mred";
  Json costs = Json::parse(content(cost_file("costs.json", 0.1)));
  costs["model"] = red;
  put("costs.json", costs.dump());
  Json cluster = Json::parse(content(std::string(SLUICE_SOURCE_DIR) + "/workloads/clusters/p40_x8.json"));
  cluster["name"] = red;
  put("cluster.json", cluster.dump());
  for (const Arguments& arguments :
       {Arguments{"list", "costs.json"},
        {"plan", "-s", "1f1b", "-w", "vgg16", "-c", "cluster.json"},
        {"advise", "-w", "vgg16", "-c", "cluster.json", "-s", "1f1b"},
        {"schedule", "-s", "1f1b", "-n", "2", "-m", "2", "--trace", "t.json"},
        {"advise", "-w", "costs.json", "-c", "flat:2", "-s", "1f1b", "--csv", red + ".csv"},
        {"export", "--format", "chakra", "-s", "1f1b", "-w", "tfm256", "-c", "flat:2", "--out", red},
        {"trace", "--out", red + ".json", "t.json"}}) {
    const Finished finished = sluice(arguments);
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ((finished.out + finished.err).find('\x1b'), std::string::npos) << finished.out << finished.err;
  }
}

TEST_F(HostileInput, WhatIsPrintedStaysOutOfTheRecordsWhereTheStandardFilesAreClosed) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int file : {0, 1, 2}) ::close(file);
    if (::chdir(folder_.c_str()) != 0) ::_exit(126);
    ::execl(SLUICE_PROGRAM, SLUICE_PROGRAM, "run", sweep_file("s.json", {{"ranks", 2}}).c_str(), "--out", "a.jsonl",
            nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(records(at("a.jsonl")).size(), 1u) << content(at("a.jsonl"));
}

TEST_F(HostileInput, TwoRunsIntoOneFileAreTold) {
  sweep_file("s.json", {{"ranks", 2}});
  fs::create_symlink("a.jsonl", at("symlink.jsonl"));
  {
    Store store(at("a.jsonl"));
    fs::create_hard_link(at("a.jsonl"), at("hardlink.jsonl"));
    store.claim(std::nullopt, [] {});
    for (const char* name : {"a.jsonl", "symlink.jsonl", "hardlink.jsonl"})
      expect({{{"run", "s.json", "--out", name}, {"another process is writing its results there"}},
              {{"run", "s.json", "--out", name, "--shard", "0/2"}, {"another process is writing"}}});
  }
  {
    Store store(at("a.jsonl"));
    store.claim(SweepPart{0, 2}, [] {});
    expect({{{"run", "s.json", "--out", "a.jsonl"}, {"another process is writing its results there"}},
            {{"run", "s.json", "--out", "symlink.jsonl", "--shard", "0/2"}, {"is writing this shard"}},
            {{"run", "s.json", "--out", "hardlink.jsonl", "--shard", "0/3"}, {"shards there that are not of 3"}}});
    EXPECT_EQ(content(at("a.jsonl")), "");
    EXPECT_EQ(sluice({"run", "s.json", "--out", "hardlink.jsonl", "--shard", "1/2"}).code, 0);
  }
  EXPECT_EQ(sluice({"run", "s.json", "--out", "a.jsonl"}).code, 0);
  EXPECT_EQ(sluice({"run", "s.json", "--out", "a.jsonl", "--resume"}).code, 0);
}

TEST_F(HostileInput, RejectionsThatDependOnTheCaseAloneAreNotRepeated) {
  sweep_file("s.json", {{"ranks", 2}, {"cluster", "flat:2,memory=1MiB"}, {"workload", "gpt_6.2b"}});
  EXPECT_EQ(sluice({"run", "s.json", "--out", "a.jsonl"}).code, 0);
  ASSERT_EQ(records(at("a.jsonl")).size(), 1u);
  EXPECT_NE(records(at("a.jsonl"))[0]["outcome"], "ok");
  EXPECT_EQ(sluice({"run", "s.json", "--out", "a.jsonl", "--resume"}).code, 0);
  EXPECT_EQ(records(at("a.jsonl")).size(), 1u);
}

TEST_F(HostileInput, PlanningObeysTheTimeLimitOfACase) {
  Json entry = long_planning();
  entry["timeout_seconds"] = 0.02;
  sweep_file("s.json", entry);
  const auto begin = std::chrono::steady_clock::now();
  const Finished finished = sluice({"run", "s.json", "--out", "a.jsonl"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(kSeconds));
  ASSERT_EQ(records(at("a.jsonl")).size(), 1u) << finished.err;
  const Json record = records(at("a.jsonl"))[0];
  EXPECT_EQ(record["outcome"], "timed_out") << record["reason"];
  EXPECT_EQ(finished.code, 1);
}

TEST_F(HostileInput, PlanningObeysSignals) {
  sweep_file("s.json", long_planning());
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = start({"run", "s.json", "--out", "a.jsonl"});
    for (int k = 0; k < 2000 && content(at(".err")).find("[1/1]") == std::string::npos; ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto begin = std::chrono::steady_clock::now();
    ::kill(child, number);
    const Finished finished = wait(child);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(kSeconds)) << number;
    EXPECT_EQ(finished.code, 1) << finished.err;
    EXPECT_NE(finished.err.find("--resume"), std::string::npos) << finished.err;
    fs::remove(at(".err"));
  }
  EXPECT_EQ(content(at("a.jsonl")), "");
}

TEST_F(HostileInput, HelpNamesTheExitCodes) {
  const Finished help = sluice({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("Exit codes: 0 done; 1"), std::string::npos) << help.out;
}

}  // namespace
}  // namespace sluice
