// The program as mpirun starts it: several processes, one sweep; and what is left when one of them
// is killed or stopped. Skipped by name where there is no MPI or no mpirun.
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
#include <numeric>
#include <sstream>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/exec/pinning.h"
#include "harness/tests/test_data.h"
#include "results/store.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

class Launched : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!mpi_built()) GTEST_SKIP() << "this build has no MPI";
    if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "no mpirun";
    allow_on_any_machine();
    if (std::system("mpirun -n 1 true >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "mpirun starts nothing here (mpirun -n 1 true)";
    std::string pattern = (fs::temp_directory_path() / "sluice-mpi-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    out_ = folder_ / "records.jsonl";
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  // More processes than cores, and root in a container: what Open MPI asks to be told.
  static void allow_on_any_machine() {
    for (const char* name :
         {"OMPI_MCA_rmaps_base_oversubscribe", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      ::setenv(name, "1", 1);
  }

  // mpirun -n processes sluice COMMAND ARGUMENTS --out records.jsonl
  pid_t start(int processes, const Arguments& arguments, const std::string& command = "run") const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    const int log = ::open(log_file().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    Arguments all = {"mpirun", "-n", std::to_string(processes), SLUICE_PROGRAM, command};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.end(), {"--out", out_.string()});
    std::vector<char*> argv;
    for (std::string& a : all) argv.push_back(a.data());
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  static int wait_for(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int run(int processes, const Arguments& arguments, const std::string& command = "run") const {
    return wait_for(start(processes, arguments, command));
  }

  // Processes of this test's job, or only its member `rank`.
  std::vector<pid_t> processes_of_job(int rank = -1) const {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string command = content(entry.path() / "cmdline");
      const std::string environment = content(entry.path() / "environ");
      if (!command.starts_with(SLUICE_PROGRAM) || command.find(out_.string()) == std::string::npos) continue;
      const std::string number = std::to_string(rank);
      const bool is_rank = environment.find('\0' + ("OMPI_COMM_WORLD_RANK=" + number) + '\0') != std::string::npos ||
                           environment.find('\0' + ("PMI_RANK=" + number) + '\0') != std::string::npos;
      if (rank < 0 || is_rank) found.push_back(static_cast<pid_t>(std::stol(name)));
    }
    return found;
  }

  std::vector<Record> records() const { return read_records(out_).records; }
  fs::path log_file() const { return folder_ / "log"; }
  std::string log() const { return content(log_file()); }

  fs::path folder_, out_;
};

Arguments steps(int n, const Arguments& more = {}) {
  Arguments arguments = {"--system", "1f1b", "--workload", "tiny", "--steps", std::to_string(n), "--transport", "mpi"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(Launched, ACaseRunsOnAsManyRanksAsThereAreProcesses) {
  ASSERT_EQ(run(2, steps(20)), 0) << log();
  ASSERT_EQ(records().size(), 1u);
  const Record record = records().front();
  EXPECT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
  EXPECT_EQ(record.transport, "mpi");
  EXPECT_EQ(record.ranks, 2);
  EXPECT_EQ(record.step_seconds.size(), 20u);
  EXPECT_EQ(record.peak_bytes.size(), 2u);
  EXPECT_EQ(record.environment.machine.value().mpi, mpi_library());
  EXPECT_EQ(count(log(), "records: "), 1) << "one process speaks: " << log();
}

TEST_F(Launched, MisuseIsOneErrorLine) {
  EXPECT_NE(run(2, steps(20, {"--ranks", "3"})), 0);
  EXPECT_EQ(count(log(), "error: --ranks: 3 ranks as 2 processes"), 1) << log();
  EXPECT_NE(run(2, {"--system", "1f1b", "--workload", "tiny"}), 0);
  EXPECT_EQ(count(log(), "error: run: 2 processes were started together"), 1) << log();
  EXPECT_NE(run(2, steps(20, {"--clock", "virtual"})), 0);
  EXPECT_EQ(count(log(), "the virtual clock runs in one process"), 1) << log();
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(Launched, AProfileOfTwoProcessesIsWhatIsBetweenThem) {
  ASSERT_EQ(run(2, {"--workload", "tiny"}, "profile"), 0) << log();
  const Json costs = Json::parse(content(out_));
  for (const char* name : {"message", "byte", "reduce", "gather", "scatter"})
    EXPECT_GE(costs.at(name).get<double>(), 0) << name;
  for (const char* name : {"message", "reduce", "gather", "scatter"})
    EXPECT_GT(costs.at(name).get<double>(), 0) << name;
  fs::remove(out_);
  EXPECT_NE(run(3, {"--workload", "tiny"}, "profile"), 0);
  EXPECT_EQ(count(log(), "error: profile: 3 processes were started together"), 1) << log();
  EXPECT_NE(run(2, {"--workload", "tiny", "--co-run"}, "profile"), 0);
  EXPECT_EQ(count(log(), "error: profile: 2 processes were started together"), 1) << log();
  EXPECT_FALSE(fs::exists(out_));
}

// The two processes that measure are a job of their own, also where this one is in a job.
TEST_F(Launched, AProfileHasWhatIsBetweenProcessesWhereverItIsMade) {
  ::setenv("SLUICE_PROFILE_CACHE", folder_.c_str(), 1);
  const auto made = [&] {
    std::vector<double> reduce;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().extension() == ".json" && entry.path() != out_) {
        reduce.push_back(Json::parse(content(entry.path()))["profile"]["machine"]["processes"]["reduce"].get<double>());
        fs::remove(entry.path());
      }
    return reduce;
  };
  ASSERT_EQ(run(2, steps(2, {"--costs", "profile"})), 0) << log();
  const std::vector<double> inside = made();
  ASSERT_EQ(inside.size(), 1u) << log();
  EXPECT_GT(inside.front(), 0);
  fs::remove(out_);  // the records of the run, which no profile replaces
  ASSERT_EQ(run(1, {"--workload", "tiny"}, "profile"), 0) << log();
  const std::vector<double> alone = made();
  ::unsetenv("SLUICE_PROFILE_CACHE");
  ASSERT_EQ(alone.size(), 1u) << log();
  EXPECT_GT(alone.front(), 0);
}

TEST_F(Launched, ASweepGoesOnAfterARankThatThrowsAndRejectsWhatIsTooLarge) {
  const fs::path sweep = folder_ / "sweep.json";
  std::ofstream(sweep) << R"({"defaults": {"workload": "tiny", "transport": "mpi", "steps": 20},
    "grid": [{"system": "gpipe", "inject_failure": {"rank": 1, "update": 3}},
             {"system": "pipedream", "ranks": [2, 3]},
             {"system": "zero_bubble", "transport": ["threads", "mpi"]},
             {"system": "gpipe", "inject_failure": {"rank": 1, "update": 30}}]})";
  EXPECT_EQ(run(2, {sweep}), 1) << log();
  const std::vector<Record> all = records();
  ASSERT_EQ(all.size(), 6u) << log();
  EXPECT_EQ(all[0].outcome, RecordOutcome::failed);
  EXPECT_EQ(all[0].failed_rank, 1);
  EXPECT_EQ(all[0].reason, "failed on purpose in update 3");
  EXPECT_EQ(all[1].outcome, RecordOutcome::ok) << all[1].reason;
  EXPECT_EQ(all[2].outcome, RecordOutcome::unsupported);
  EXPECT_EQ(all[2].reason, "3 ranks need as many processes; the job has 2");
  for (const std::size_t k : {3u, 4u}) EXPECT_EQ(all[k].outcome, RecordOutcome::ok) << all[k].reason;
  EXPECT_TRUE(all[5].reason.starts_with("--inject-failure: update 30 is after the last one")) << all[5].reason;
  ASSERT_EQ(all[3].curve.size(), all[4].curve.size());
  for (std::size_t k = 0; k < all[3].curve.size(); ++k) EXPECT_EQ(all[3].curve[k].loss, all[4].curve[k].loss);
}

TEST_F(Launched, ATimeOutEndsAllRanks) {
  EXPECT_EQ(run(2, steps(1000000, {"--timeout", "0.5"})), 1) << log();
  ASSERT_EQ(records().size(), 1u);
  EXPECT_EQ(records().front().outcome, RecordOutcome::timed_out);
}

TEST_F(Launched, AShardedRunsRecordIsThatOfThreads) {
  const fs::path sweep = folder_ / "sweep.json";
  std::ofstream(sweep) << R"({"defaults": {"workload": "tiny", "transport": ["threads", "mpi"],
      "costs": "analytic", "steps": 6, "ranks": 4, "data_parallel": 2},
    "grid": [{"system": "1f1b", "options": {"zero": ["1", "3"]}},
             {"system": "gpipe", "sharding": ["optimizer", "use", "visit", "update"]},
             {"system": "zeropp", "layout": "pipelines"},
             {"system": "fsdp", "data_parallel": 1}]})";
  ASSERT_EQ(run(4, {sweep}), 0) << log();
  const std::vector<Record> all = records();
  ASSERT_EQ(all.size(), 16u) << log();
  std::map<std::string, const Record*> threads;
  const auto key = [](const Record& r) { return r.system + options_json(r).dump(); };
  for (const Record& r : all)
    if (r.transport == "threads") threads[key(r)] = &r;
  ASSERT_EQ(threads.size(), 8u);
  for (const Record& r : all) {
    if (r.transport == "threads") continue;
    SCOPED_TRACE(key(r));
    const Record& other = *threads.at(key(r));
    EXPECT_EQ(r.outcome, RecordOutcome::ok) << r.reason;
    ASSERT_EQ(r.curve.size(), other.curve.size());
    for (std::size_t k = 0; k < r.curve.size(); ++k) EXPECT_EQ(r.curve[k].loss, other.curve[k].loss);
    EXPECT_EQ(r.observed.sent_bytes.value().messages, other.observed.sent_bytes.value().messages);
    EXPECT_EQ(r.observed.sent_bytes->gathers, other.observed.sent_bytes->gathers);
    EXPECT_EQ(r.observed.sent_bytes->reductions, other.observed.sent_bytes->reductions);
    EXPECT_EQ(r.observed.in_flight, other.observed.in_flight);
    ASSERT_EQ(r.peak_bytes.size(), other.peak_bytes.size());
    for (std::size_t k = 0; k < r.peak_bytes.size(); ++k) {
      EXPECT_EQ(r.peak_bytes[k].weights, other.peak_bytes[k].weights);
      EXPECT_EQ(r.peak_bytes[k].gradients, other.peak_bytes[k].gradients);
      EXPECT_EQ(r.peak_bytes[k].optimizer, other.peak_bytes[k].optimizer);
      EXPECT_EQ(r.peak_bytes[k].activations, other.peak_bytes[k].activations);
    }
  }
}

TEST_F(Launched, ASweepGoesOnAfterARankOfAShardedRunThatThrows) {
  const fs::path sweep = folder_ / "sweep.json";
  std::ofstream(sweep) << R"({"defaults": {"workload": "tiny", "transport": "mpi", "steps": 20,
      "ranks": 4, "data_parallel": 2, "system": "1f1b", "options": {"zero": "3"}},
    "grid": [{"inject_failure": {"rank": 3, "update": 3}}, {"seed": 2}]})";
  EXPECT_EQ(run(4, {sweep}), 1) << log();
  const std::vector<Record> all = records();
  ASSERT_EQ(all.size(), 2u) << log();
  EXPECT_EQ(all[0].outcome, RecordOutcome::failed);
  EXPECT_EQ(all[0].failed_rank, 3);
  EXPECT_EQ(all[0].reason, "failed on purpose in update 3");
  EXPECT_EQ(all[1].outcome, RecordOutcome::ok) << all[1].reason;
}

