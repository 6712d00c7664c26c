// The program as a user meets it, one command after the other (hence its length): exit codes, what
// is on stdout and on stderr, and what is left on the disk when a run is broken off.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sluice_build.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "harness/tests/test_data.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Arguments = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

struct Finished {
  int code = -1;  // 128 + n: ended by signal n
  std::string out, err;
};

class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "sluice-cli-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
    return at(name);
  }

  // In the test's folder; stdout and stderr go into files there.
  pid_t start(const Arguments& arguments, const Variables& variables = {}, const std::string& out = "") const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (::chdir(folder_.c_str()) != 0) ::_exit(126);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    const auto redirect = [](const std::string& file, int to) {
      ::dup2(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), to);
    };
    redirect(out.empty() ? at(".out") : out, STDOUT_FILENO);
    redirect(at(".err"), STDERR_FILENO);
    std::vector<std::string> all = {SLUICE_PROGRAM};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& a : all) argv.push_back(a.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  Finished wait(pid_t child) const {
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(at(".out")), content(at(".err"))};
  }
  Finished sluice(const Arguments& arguments, const Variables& variables = {}) const {
    return wait(start(arguments, variables));
  }

  // Exactly one line on stderr begins with "error: ", and it is the last; it holds every text.
  static void expect_error(const Finished& f, int code, const std::vector<std::string>& texts) {
    EXPECT_EQ(f.code, code) << f.err;
    const auto all = lines(f.err);
    EXPECT_EQ(std::ranges::count_if(all, [](const auto& l) { return l.starts_with("error: "); }), 1) << f.err;
    ASSERT_FALSE(all.empty());
    EXPECT_TRUE(all.back().starts_with("error: ")) << f.err;
    for (const std::string& text : texts)
      EXPECT_NE(all.back().find(text), std::string::npos) << all.back() << "\nlacks " << text;
  }
  void refuses(const Arguments& arguments, const std::vector<std::string>& texts,
               const Variables& variables = {}) const {
    SCOPED_TRACE(::testing::PrintToString(arguments));
    const Finished f = sluice(arguments, variables);
    expect_error(f, 2, texts);
    EXPECT_EQ(f.out, "");
  }

  json document(const Arguments& arguments, int code = 0) const {
    const Finished f = sluice(arguments);
    EXPECT_EQ(f.code, code) << f.err;
    const json parsed = json::parse(f.out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << f.out.substr(0, 500);
    return parsed;
  }

  static std::vector<json> records(const std::string& path) {
    std::vector<json> result;
    for (const std::string& line : lines(content(path))) {
      result.push_back(json::parse(line, nullptr, false));
      EXPECT_TRUE(result.back().is_object()) << line.substr(0, 200);
    }
    return result;
  }
  static std::multiset<int> seeds(const std::string& path) {
    std::multiset<int> result;
    for (const json& r : records(path)) result.insert(r.value("seed", -1));
    return result;
  }

  // `cases` cases that differ in their seed, on the wall clock, with costs that need no measuring.
  std::string sweep(int cases, int steps, const json& more = json::object()) const {
    json entry = {{"system", "gpipe"}, {"workload", "tiny"},  {"ranks", 2},
                  {"steps", steps},    {"costs", "analytic"}, {"seed", json::array()}};
    for (int seed = 1; seed <= cases; ++seed) entry["seed"].push_back(seed);
    entry.update(more);
    return put("sweep.json", json{{"grid", {entry}}}.dump());
  }

  // Two seeds of PipeDream on the test's data: 20 updates an epoch, on the virtual clock.
  std::string training(const json& more) const {
    json entry = {{"system", "pipedream"}, {"workload", "fmnist_mlp"}, {"ranks", 4},
                  {"batch", 32},           {"clock", "virtual"},       {"epochs", 2},
                  {"seed", {1, 2}}};
    entry.update(more);
    return put("training.json", json{{"grid", {entry}}}.dump());
  }

  std::string folder_;
};

