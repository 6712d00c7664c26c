// SIGINT and SIGTERM end every command that may take long within a second, and all that it has started with it. The
// time-out of a case does the same to whatever the case is doing.
#include <sys/resource.h>
#include <time.h>

#include "harness/cli/cli_test_support.h"
#include "harness/cli/version.h"

namespace sluice {
namespace {

class Signals : public Cli {
 protected:
  // A search that takes seconds on any machine.
  static Arguments with_long_search(Arguments command) {
    for (const char* word : {"-s",      "graphpipe",
                             "-O",      "micro_batch=per_stage",
                             "-O",      "rank=simulated",
                             "-O",      "search_seconds=1000",
                             "-w",      "mmt",
                             "-c",      "summit_v100",
                             "-n",      "32",
                             "-b",      "1024",
                             "-m",      "512",
                             "--costs", "analytic"})
      command.push_back(word);
    return command;
  }

  // Records that take seconds to read: one that is stored, often.
  void put_large_records(const std::string& name) const {
    const std::string stored = content(std::string(SLUICE_SOURCE_DIR) + "/results/reference/standard.jsonl");
    std::ofstream file(at(name), std::ios::binary);
    for (int k = 0; k < 40; ++k) file << stored;
  }

  void put_large_trace(const std::string& name) const {
    std::ofstream file(at(name), std::ios::binary);
    file << R"({"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [)";
    for (int k = 0; k < 1'500'000; ++k)
      file << (k > 0 ? "," : "") << R"({"ph": "X", "cat": "user_annotation", "name": "PP:0F0", "pid": 1, "ts": )" << k
           << R"(, "dur": 1})";
    file << "]}";
  }

  static double cpu_seconds(pid_t process) {
    clockid_t clock{};
    timespec time{};
    if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  // output: a file that the command does not write over.
  void ends(const Arguments& arguments, const std::string& output = "") const {
    for (const int number : {SIGINT, SIGTERM}) {
      if (!output.empty()) fs::remove(at(output));
      SCOPED_TRACE(::testing::PrintToString(arguments) + ", signal " + std::to_string(number));
      const pid_t child = start(arguments, {{"SLUICE_PROFILE_CACHE", at("profiles")}});
      for (int k = 0; k < 1000 && cpu_seconds(child) < 0.4; ++k)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, WNOHANG), 0) << "it has ended already: " << content(at(".err"));
      const std::vector<pid_t> started = children_of(child);
      const double before = cpu_seconds(child);
      const auto begin = std::chrono::steady_clock::now();
      ::kill(child, number);
      rusage used{};
      ::wait4(child, &status, 0, &used);
      const double gone = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      const double cpu = seconds_of(used) - before;
      // On a machine that does other things, too, its own seconds count.
      EXPECT_LT(std::min(gone, cpu), 1) << gone << " s, " << cpu << " s of CPU";
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      EXPECT_TRUE(code == 1 || code == 128 + number) << code << ": " << content(at(".err"));
      for (const pid_t one : started) {
        for (int k = 0; k < 100 && ::kill(one, 0) == 0 && !is_zombie(one); ++k)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        EXPECT_TRUE(::kill(one, 0) != 0 || is_zombie(one)) << "process " << one << " runs on";
      }
    }
  }

  static double seconds_of(const rusage& used) {
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  }