TEST_F(Launched, RanksArePinnedToCoresOfTheirOwnOrRejected) {
  if (!hwloc_built()) GTEST_SKIP() << "this build has no hwloc";
  const int code = run(2, steps(20, {"--pin", "core"}));
  ASSERT_EQ(records().size(), 1u) << log();
  const Record record = records().front();
  // Two processors may be one core.
  const auto has_two_cores = [] {
    try {
      return pin_to_cores(2, nullptr) != nullptr;
    } catch (const InputError&) {
      return false;
    }
  };
  if (!has_two_cores()) {
    EXPECT_EQ(record.outcome, RecordOutcome::unsupported);
    EXPECT_TRUE(record.reason.starts_with("pin: 2 ranks on a machine")) << record.reason;
    return;
  }
  EXPECT_EQ(code, 0) << log();
  const auto cpus = record.environment.pinning.value().cpus;
  ASSERT_EQ(cpus.size(), 2u);
  EXPECT_NE(cpus[0], cpus[1]);
}

// EdgePipe over throttled links on slowed ranks: the same outputs whatever the plan and however many processes, and no
// period shorter than what the throttle lets through. How much longer than planned it is depends on the machine: the
// sweep edgepipe_wall measures that.
TEST_F(Launched, InferenceOverThrottledLinksOnSlowedRanksGivesTheSameOutputsNoFasterThanTheLinks) {
  write_test_data(folder_);
  ::setenv("SLUICE_DATA", folder_.c_str(), 1);
  const fs::path sweep = folder_ / "sweep.json";
  std::ofstream(sweep) << R"({"defaults": {"workload": "fmnist_vit", "transport": "mpi", "task": "inference",
      "costs": "analytic", "steps": 8, "system": "edgepipe", "throttle": "rate=100Mbit/s,latency=1ms"},
    "grid": [{"ranks": 2, "slowdown": "2,4", "options": {"planner": ["exact", "even"]}},
             {"ranks": 4, "slowdown": "4,4,8,8", "options": {"planner": ["exact", "even"]}},
             {"ranks": 2, "transport": "threads", "options": {"planner": "even"}}]})";
  const int code = run(4, {sweep});
  ::unsetenv("SLUICE_DATA");
  EXPECT_EQ(code, 0) << log();
  const std::vector<Record> all = records();
  ASSERT_EQ(all.size(), 5u) << log();
  for (const Record& record : all) {
    SCOPED_TRACE(std::to_string(record.ranks) + record.transport + record.options.at("planner"));
    EXPECT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
    EXPECT_EQ(record.observed.output_digest, all.front().observed.output_digest);
    const auto microbatches = static_cast<double>(record.microbatches * record.step_seconds.size());
    const double seconds = std::accumulate(record.step_seconds.begin(), record.step_seconds.end(), 0.0);
    // sent_bytes are those of an update, of every rank; a rank sends to one other.
    const auto& messages = record.observed.sent_bytes.value().messages;
    const double most = static_cast<double>(std::ranges::max(messages)) / record.microbatches;
    EXPECT_TRUE(most > 0 || record.options.at("planner") == "exact");  // which may leave ranks without a stage
    EXPECT_GE(seconds, 0.9 * microbatches * most / 12.5e6);
  }
}