TEST_F(Cli, HelpOfEveryCommandNamesItsFlags) {
  const std::map<std::string, std::vector<std::string>> flags = {
      {"list", {"--json"}},
      {"plan",
       {"--system", "--workload", "--cluster", "--devices", "--batch", "--micro-batch", "--costs", "--set", "--json"}},
      {"schedule",
       {"--system", "--ranks", "--microbatches", "--chunks", "--costs", "--set", "--json", "--text", "--trace"}},
      {"verify", {"--cases", "--tolerance", "--json"}},
      {"profile", {"--workload", "--device", "--out"}},
      {"run",
       {"--system", "--workload", "--clock", "--transport", "--device", "--ranks", "--out", "--resume", "--shard",
        "--seed", "--dry-run", "--progress", "--json"}},
      {"compare", {"--baseline", "--metric", "--json"}},
      {"report", {"--out"}},
      {"export", {"--format"}},
      {"new", {"name"}}};
  const Finished all = sluice({"--help"});
  EXPECT_EQ(all.code, 0);
  for (const auto& [command, names] : flags) {
    EXPECT_NE(all.out.find(command), std::string::npos) << command;
    const Finished f = sluice({command, "--help"});
    EXPECT_EQ(f.code, 0);
    EXPECT_EQ(f.err, "");
    for (const std::string& name : names) EXPECT_NE(f.out.find(name), std::string::npos) << command << " " << name;
  }
}

TEST_F(Cli, ListIsOneJsonDocument) {
  const json all = document({"list", "--json"});
  for (const char* kind : {"systems", "workloads", "clusters", "sweeps"}) EXPECT_TRUE(all.at(kind).is_array()) << kind;
  EXPECT_EQ(document({"list", "systems", "--json"}), all["systems"]);
  std::set<std::string> names;
  for (const json& system : all["systems"]) names.insert(system["name"]);
  EXPECT_TRUE(names.contains("gpipe"));
}

TEST_F(Cli, PlanIsOneJsonDocument) {
  const json plan = document({"plan", "--system", "gpipe", "--workload", "vgg16", "--cluster", "flat:4", "--json"});
  for (const char* field : {"system", "objective", "simulated_seconds", "stages", "edges", "micro_batch", "states",
                            "search_seconds", "complete"})
    EXPECT_TRUE(plan.contains(field)) << field;
  EXPECT_EQ(plan["stages"].size(), 4u);
}

TEST_F(Cli, ScheduleHasExactlyItsFields) {
  const json s = document({"schedule", "--system", "gpipe", "--ranks", "2", "--microbatches", "3", "--json"});
  std::set<std::string> keys;
  for (const auto& item : s.items()) keys.insert(item.key());
  EXPECT_EQ(keys, (std::set<std::string>{"system", "options", "ranks", "microbatches", "chunks", "costs", "ops",
                                         "makespan", "idle", "bubble_ratio", "span_bubble", "peak", "peak_until_W"}));
  EXPECT_EQ(s["costs"], (json{{"F", 1}, {"I", 1}, {"W", 1}, {"latency", 0}}));
  // (m + p - 1) (F + I + W) = 4 x 3, of which each rank idles 3.
  EXPECT_EQ(s["makespan"], 12);
  EXPECT_EQ(s["idle"], (json{3, 3}));
  EXPECT_EQ(s["peak"], (json{3, 3}));
  EXPECT_EQ(s["ops"]["0"].size(), 6u);
}