  // A case that takes far longer than its limit.
  void times_out(const Arguments& words, const Variables& variables = {}) const {
    constexpr double kLimit = 0.5, kStart = 0.5;  // seconds; of a program with LibTorch
    fs::remove(at("r.jsonl"));
    fs::remove_all(at("profiles"));
    Arguments arguments = {"run", "--out", "r.jsonl", "--progress", "none", "--timeout", "0.5"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    SCOPED_TRACE(::testing::PrintToString(arguments));
    Variables all = {{"SLUICE_PROFILE_CACHE", at("profiles")}};
    all.insert(variables.begin(), variables.end());
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = start(arguments, all);
    int status = 0;
    rusage used{};
    ::wait4(child, &status, 0, &used);
    const double gone = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(std::min(gone, seconds_of(used)), kStart + kLimit + 1) << gone << " s";
    const std::vector<Json> all_records = records(at("r.jsonl"));
    ASSERT_EQ(all_records.size(), 1u) << content(at(".err"));
    EXPECT_EQ(all_records[0]["outcome"], "timed_out") << all_records[0]["reason"].dump();
  }

  static std::vector<pid_t> children_of(pid_t process) {
    const std::string id = std::to_string(process);
    std::istringstream ids(content("/proc/" + id + "/task/" + id + "/children"));
    std::vector<pid_t> result;
    for (pid_t one = 0; ids >> one;) result.push_back(one);
    return result;
  }
  static bool is_zombie(pid_t process) {
    const std::string stat = content("/proc/" + std::to_string(process) + "/stat");
    return stat.find(") Z") != std::string::npos;
  }
};

TEST_F(Signals, EndPlanningAndSearching) {
  ends(with_long_search({"plan", "--trace", "t.json"}));
  ends(with_long_search({"run", "--clock", "virtual", "--no-train", "--out", "a.jsonl", "--progress", "none"}));
  ends(with_long_search({"export", "--format", "chakra", "--out", "t"}));
  ends({"advise", "-w", "gpt_14.6b", "-c", "dgx_h100", "--precision", "mixed", "--seconds", "1000"});
  for (const char* name : {"t.json", "t.0.et"}) EXPECT_FALSE(fs::exists(at(name))) << name;
}

TEST_F(Signals, EndLargeOrdersAndSweeps) {
  ends({"schedule", "-s", "1f1b", "-n", "512", "-m", "10000", "--trace", "t.json"});
  ends({"run", "standard", "--dry-run"});
  ends({"leaderboard", "--add", "graphpipe", "--out", "a.jsonl", "--progress", "none"});
  ends({"list", "standard"});
}

TEST_F(Signals, EndReproductionsAndChecks) {
  ends({"reproduce", "--all"});
  ends({"reproduce", "--all", "--mutate"});
}

TEST_F(Signals, EndReadingLargeFiles) {
  put_large_records("big.jsonl");
  put_large_trace("big.json");
  ends({"compare", "big.jsonl"});
  ends({"report", "big.jsonl", "--out", "report"});
  ends({"figure", "pareto", "big.jsonl"});
  ends({"leaderboard", "big.jsonl"});
  ends({"export", "big.jsonl"});
  ends({"validate", "--records", "big.jsonl"});
  ends({"trace", "big.json"});
}

TEST_F(Signals, EndTrainingAndMeasuring) {
  if (!torch_free_notice().empty()) GTEST_SKIP() << "a build without LibTorch";
  ends({"run", "-s", "gpipe", "-w", "tiny", "-n", "2", "--steps", "100000", "--costs", "analytic", "--out", "a.jsonl",
        "--progress", "none"});
  ends({"verify", "--cases", std::string(SLUICE_SOURCE_DIR) + "/harness/tests/data/weights.json"});
  ends({"profile", "-w", "fmnist_cnn", "--out", "costs.json"});
  ends({"profile", "-w", "fmnist_cnn", "--co-run", "--out", "co_runs.json"});
  for (const char* name : {"costs.json", "co_runs.json"}) EXPECT_FALSE(fs::exists(at(name))) << name;
  ends({"validate", "--out", "b.jsonl", "--progress", "none"}, "b.jsonl");
}

TEST_F(Signals, TimeOutsEndPlanningAndSimulation) {
  const auto on_virtual_clock = [](Arguments words) {
    for (const char* word : {"--clock", "virtual", "--no-train", "--costs", "analytic"}) words.push_back(word);
    return words;
  };
  times_out(with_long_search({"--clock", "virtual", "--no-train"}));
  times_out(on_virtual_clock({"-s", "1f1b", "-w", "tiny", "-c", "flat:4", "--steps", "5000000"}));
  times_out(on_virtual_clock({"-s", "pipedream", "-w", "tiny", "-c", "flat:4", "--steps", "200000"}));
  times_out(
      on_virtual_clock({"-s", "edgepipe", "-w", "tiny", "-c", "flat:4", "--task", "inference", "--steps", "200000"}));
}

TEST_F(Signals, TimeOutsEndTrainingMeasuringAndReading) {
  if (!torch_free_notice().empty()) GTEST_SKIP() << "a build without LibTorch";
  const auto here = [](Arguments words) {
    for (const char* word : {"-n", "2", "--costs", "analytic"}) words.push_back(word);
    return words;
  };
  times_out({"-s", "gpipe", "-w", "fmnist_cnn", "-n", "2", "--steps", "4"});  // measures its costs
  times_out(here({"-s", "gpipe", "-w", "vgg16_batch64", "--steps", "100"}));  // layers of a second
  times_out(here({"-s", "edgepipe", "-w", "tfm256", "--task", "inference", "--steps", "100000"}));
  times_out(here({"-s", "gpipe", "-w", "tiny", "--steps", "100000", "--clock", "virtual", "-c", "flat:2"}));
  std::string text;
  for (int k = 0; k < 4'000'000; ++k) text += std::to_string(k * 7919) + (k % 10 == 9 ? "\n" : " ");
  fs::create_directories(at("data/plain-text"));
  put("data/plain-text/train.txt", text);
  put("data/plain-text/test.txt", text.substr(0, 10'000));
  times_out(here({"-s", "gpipe", "-w", "plain_text_gpt", "--epochs", "1"}), {{"SLUICE_DATA", at("data")}});
}

// `check` asks each system in a process of its own.
TEST_F(Signals, EndWhatACommandHasStarted) {
  const pid_t child = start({"check", "*", "--seconds", "100"});
  std::vector<pid_t> started;
  for (int k = 0; k < 1000 && started.empty(); ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    started = children_of(child);
  }
  ASSERT_EQ(started.size(), 1u) << content(at(".err"));
  ::kill(child, SIGTERM);
  EXPECT_EQ(wait(child).code, 128 + SIGTERM);
  for (int k = 0; k < 300 && ::kill(started[0], 0) == 0 && !is_zombie(started[0]); ++k)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(::kill(started[0], 0) != 0 || is_zombie(started[0]));
}

}  // namespace
}  // namespace sluice
