#include "harness/run/sweep_runner.h"

#include <fmt/format.h>

#include <map>

#include "harness/core/error.h"
#include "harness/core/system.h"
#include "harness/core/units.h"
#include "harness/run/run_case.h"
#include "results/metrics.h"
#include "results/store.h"

namespace sluice {

std::string describe(const RunCase& c) {
  std::string text = c.system;
  const System& system = find_system(c.system, "system");
  for (const OptionSpec& option : system.options)
    if (c.options.at(option.name) != option.default_value)
      text += fmt::format(" {}={}", option.name, c.options.at(option.name));
  text +=
      fmt::format(" {} {} clock, {} rank{}", c.workload, c.clock, c.ranks, c.ranks == 1 ? "" : "s");
  if (c.clock == "virtual") text += " on " + c.cluster;
  return text + fmt::format(", seed {}", c.seed);
}

static std::string summary(const Record& record) {
  if (record.outcome != "ok") {
    const std::string rank =
        record.failed_rank ? fmt::format(" (rank {})", *record.failed_rank) : "";
    return record.outcome + rank + ": " + record.reason;
  }
  std::string text = "ok";
  if (const auto t = throughput(record))
    text += fmt::format(", {:.4g} samples/s", t->samples_per_second);
  if (const auto m = peak_memory(record)) text += ", peak " + to_text(Bytes(*m));
  if (const auto v = final_metric(record))
    text += fmt::format(", {} {:.4f}", metric_name(record), *v);
  if (target(record)) {
    const auto time = time_to_accuracy(record);
    text += time ? ", target after " + to_text(Seconds(*time)) : ", target not reached";
  }
  return text;
}

SweepResult run_sweep(const std::vector<RunCase>& cases, const SweepOptions& options) {
  Store store(options.out);
  SweepResult result;
  Progress progress(options.progress, cases.size());
  for (const std::string& warning : store.warnings()) progress.note("warning: " + warning);
  std::map<std::string, Record> finished;
  if (options.resume)
    for (Record& record : store.read())
      if (record.outcome == "ok") finished[record.digest] = std::move(record);
  std::vector<Record> earlier;
  for (std::size_t k = 0; k < cases.size(); ++k) {
    if (interrupted()) {
      result.interrupted = true;
      break;
    }
    if (const auto found = finished.find(digest(to_json(cases[k]))); found != finished.end()) {
      earlier.push_back(found->second);
      ++result.skipped;
      continue;
    }
    progress.begin(k, describe(cases[k]));
    try {
      const Record record = run_case(
          cases[k], {&interrupted(),
                     [&](double fraction, const std::string&) { progress.update(fraction); }});
      store.append(record);
      progress.end(summary(record));
      if (record.outcome == "failed" || record.outcome == "timed_out") ++result.failed;
      result.records.push_back(record);
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