TEST_F(Cli, ScheduleKnowsTheStagesOfARank) {
  const auto schedule = [&](const std::string& system, const Arguments& more) {
    Arguments all{"schedule", "--system", system, "--ranks", "2", "--microbatches", "4", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return document(all);
  };
  EXPECT_EQ(schedule("interleaved_1f1b", {})["chunks"], 2);
  EXPECT_EQ(schedule("interleaved_1f1b", {"--chunks", "4"})["chunks"], 4);
  EXPECT_EQ(schedule("interleaved_1f1b", {"--chunks", "4"})["options"]["chunks"], "4");
  EXPECT_EQ(schedule("hanayo", {"--set", "waves=2"})["chunks"], 4);
  EXPECT_EQ(schedule("zero_bubble", {"--set", "variant=v", "--chunks", "2"})["chunks"], 2);
  // Micro-batches of one replica of the whole model; a pair of ops is one step.
  EXPECT_EQ(schedule("fsdp", {})["ops"]["1"], (json{"0F4", "0B4", "0F5", "0B5", "0F6", "0B6", "0F7", "0B7"}));
  EXPECT_EQ(schedule("dualpipe", {})["ops"]["0"], (json{"0F0", "1F2", "0F1", "1B2", "(1F3;0B0)", "1B3", "0I1", "0W1"}));
  refuses({"schedule", "--system", "gpipe", "--chunks", "2"}, {"--chunks", "gpipe places 1 stage on a rank"});
  refuses({"schedule", "--system", "gpipe", "--chunks", "0"}, {"--chunks", "out of range"});
  refuses({"schedule", "--system", "zeropp", "--chunks", "2", "--set", "chunks=3"},
          {"--chunks", "is 2, but chunks=3 is set"});
  refuses({"schedule", "--system", "gpipe", "--microbatches", "9999999"}, {"--microbatches"});
}

TEST_F(Cli, ScheduleDrawsAGridThatFitsATerminal) {
  const Finished drawn = sluice({"schedule", "--system", "1f1b", "--text"});
  EXPECT_EQ(drawn.code, 0);
  std::istringstream lines(drawn.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "rank 0  F0F1F2F3............B0--F4B1--F5B2--F6B3--F7B4--..B5--..B6--..B7--");
}

TEST_F(Cli, ScheduleTracesOpsAndWhatRanksHold) {
  const std::string file = at("t.json");
  const Finished traced =
      sluice({"schedule", "--system", "zero_bubble", "--ranks", "2", "--microbatches", "3", "--trace", file});
  EXPECT_EQ(traced.code, 0);
  std::map<std::string, int> kinds;
  int most = 0;
  const json trace = json::parse(content(file));
  for (const json& event : trace["traceEvents"]) {
    ++kinds[event["ph"]];
    if (event["ph"] == "C" && event["name"] == "rank 0 holds")
      most = std::max(most, event["args"]["for the input gradient"].get<int>());
  }
  EXPECT_EQ(kinds["X"], 2 * 3 * 3 + 2);  // F, I, W and a step a rank
  EXPECT_EQ(kinds["C"], 2 * 3 * 3);
  EXPECT_EQ(most, 2);
}

TEST_F(Cli, ScheduleTracesGathersReductionsAndPairs) {
  const std::string file = at("t.json");
  const auto traced = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "schedule");
    arguments.insert(arguments.end(), {"--ranks", "2", "--trace", file});
    EXPECT_EQ(sluice(arguments).code, 0);
    return json::parse(content(file))["traceEvents"];
  };
  std::map<std::string, double> at_second;  // of rank 0
  for (const json& event : traced({"--system", "zeropp", "--set", "unit=4", "--microbatches", "4"}))
    if (event["ph"] == "i" && event["tid"] == 0) at_second[event["name"]] = event["ts"].get<double>() / 1e6;
  // Stage 0's weights are gathered again for its backwards; the gradients of 2 leave after its
  // last.
  EXPECT_EQ(at_second,
            (std::map<std::string, double>{{"gather 0", 16}, {"gather 2", 4}, {"reduce 0", 24}, {"reduce 2", 16}}));
  int pairs = 0;
  for (const json& event : traced({"--system", "dualpipe", "--microbatches", "8"}))
    if (event.contains("args") && event["args"].contains("overlapped with")) ++pairs;
  EXPECT_GT(pairs, 0);
}

TEST_F(Cli, RunAndCompareAreOneJsonDocumentEach) {
  const std::string out = at("r.jsonl");
  document({"run", sweep(1, 4), "--out", out, "--json"});
  EXPECT_TRUE(document({"compare", out, "--json"}).is_array());
  EXPECT_EQ(document({"run", sweep(3, 4), "--dry-run", "--json"}).size(), 3u);
}

TEST_F(Cli, VerifyIsOneJsonDocument) {
  const json v = document({"verify", "--cases", SLUICE_SOURCE_DIR "/harness/tests/data/weights.json", "--only",
                           "pipedream-K2-sgd", "--json"});
  EXPECT_EQ(v["pass"], 1);
  EXPECT_EQ(v["mismatch"], 0);
}