// DynPipe on the test data, on two ranks; `more`: members of the entry's JSON.
std::string dynpipe_entry(const std::string& transport, int epochs, const std::string& options,
                          const std::string& more) {
  return R"({"system": "dynpipe", "workload": "fmnist_mlp_deep", "ranks": 2, "batch": 32, "costs": "analytic",
      "transport": ")" +
         transport + R"(", "epochs": )" + std::to_string(epochs) + R"(, "options": {"window": 10, )" + options +
         R"(}, )" + more + "}";
}

// How training went, to the last bit, whatever moved layers to where.
void expect_same_training(const Record& a, const Record& b) {
  EXPECT_EQ(a.outcome, b.outcome) << a.reason << " / " << b.reason;
  EXPECT_EQ(a.diverged_at, b.diverged_at);
  EXPECT_EQ(a.observed.adaptation.value().moves, b.observed.adaptation.value().moves);
  ASSERT_EQ(a.curve.size(), b.curve.size());
  for (std::size_t k = 0; k < a.curve.size(); ++k) {
    if (a.outcome != RecordOutcome::diverged || k + 1 < a.curve.size()) {  // else the last loss is not a number
      EXPECT_EQ(a.curve[k].loss, b.curve[k].loss) << k;
    }
    EXPECT_EQ(a.curve[k].metric, b.curve[k].metric) << k;
  }
}

