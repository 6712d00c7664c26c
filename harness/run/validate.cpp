#include "harness/run/validate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <ranges>
#include <tuple>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/passing_folder.h"
#include "harness/base/read_text.h"
#include "harness/base/run_program.h"
#include "harness/base/stop.h"
#include "harness/case/profile_store.h"
#include "harness/case/settings.h"
#include "harness/exec/core_gauge.h"
#include "harness/run/run_case.h"
#include "results/metrics.h"
#include "results/store.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

constexpr int kFewestSteps = 10, kMaxSteps = 2000, kFewestRounds = 4;
constexpr double kMaxWaiting = 2;  // seconds, for cores that work side by side

fs::path new_temporary_folder() {
  std::string name = (fs::temp_directory_path() / "sluice-validate-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw RunError(name + ": cannot be made: " + errno_text(errno));
  set_scratch_folder(name);
  return name;
}

class ValidationRun {
 public:
  ValidationRun(const std::vector<ValidationCase>& cases, const ValidateOptions& options)
      : cases_(cases),
        options_(options),
        store_(options.out),
        all_folders_(new_temporary_folder()),
        progress_(options.progress, cases.size() * static_cast<std::size_t>(options.rounds)),
        order_(cases.size()),
        steps_(cases.size(), 0),
        seconds_(cases.size(), 0),
        runs_(cases.size(), true) {
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, {}, [&](std::size_t k) {
      const RunCase& c = cases[k].wall;
      return std::tuple(over_processes(k), c.workload, c.batch / c.microbatches, c.weight_gradient);
    });
  }

  ValidateResult run() {
    for (int round = 0; round < options_.rounds && !stopped(); ++round) {
      folder_ = all_folders_.path / std::to_string(round);
      fs::create_directories(folder_);
      profiles_.emplace(folder_ / "profiles", 1);
      run_round(round);
      std::ranges::reverse(order_);
    }
    result_.interrupted = stopped();
    return std::move(result_);
  }

 private:
  Record run(const RunCase& c) { return run_case(c, *profiles_, {.cancel = &interrupted()}); }
  static bool stopped() { return interrupted().load(); }
  bool over_processes(std::size_t k) const { return cases_[k].wall.transport == TransportKind::mpi; }

  void run_round(int round) {
    for (const std::size_t k : order_) {
      if (stopped()) return;
      if (!takes_part(k, round)) continue;
      simulate_case(k, round);
      if (runs_[k] && !over_processes(k) && !stopped()) run_for_real(k, round);
    }
    if (!stopped()) run_processes(round);
  }

  void leave_out(std::size_t k, int round, const std::string& why) {
    runs_[k] = false;
    result_.left_out.push_back(cases_[k].label + ": " + why);
    progress_.end(position(k, round), "left out: " + why);
  }

  void keep(Record record, std::size_t k, int round) {
    if (record.clock == Clock::wall)
      seconds_[k] += std::accumulate(record.step_seconds.begin(), record.step_seconds.end(), 0.0);
    record.environment.validation = {.number = static_cast<int>(k), .label = cases_[k].label, .round = round};
    store_.append(record);
    result_.records.push_back(std::move(record));
  }

  void simulate_case(std::size_t k, int round) {
    progress_.begin(position(k, round), cases_[k].label);
    try {
      if (steps_[k] == 0) choose_steps(k, round);
      if (runs_[k]) keep(run(on_virtual_clock(cases_[k], steps_[k])), k, round);
    } catch (const Cancelled&) {
      progress_.end(position(k, round), "interrupted");
    }
  }

  bool takes_part(std::size_t k, int round) const {
    return runs_[k] && (round < kFewestRounds || seconds_[k] < options_.seconds * options_.rounds);
  }

  // As many as fill the time by the virtual clock.
  void choose_steps(std::size_t k, int round) {
    const Record first = run(on_virtual_clock(cases_[k], kFewestSteps));
    const std::optional<double> seconds = update_seconds(first);
    if (first.outcome != RecordOutcome::ok || !seconds) return leave_out(k, round, outcome_of(first));
    steps_[k] = std::clamp(static_cast<int>(options_.seconds / *seconds), kFewestSteps, kMaxSteps);
  }

  void run_for_real(std::size_t k, int round) {
    try {
      CoreGauge gauge(cases_[k].wall.ranks, kMaxWaiting);
      Record record;
      do {
        gauge.wait();
        record = run(of_steps(cases_[k], steps_[k]));
      } while (!stopped() && gauge.again());
      if (record.outcome != RecordOutcome::ok) return leave_out(k, round, outcome_of(record));
      const std::optional<double> seconds = update_seconds(record);
      progress_.end(position(k, round), seconds ? fmt::format("{:.4g} ms", 1e3 * *seconds) : outcome_of(record));
      keep(std::move(record), k, round);
    } catch (const Cancelled&) {
      progress_.end(position(k, round), "interrupted");
    }
  }

  static std::string outcome_of(const Record& record) {
    const std::string outcome = choice_name(record.outcome);
    return record.reason.empty() ? outcome : outcome + ": " + record.reason;
  }

  std::size_t position(std::size_t k, int round) const { return k + cases_.size() * static_cast<std::size_t>(round); }

  // All cases of a round in one job of mpirun, as a sweep, with the round's profiles.
  void run_processes(int round) {
    Json grid = Json::array();
    std::vector<std::size_t> numbers;
    for (std::size_t k = 0; k < cases_.size(); ++k) {
      if (!over_processes(k) || !takes_part(k, round)) continue;
      grid.push_back(cases_[k].entry);
      grid.back()["steps"] = steps_[k];
      numbers.push_back(k);
    }
    if (numbers.empty()) return;
    const fs::path sweep = folder_ / "sweep.json", records = folder_ / "records.jsonl";
    std::ofstream(sweep) << Json{{"name", "validation"}, {"title", "validation"}, {"grid", grid}}.dump();
    const int ranks = cases_[numbers.front()].wall.ranks;
    CoreGauge(ranks, kMaxWaiting).wait();
    const ProgramEnd job =
        run_program({"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                     "SLUICE_PROFILE_CACHE=" + profiles_->folder(), "mpirun", "-n", std::to_string(ranks),
                     options_.program, "run", sweep.string(), "--out", records.string(), "--progress", "none"});
    std::vector<Record> made;
    if (fs::exists(records)) made = read_records(records).records;
    for (const std::size_t k : numbers) {
      const std::string name = digest_of(of_steps(cases_[k], steps_[k]));
      const auto found = std::ranges::find(made, name, &Record::digest);
      if (found == made.end() || found->outcome != RecordOutcome::ok) {
        leave_out(k, round,
                  found != made.end() ? outcome_of(*found)
                  : job.ok()          ? "no record of mpirun"
                                      : "mpirun failed");
        continue;
      }
      keep(*found, k, round);
      progress_.end(position(k, round), "done");
    }
  }

  const std::vector<ValidationCase>& cases_;
  const ValidateOptions& options_;
  Store store_;
  const PassingFolder all_folders_;
  fs::path folder_;                       // of the round: profiles, the job of mpirun
  std::optional<ProfileStore> profiles_;  // of the round
  Progress progress_;
  std::vector<std::size_t> order_;  // those that need the same profile next to each other
  std::vector<int> steps_;
  std::vector<double> seconds_;  // on the wall clock so far
  std::vector<bool> runs_;
  ValidateResult result_;
};

}  // namespace

ValidateResult run_validation(const std::vector<ValidationCase>& cases, const ValidateOptions& options) {
  return ValidationRun(cases, options).run();
}

}  // namespace sluice