TEST_F(Cli, UnknownNamesAreSuggested) {
  refuses({"rum"}, {"unknown command 'rum'", "did you mean 'run'?"});
  refuses({"--hepl"}, {"unknown flag '--hepl'"});
  refuses({}, {"no command"});
  refuses({"schedule", "--system", "gpipe", "--rank", "3"},
          {"schedule: unknown flag '--rank'", "did you mean '--ranks'?"});
  refuses({"schedule"}, {"schedule: --system is required"});
  refuses({"list", "sytems"}, {"did you mean 'systems'?"});
  refuses({"schedule", "--system", "gpip"}, {"did you mean 'gpipe'?"});
  refuses({"schedule", "--system", "gpipe", "--set", "bakward=lifo"}, {"did you mean 'backward'?"});
  refuses({"schedule", "--system", "gpipe", "--set", "backward"}, {"is not key=value"});
  refuses({"plan", "--system", "gpipe", "--workload", "tinny"}, {"did you mean 'tiny'?"});
  refuses({"plan", "--system", "gpipe", "--workload", "tiny", "--cluster", "flatt:4"}, {"did you mean 'flat:4'?"});
  refuses({"run", "--system", "gpip", "--workload", "tiny"}, {"--system", "did you mean 'gpipe'?"});
}

TEST_F(Cli, NumbersThatAreNone) {
  for (const char* ranks : {"0", "-1"}) {
    refuses({"schedule", "--system", "gpipe", "--ranks", ranks}, {"--ranks"});
    refuses({"run", "--system", "gpipe", "--workload", "tiny", "--ranks", ranks}, {"--ranks", "must be at least 1"});
  }
  refuses({"schedule", "--system", "gpipe", "--ranks", "two"}, {"--ranks", "two"});
  refuses({"run", "--system", "gpipe", "--workload", "tiny", "--ranks", "two"}, {"--ranks", "two"});
  refuses({"run", "--system", "gpipe", "--workload", "tiny", "--timeout", "soon"}, {"--timeout:"});
  refuses({"run", sweep(1, 4), "--seed", "one"}, {"--seed", "one"});
  refuses({"run", sweep(1, 4), "--inject-failure", "1:3x"}, {"1:3x"});
  refuses({"run", sweep(1, 4), "--inject-failure", "7:3"}, {"no case has a rank 7"});
  refuses({"run", sweep(1, 4), "--shard", "2/2"}, {"--shard"});
  refuses({"run", sweep(1, 4), "--ranks", "3"}, {"--ranks", "goes with a single case"});
  refuses({"run", sweep(1, 4), "--set", "backward=fifo"}, {"--set", "goes with a single case"});
}

TEST_F(Cli, PlansThatCannotBe) {
  refuses({"plan", "--system", "gpipe", "--workload", "tiny", "--cluster", "flat:40"}, {"40 stages", "use at most"});
  refuses({"plan", "--system", "gpipe", "--workload", "vgg16", "--cluster", "flat:2,memory=1MiB"},
          {"needs", "has 1 MiB", "more memory"});
  const std::string apart = put("apart.json", R"({"name": "apart", "devices": [{"count": 2}]})");
  refuses({"plan", "--system", "gpipe", "--workload", "tiny", "--cluster", apart}, {"no path between devices 0 and 1"});
  const std::string cyclic = put("cyclic.json", R"({"schema": "sluice/cost_graph/1", "model": "m",
    "source": "profile", "device": "d", "micro_batch": 8, "layers": [
    {"name": "a", "inputs": [1], "forward": 1, "input_gradient": 1, "weight_gradient": 1,
     "update": 0, "parameters": 4, "output": 4},
    {"name": "b", "inputs": [0], "forward": 1, "input_gradient": 1, "weight_gradient": 1,
     "update": 0, "parameters": 4, "output": 4}]})");
  refuses({"plan", "--system", "gpipe", "--workload", "tiny", "--costs", cyclic},
          {"/layers/0/inputs", "must name earlier layers"});
}

TEST_F(Cli, OutputsThatCannotBeWritten) {
  const auto to = [&](const std::string& out) { return Arguments{"run", sweep(1, 4), "--out", out}; };
  refuses(to(folder_), {folder_, "is a folder"});
  refuses(to(put("file", "x") + "/r.jsonl"), {at("file")});
  refuses(to("/proc/nowhere/r.jsonl"), {"/proc/nowhere"});
  refuses({"schedule", "--system", "gpipe", "--trace", at("no/t.json")}, {"cannot be written"});
}

