#include "harness/run/validate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/run_program.h"
#include "harness/base/stop.h"
#include "harness/case/settings.h"
#include "harness/run/run_case.h"
#include "results/metrics.h"
#include "results/store.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

constexpr int kFewestSteps = 12, kMostSteps = 300;

class ValidationRun {
 public:
  ValidationRun(const std::vector<ValidationCase>& cases, const ValidateOptions& options)
      : cases_(cases),
        options_(options),
        store_(options.out),
        progress_(options.progress, cases.size() * static_cast<std::size_t>(options.rounds + 1)),
        steps_(cases.size(), 0),
        runs_(cases.size(), true) {}

  ValidateResult run() {
    for (std::size_t k = 0; k < cases_.size() && !stopped(); ++k) simulate_case(k);
    for (int round = 0; round < options_.rounds && !stopped(); ++round) {
      for (std::size_t k = 0; k < cases_.size() && !stopped(); ++k)
        if (runs_[k] && !over_processes(k)) run_for_real(k, round);
      if (!stopped()) run_processes(round);
    }
    result_.interrupted = stopped();
    return std::move(result_);
  }

 private:
  static bool stopped() { return interrupted().load(); }
  bool over_processes(std::size_t k) const { return cases_[k].wall.transport == TransportKind::mpi; }

  // at: its place in the progress.
  void leave_out(std::size_t k, std::size_t at, const std::string& why) {
    runs_[k] = false;
    result_.left_out.push_back(cases_[k].label + ": " + why);
    progress_.end(at, "left out: " + why);
  }

  void keep(Record record, std::size_t k, int round) {
    record.environment.validation = {.number = static_cast<int>(k), .label = cases_[k].label, .round = round};
    store_.append(record);
    result_.records.push_back(std::move(record));
  }

  // Twice: the first time says how many updates fill the time.
  void simulate_case(std::size_t k) {
    progress_.begin(k, cases_[k].label + ", virtual clock");
    const Record first = run_case(on_virtual_clock(cases_[k], kFewestSteps), {.cancel = &interrupted()});
    const std::optional<double> seconds = update_seconds(first);
    if (first.outcome != RecordOutcome::ok || !seconds)
      return leave_out(
          k, k, first.reason.empty() ? choice_name(first.outcome) : choice_name(first.outcome) + ": " + first.reason);
    steps_[k] = std::clamp(static_cast<int>(options_.seconds / *seconds), kFewestSteps, kMostSteps);
    keep(run_case(on_virtual_clock(cases_[k], steps_[k]), {.cancel = &interrupted()}), k, -1);
    progress_.end(k, fmt::format("{:.4g} ms", 1e3 * *seconds));
  }

  void run_for_real(std::size_t k, int round) {
    progress_.begin(position(k, round), cases_[k].label);
    try {
      Record record = run_case(of_steps(cases_[k], steps_[k]), {.cancel = &interrupted()});
      if (record.outcome != RecordOutcome::ok && record.outcome != RecordOutcome::diverged)
        return leave_out(k, position(k, round), choice_name(record.outcome) + ": " + record.reason);
      take(std::move(record), k, round);
    } catch (const Cancelled&) {
      progress_.end(position(k, round), "interrupted");
    }
  }

  void take(Record record, std::size_t k, int round) {
    if (record.outcome == RecordOutcome::diverged)
      return leave_out(k, position(k, round), "diverged: " + record.reason);
    const std::optional<double> seconds = update_seconds(record);
    progress_.end(position(k, round), seconds ? fmt::format("{:.4g} ms", 1e3 * *seconds) : choice_name(record.outcome));
    keep(std::move(record), k, round);
  }

  std::size_t position(std::size_t k, int round) const {
    return k + cases_.size() * static_cast<std::size_t>(round + 1);
  }

  // All cases of a round in one job of mpirun, as a sweep.
  void run_processes(int round) {
    Json grid = Json::array();
    std::vector<std::size_t> numbers;
    for (std::size_t k = 0; k < cases_.size(); ++k) {
      if (!runs_[k] || !over_processes(k)) continue;
      grid.push_back(cases_[k].entry);
      grid.back()["steps"] = steps_[k];
      numbers.push_back(k);
    }
    if (numbers.empty()) return;
    const fs::path folder = fs::temp_directory_path() / fmt::format("sluice-validate-{}", getpid());
    fs::create_directories(folder);
    const fs::path sweep = folder / "sweep.json", records = folder / "records.jsonl";
    fs::remove(records);
    std::ofstream(sweep) << Json{{"name", "validation"}, {"title", "validation"}, {"grid", grid}}.dump();
    const int ranks = cases_[numbers.front()].wall.ranks;
    progress_.begin(position(numbers.front(), round), fmt::format("{} cases over MPI", numbers.size()));
    const ProgramEnd job = run_program({"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun",
                                        "-n", std::to_string(ranks), options_.program, "run", sweep.string(), "--out",
                                        records.string(), "--progress", "none"});
    std::vector<Record> made;
    if (fs::exists(records)) made = read_records(records).records;
    progress_.end(position(numbers.front(), round), job.ok() ? "done" : "mpirun failed");
    for (const std::size_t k : numbers) {
      const std::string name = digest(to_json(of_steps(cases_[k], steps_[k])));
      const auto found = std::ranges::find(made, name, &Record::digest);
      if (found == made.end() || found->outcome != RecordOutcome::ok) {
        runs_[k] = false;
        result_.left_out.push_back(
            cases_[k].label + ": " +
            (found == made.end() ? "no record of mpirun" : choice_name(found->outcome) + ": " + found->reason));
        continue;
      }
      keep(*found, k, round);
    }
    fs::remove_all(folder);
  }

  const std::vector<ValidationCase>& cases_;
  const ValidateOptions& options_;
  Store store_;
  Progress progress_;
  std::vector<int> steps_;
  std::vector<bool> runs_;
  ValidateResult result_;
};

}  // namespace

ValidateResult run_validation(const std::vector<ValidationCase>& cases, const ValidateOptions& options) {
  return ValidationRun(cases, options).run();
}

}  // namespace sluice