// A process is killed while layers move, when its own are on their way. What the checkpoint holds is whole: the rerun
// goes on from it. Then the moves of its record are prescribed to threads, without interruption or interference: their
// training is the same to the last bit, so that whatever it came to is the moves' doing and not the processes'.
//
// The learning rate is one at which every plan trains. At the workload's own, 0.02, PipeDream with most layers on the
// first rank diverges for some seeds without a single move: with a delay of one update and a momentum of 0.9 the
// largest curvature that a rate allows is (1 - 0.9) / rate, 38 times less than 2 (1 + 0.9) / rate without a delay.
TEST_F(Launched, AProcessThatIsKilledWhileLayersMoveLosesNothingThatACheckpointHeld) {
  write_test_data(folder_);
  ::setenv("SLUICE_DATA", folder_.c_str(), 1);
  // Slow for a while and not for a while, again and again: whenever the detector has its baseline, a change follows.
  std::ostringstream episodes;
  for (int k = 0; k < 40; ++k) episodes << (k ? "," : "") << "compute:1@" << 0.5 + 2 * k << "-" << 1.5 + 2 * k << "x6";
  const fs::path sweep = folder_ / "sweep.json", checkpoints = folder_ / "checkpoints";
  const std::string rate = R"("optimizer": {"learning_rate": 0.005})";
  std::ofstream(sweep) << R"({"grid": [)"
                       << dynpipe_entry("mpi", 300, R"("moves": "none")",
                                        rate + R"(, "interference": ")" + episodes.str() +
                                            R"(", "inject_failure": {"rank": 1, "move": 0, "killed": true})")
                       << "]}";
  EXPECT_NE(run(2, {sweep, "--checkpoints", checkpoints}), 0) << log();
  ASSERT_EQ(records().size(), 1u);
  EXPECT_EQ(records().front().outcome, RecordOutcome::failed);
  if (records().front().reason.find("layers moved 0 times") != std::string::npos)
    GTEST_SKIP() << "no layer moved in 300 epochs: this machine's own noise hides the episodes";
  EXPECT_EQ(records().front().failed_rank, 1);
  EXPECT_TRUE(records().front().reason.starts_with("its process ")) << records().front().reason;
  std::vector<double> losses;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    if (entry.path().extension() != ".json") continue;
    const Json kept = Json::parse(content(entry.path()));
    for (const Json& point : kept.at("record").at("curve")) losses.push_back(point.at("loss").get<double>());
  }
  if (losses.empty()) GTEST_SKIP() << "the layers moved before the first checkpoint: this machine is too busy";
  EXPECT_EQ(run(2, {sweep, "--checkpoints", checkpoints, "--resume"}), 0) << log();
  ASSERT_EQ(records().size(), 2u) << log();
  const Record whole = records().back();
  EXPECT_EQ(whole.outcome, RecordOutcome::ok) << whole.reason;
  ASSERT_EQ(whole.curve.size(), 300u);
  for (std::size_t k = 0; k < losses.size(); ++k) EXPECT_EQ(whole.curve[k].loss, losses[k]) << k;
  const std::string moves = whole.observed.adaptation.value().moves;
  if (moves.empty()) return;  // after the one that was interrupted
  std::ofstream(sweep) << R"({"grid": [)" << dynpipe_entry("threads", 300, R"("moves": ")" + moves + R"(")", rate)
                       << "]}";
  EXPECT_EQ(run(1, {sweep}), 0) << log();
  ::unsetenv("SLUICE_DATA");
  ASSERT_EQ(records().size(), 3u) << log();
  expect_same_training(whole, records().back());
}