TEST_F(Cli, AFullDiskIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  expect_error(sluice({"run", sweep(1, 4), "--out", "/dev/full"}), 1, {"/dev/full", "No space left", "--resume"});
  expect_error(wait(start({"list", "--json"}, {}, "/dev/full")), 1, {"stdout", "No space left"});
}

TEST_F(Cli, SweepFilesThatCannotBeRead) {
  refuses({"run", at("no.json")}, {at("no.json"), "cannot be read"});
  refuses({"run", "no_such_sweep"}, {"no_such_sweep", "sluice list sweeps"});
  refuses({"run", put("broken.json", "{\n\"grid\": [\n{]}")}, {at("broken.json") + ":3:"});
  refuses({"run", put("empty.json", R"({"grid": []})")}, {"/grid"});
  refuses({"compare", at("no.jsonl")}, {"no such file"});
  refuses({"compare", put("none.jsonl", "")}, {"holds no record"});
}

TEST_F(Cli, AGpuThatIsNotThereIsOneClearError) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a GPU";
  // Either sluice-cuda stands beside the program and finds none, or the program says what to build.
  refuses({"run", "--system", "gpipe", "--workload", "tiny", "--device", "cuda"}, {"--device cuda", "CUDA"});
  refuses({"run", "gpu"}, {"--device cuda", "CUDA"});
  refuses({"profile", "--workload", "tiny", "--device", "cuda"}, {"--device cuda", "CUDA"});
  refuses({"run", "--system", "gpipe", "--workload", "tiny", "--transport", "nccl"},
          {"nccl connects GPUs", "--device cuda"});
  // What a sweep for GPUs would run can be listed anywhere.
  EXPECT_EQ(sluice({"run", "gpu", "--dry-run"}).code, 0);
}

TEST_F(Cli, MissingDataSaysWhereToPutIt) {
  if (fs::exists("/usr/share/datasets/cifar10")) GTEST_SKIP() << "CIFAR-10 is on this machine";
  refuses({"run", "--system", "gpipe", "--workload", "cifar10_cnn", "--costs", "analytic", "--out", at("r.jsonl"),
           "--progress", "none"},
          {"cifar10", "$SLUICE_DATA"}, {{"SLUICE_DATA", folder_}, {"SLUICE_HOME", folder_}});
  EXPECT_EQ(content(at("r.jsonl")), "");
}

TEST_F(Cli, TruncatedDataNamesItsFile) {
  fs::create_directory(at("fashion-mnist"));
  const std::string file = put("fashion-mnist/train-images-idx3-ubyte", std::string("\0\0\x08", 3));
  refuses({"run", "--system", "gpipe", "--workload", "fmnist_mlp", "--costs", "analytic", "--out", at("r.jsonl"),
           "--progress", "none"},
          {file, "cut off"}, {{"SLUICE_DATA", folder_}});
}

