#include "harness/run/sweep_runner.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "harness/base/error.h"
#include "harness/base/quantities.h"
#include "harness/case/settings.h"
#include "harness/pipeline/system.h"
#include "harness/train/tuning.h"
#include "results/metrics.h"
#include "results/store.h"

namespace sluice {

std::string describe(const RunCase& c) {
  std::string text = c.system;
  const System& system = find_system(c.system, "system");
  for (const OptionSpec& option : system.options)
    if (c.options.at(option.name) != option.default_value)
      text += fmt::format(" {}={}", option.name, c.options.at(option.name));
  text += fmt::format(" {} {} clock, {} rank{}", c.workload, choice_name(c.clock), c.ranks, c.ranks == 1 ? "" : "s");
  if (c.clock == Clock::virtual_clock) text += " on " + c.cluster;
  text += fmt::format(", seed {}", c.seed);
  if (c.purpose == Purpose::tune) return text + fmt::format(", tuning: rate {}", c.optimizer.learning_rate);
  if (c.purpose == Purpose::boundary) return text + fmt::format(", rate {}", c.optimizer.learning_rate);
  if (c.tune && c.optimizer.learning_rate == 0) return text + ", rate to be tuned";
  if (c.tune) return text + fmt::format(", tuned rate {}", c.optimizer.learning_rate);
  return text;
}

static std::string summary(const Record& record) {
  if (record.outcome == "diverged") return "diverged " + record.reason;
  if (record.outcome != "ok") {
    const std::string rank = record.failed_rank ? fmt::format(" (rank {})", *record.failed_rank) : "";
    return record.outcome + rank + ": " + record.reason;
  }
  std::string text = "ok";
  if (const auto t = throughput(record)) text += fmt::format(", {:.4g} samples/s", t->samples_per_second);
  if (const auto m = peak_memory(record)) text += ", peak " + to_text(Bytes(*m));
  if (const auto v = final_metric(record)) text += fmt::format(", {} {:.4f}", metric_name(record), *v);
  if (target(record)) {
    const auto time = time_to_accuracy(record);
    text += time ? ", target after " + to_text(Seconds(*time)) : ", target not reached";
  }
  return text;
}

std::vector<RunCase> with_tuning(const std::vector<RunCase>& cases) {
  std::set<std::string> seen;
  std::vector<RunCase> all;
  for (const RunCase& c : cases) {
    if (c.tune)
      for (RunCase& candidate : tuning_cases(c))
        if (seen.insert(digest(to_json(candidate))).second) all.push_back(std::move(candidate));
    all.push_back(c);
  }
  return all;
}

SweepResult run_sweep(const std::vector<RunCase>& cases, const SweepOptions& options, const RunOne& run_one) {
  Store store(options.out);
  SweepResult result;
  const std::vector<RunCase> jobs = with_tuning(cases);
  Progress progress(options.progress, jobs.size());
  for (const std::string& warning : store.warnings()) progress.note("warning: " + warning);
  std::map<std::string, Record> finished;  // by digest: earlier ones if resuming, and those made now
  if (options.resume)
    for (Record& record : store.read())
      if (is_result(record)) finished[record.digest] = std::move(record);
  std::vector<Record> earlier;
  for (std::size_t k = 0; k < jobs.size(); ++k) {
    if (interrupted()) {
      result.interrupted = true;
      break;
    }
    RunCase job = jobs[k];
    const std::string name = digest(to_json(job));
    if (const auto found = finished.find(name); found != finished.end()) {
      earlier.push_back(found->second);
      ++result.skipped;
      continue;
    }
    nlohmann::json tuning = nlohmann::json::object();
    if (job.tune) {  // its candidates stand before it in the list
      std::vector<Record> candidates;
      for (const RunCase& candidate : tuning_cases(job)) candidates.push_back(finished.at(digest(to_json(candidate))));
      tuning = choose_learning_rate(job, candidates);
      job = with_chosen_rate(std::move(job), tuning);
    }
    progress.begin(k, describe(job));
    try {
      Record record = run_one(job, {.cancel = &interrupted(),
                                    .progress = [&](double fraction) { progress.update(fraction); },
                                    .checkpoints = options.checkpoints});
      record.tuning = std::move(tuning);
      store.append(record);
      progress.end(summary(record));
      if (record.outcome == "failed" || record.outcome == "timed_out") ++result.failed;
      finished[name] = record;
      result.records.push_back(std::move(record));
    } catch (const Cancelled&) {
      progress.end("interrupted: no record; run again with --resume");
      result.interrupted = true;
      break;
    }
  }
  result.records.insert(result.records.end(), earlier.begin(), earlier.end());
  return result;
}

}  // namespace sluice