// Prescribed moves, the second of which kills a process, so that the rerun begins between two moves: its record is that
// of threads that nothing interrupted. That holds for a training that diverges, too: rate 0.05.
TEST_F(Launched, MovesOverProcessesTrainAsOverThreadsWhetherTheTrainingIsInterruptedOrDiverges) {
  write_test_data(folder_);
  ::setenv("SLUICE_DATA", folder_.c_str(), 1);
  const fs::path sweep = folder_ / "sweep.json", checkpoints = folder_ / "checkpoints";
  const std::string moves = R"("moves": "7:13,93:3,100:15,168:4,331:14")";
  for (const std::string rate : {"0.005", "0.05"}) {
    SCOPED_TRACE(rate);
    fs::remove(out_);
    const std::string optimizer = R"("optimizer": {"learning_rate": )" + rate + "}";
    std::ofstream(sweep) << R"({"grid": [)" << dynpipe_entry("threads", 20, moves, optimizer) << "]}";
    run(1, {sweep});
    const std::string killed = R"(, "inject_failure": {"rank": 1, "move": 1, "killed": true})";
    std::ofstream(sweep) << R"({"grid": [)" << dynpipe_entry("mpi", 20, moves, optimizer + killed) << "]}";
    EXPECT_NE(run(2, {sweep, "--checkpoints", checkpoints}), 0) << log();
    run(2, {sweep, "--checkpoints", checkpoints, "--resume"});
    ASSERT_EQ(records().size(), 3u) << log();
    const Record on_threads = records()[0], interrupted = records()[1], resumed = records()[2];
    EXPECT_EQ(interrupted.outcome, RecordOutcome::failed);
    EXPECT_EQ(interrupted.failed_rank, 1);
    EXPECT_EQ(on_threads.outcome, rate == "0.05" ? RecordOutcome::diverged : RecordOutcome::ok) << on_threads.reason;
    expect_same_training(resumed, on_threads);
  }
  ::unsetenv("SLUICE_DATA");
}

