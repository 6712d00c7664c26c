// Starts the program and keeps its results: exit code, stdout, stderr, files.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sluice_build.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "harness/base/json.h"
#include "harness/tests/test_data.h"

namespace sluice {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

inline std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines(const std::string& text) {
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
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
      ::signal(number, SIG_DFL);  // nohup and & let children ignore some
    ::unsetenv("COLUMNS");        // the width of the user's terminal
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

  // The last line on stderr is the only one that begins with "error: "; it holds every text.
  static void expect_error(const Finished& f, int code, const std::vector<std::string>& texts) {
    EXPECT_EQ(f.code, code) << f.err;
    const auto all = lines(f.err);
    EXPECT_EQ(std::ranges::count_if(all, [](const auto& l) { return l.starts_with("error: "); }), 1) << f.err;
    ASSERT_FALSE(all.empty());
    EXPECT_TRUE(all.back().starts_with("error: ")) << f.err;
    for (const std::string& text : texts)
      EXPECT_NE(all.back().find(text), std::string::npos) << all.back() << "\nlacks " << text;
  }
  void rejects(const Arguments& arguments, const std::vector<std::string>& texts,
               const Variables& variables = {}) const {
    SCOPED_TRACE(::testing::PrintToString(arguments));
    const Finished f = sluice(arguments, variables);
    expect_error(f, 2, texts);
    EXPECT_EQ(f.out, "");
  }

  Json document(const Arguments& arguments, int code = 0) const {
    const Finished f = sluice(arguments);
    EXPECT_EQ(f.code, code) << f.err;
    const std::optional<Json> parsed = Json::parse_if_json(f.out);
    EXPECT_TRUE(parsed) << f.out.substr(0, 500);
    return parsed.value_or(Json());
  }

  static std::vector<Json> records(const std::string& path) {
    std::vector<Json> result;
    for (const std::string& line : lines(content(path))) {
      result.push_back(Json::parse_if_json(line).value_or(Json()));
      EXPECT_TRUE(result.back().is_object()) << line.substr(0, 200);
    }
    return result;
  }
  static std::multiset<int> seeds(const std::string& path) {
    std::multiset<int> result;
    for (const Json& r : records(path)) result.insert(r.value("seed", -1));
    return result;
  }

  // `cases` cases with different seeds, on the wall clock, with costs that need no measuring.
  std::string sweep(int cases, int steps, const Json& more = Json::object()) const {
    Json entry = {{"system", "gpipe"}, {"workload", "tiny"},  {"ranks", 2},
                  {"steps", steps},    {"costs", "analytic"}, {"seed", Json::array()}};
    for (int seed = 1; seed <= cases; ++seed) entry["seed"].push_back(seed);
    entry.update(more);
    return put("sweep.json", Json{{"grid", {entry}}}.dump());
  }

  // A case whose planning takes at least seconds on any machine: a search over the micro-batches of every stage, once
  // for every limit on the replicas.
  static Json long_planning() {
    return {{"system", "graphpipe"},
            {"options", {{"micro_batch", "per_stage"}, {"rank", "simulated"}, {"search_seconds", 1000}}},
            {"workload", "mmt"},
            {"cluster", "summit_v100"},
            {"ranks", 32},
            {"batch", 1024},
            {"microbatches", 512},
            {"clock", "virtual"},
            {"costs", "analytic"},
            {"train", false}};
  }

  // Two seeds of PipeDream on the test's data: 20 updates per epoch, on the virtual clock.
  std::string training(const Json& more) const {
    Json entry = {{"system", "pipedream"}, {"workload", "fmnist_mlp"}, {"ranks", 4},
                  {"batch", 32},           {"clock", "virtual"},       {"epochs", 2},
                  {"seed", {1, 2}}};
    entry.update(more);
    return put("training.json", Json{{"grid", {entry}}}.dump());
  }

  std::string folder_;
};

}  // namespace sluice