TEST_F(Cli, AFailingRankIsARecordAndTheNextCaseStillRuns) {
  const std::string out = at("r.jsonl");
  const json grid = {{{"inject_failure", {{"rank", 1}, {"update", 3}}}, {"seed", 1}}, {{"seed", 2}}};
  const json defaults = {{"system", "gpipe"}, {"workload", "tiny"}, {"steps", 20}, {"ranks", 2}, {"costs", "analytic"}};
  const std::string file = put("s.json", json{{"defaults", defaults}, {"grid", grid}}.dump());
  EXPECT_EQ(sluice({"run", file, "--out", out}).code, 1);
  const auto found = records(out);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["outcome"], "failed");
  EXPECT_EQ(found[0]["failed_rank"], 1);
  EXPECT_EQ(found[1]["outcome"], "ok");
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
  for (const json& r : found) {
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
  for (const json& r : records(out)) {
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
  const json compared = document({"compare", out, "--json"});
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
  const json b = document({"compare", out, "--metric", "largest_stable_rate", "--json"});
  ASSERT_EQ(b.size(), 1u);
  ASSERT_EQ(b[0]["rows"].size(), 2u);
  for (const json& row : b[0]["rows"]) EXPECT_EQ(row["largest_stable_rate"], 0.02);
  EXPECT_EQ(document({"compare", out, "--json"}), json::array());
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
  for (const json& r : records(out)) EXPECT_EQ(r["outcome"], "ok");
}

TEST_F(Cli, AnInterruptKeepsWhatIsFinishedAndTellsHowToGoOn) {
  const std::string out = at("r.jsonl");
  json grid = json::array();
  for (const int steps : {4, 10'000'000})
    grid.push_back({{"system", "gpipe"}, {"workload", "tiny"}, {"steps", steps}, {"costs", "analytic"}});
  const pid_t child = start({"run", put("s.json", json{{"grid", grid}}.dump()), "--out", out});
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

TEST_F(Cli, ExportIsATable) {
  const std::string out = at("r.jsonl");
  ASSERT_EQ(sluice({"run", sweep(2, 4), "--out", out}).code, 0);
  const Finished f = sluice({"export", out, "--format", "csv"});
  EXPECT_EQ(f.code, 0);
  // Fields of each line; commas inside quotes do not count.
  std::set<long> widths;
  for (const std::string& line : lines(f.out)) {
    bool quoted = false;
    long commas = 0;
    for (const char c : line) {
      quoted ^= c == '"';
      commas += !quoted && c == ',';
    }
    EXPECT_FALSE(quoted) << line;
    widths.insert(commas);
  }
  EXPECT_EQ(lines(f.out).size(), 3u);
  EXPECT_EQ(widths.size(), 1u);
  EXPECT_GT(*widths.begin(), 5);
  refuses({"export", out, "--format", "cvs"}, {"--format", "csv"});
}

TEST_F(Cli, RecordsFitTheSchema) {
  // ./check puts jsonschema into .venv; a hand-written build may have it in the system's Python.
  const std::string own = SLUICE_SOURCE_DIR "/.venv/bin/python";
  const std::string python = fs::exists(own) ? own : "python3";
  if (std::system(("'" + python + "' -c 'import jsonschema' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "neither .venv nor python3 has jsonschema: the schema is not checked";
  const std::string out = at("r.jsonl");
  sluice({"run", sweep(1, 4), "--out", out});
  sluice({"run", sweep(1, 20), "--inject-failure", "1:3", "--out", out});
  sluice({"run", "--system", "gpipe", "--workload", "vgg16", "--clock", "virtual", "--cluster", "flat:2,memory=1MiB",
          "--out", out});
  write_test_data(folder_);
  sluice({"run",
          training(
              {{"optimizer", {{"learning_rate", {3, "tuned"}}}}, {"tune", {{"learning_rate", {0.02}}, {"steps", 4}}}}),
          "--out", out},
         {{"SLUICE_DATA", folder_}});
  EXPECT_EQ(records(out).size(), 8u);
  EXPECT_EQ(records(out)[2]["outcome"], "out_of_memory");
  EXPECT_EQ(records(out)[3]["outcome"], "diverged");
  const std::string script = SLUICE_SOURCE_DIR "/results/check_records.py";
  EXPECT_EQ(std::system(("'" + python + "' '" + script + "' '" + out + "'").c_str()), 0);
}

TEST_F(Cli, NewBaselineIsOneFileWithAPlainName) {
  fs::create_directory(at("baselines"));
  const Variables home = {{"SLUICE_HOME", folder_}};
  EXPECT_EQ(sluice({"new", "baseline", "my_system2"}, home).code, 0);
  EXPECT_NE(content(at("baselines/my_system2.cpp")).find("const System my_system2 = {"), std::string::npos);
  refuses({"new", "baseline", "my_system2"}, {"exists already"}, home);
  for (const char* name : {"Bad", "2nd", "a-b", "../x", "", "class", "my_test", "gpipe", "dp"})
    refuses({"new", "baseline", name}, {"new: "}, home);
  refuses({"new", "basline", "x"}, {"did you mean 'baseline'?"}, home);
  EXPECT_EQ(std::distance(fs::directory_iterator(at("baselines")), {}), 1);
}

TEST_F(Cli, AReportWithoutItsRendererSaysSo) {
  const std::string out = at("r.jsonl");
  ASSERT_EQ(sluice({"run", sweep(1, 4), "--out", out}).code, 0);
  const Finished f = sluice({"report", out, "--out", at("report")}, {{"SLUICE_PYTHON", "/nonexistent"}});
  expect_error(f, 1, {"/nonexistent"});
}

}  // namespace
}  // namespace sluice