// Every process finds the same fault: one record says so, and the job goes on.
TEST_F(Launched, ACheckpointThatWasEditedIsRejectedOnce) {
  write_test_data(folder_);
  ::setenv("SLUICE_DATA", folder_.c_str(), 1);
  const fs::path sweep = folder_ / "sweep.json", checkpoints = folder_ / "checkpoints";
  std::ofstream(sweep) << R"({"defaults": {"workload": "fmnist_mlp_deep", "transport": "mpi", "ranks": 2, "batch": 32,
      "costs": "analytic", "epochs": 3, "system": "1f1b"},
    "grid": [{"inject_failure": {"rank": 1, "update": 20}}, {"seed": 2}]})";
  EXPECT_EQ(run(2, {sweep, "--checkpoints", checkpoints}), 1) << log();
  ASSERT_EQ(records().size(), 2u) << log();
  int edited = 0;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    if (entry.path().extension() != ".json") continue;
    Json kept = Json::parse(content(entry.path()));
    kept["seconds"] = 0.25;
    std::ofstream(entry.path()) << kept.dump();
    ++edited;
  }
  ASSERT_EQ(edited, 1);
  EXPECT_EQ(run(2, {sweep, "--checkpoints", checkpoints, "--resume"}), 1) << log();
  ::unsetenv("SLUICE_DATA");
  ASSERT_EQ(records().size(), 3u) << log();
  EXPECT_EQ(records().back().outcome, RecordOutcome::failed);
  EXPECT_NE(records().back().reason.find("was changed after it was written"), std::string::npos)
      << records().back().reason;
}

struct Blow {
  const char* name;
  int signal, rank;
  // In the first of two cases with sharded stages, on four ranks.
  bool sharded = false;
  bool stopped_before = false;  // so that the others wait for it, in a collective
};
void PrintTo(const Blow& blow, std::ostream* out) { *out << blow.name; }

class Struck : public Launched, public ::testing::WithParamInterface<Blow> {
 protected:
  Arguments arguments() const {
    if (!GetParam().sharded) return steps(4000);
    const fs::path sweep = folder_ / "sweep.json";
    std::ofstream(sweep) << R"({"defaults": {"workload": "tiny", "transport": "mpi", "ranks": 4,
        "data_parallel": 2, "system": "1f1b", "options": {"zero": "3"}},
      "grid": [{"steps": 2000}, {"steps": 20}]})";
    return {sweep};
  }
};

// After the blow all is over, without waiting for ever, and the record names the rank. A rerun goes on, with this case
// and the next.
TEST_P(Struck, LeavesARecordNoOrphanAndARerunGoesOn) {
  const Blow blow = GetParam();
  const int processes = blow.sharded ? 4 : 2;
  const std::size_t cases = blow.sharded ? 2 : 1;
  const pid_t launcher = start(processes, arguments());
  for (int k = 0; k < 6000 && count(log(), "[1/" + std::to_string(cases) + "]") == 0; ++k)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // into the run, or on the way to it
  const std::vector<pid_t> victim = processes_of_job(blow.rank);
  ASSERT_EQ(victim.size(), 1u) << log();
  if (blow.stopped_before) {
    ASSERT_EQ(::kill(victim.front(), SIGSTOP), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  const auto start_time = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(victim.front(), blow.signal), 0);
  EXPECT_NE(wait_for(launcher), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start_time, std::chrono::minutes(2));
  for (int k = 0; k < 3000 && !processes_of_job().empty(); ++k)  // until they have left the table of processes
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(processes_of_job(), std::vector<pid_t>{});
  ASSERT_EQ(records().size(), 1u) << log();
  EXPECT_EQ(records().front().outcome, RecordOutcome::failed);
  EXPECT_EQ(records().front().failed_rank, blow.rank);
  EXPECT_TRUE(records().front().reason.starts_with("its process ")) << records().front().reason;
  if (blow.rank > 0 && !blow.stopped_before) return;
  Arguments again = arguments();
  again.push_back("--resume");
  EXPECT_EQ(run(processes, again), 0) << log();
  ASSERT_EQ(records().size(), 1 + cases);
  for (std::size_t k = 1; k <= cases; ++k) EXPECT_EQ(records()[k].outcome, RecordOutcome::ok);
}

INSTANTIATE_TEST_SUITE_P(AProcess, Struck,
                         ::testing::Values(Blow{"KilledAsTheFirst", SIGKILL, 0}, Blow{"KilledAsAnother", SIGKILL, 1},
                                           Blow{"Stopped", SIGSTOP, 1},
                                           Blow{"KilledInACollective", SIGKILL, 2, true, true},
                                           Blow{"StoppedInAShardedRun", SIGSTOP, 3, true}),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace sluice
