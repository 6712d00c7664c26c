#include "harness/run/sweep_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <span>

#include "harness/base/error.h"
#include "harness/base/quantities.h"
#include "harness/base/stop.h"
#include "harness/case/settings.h"
#include "harness/case/sweep.h"
#include "harness/pipeline/system.h"
#include "harness/run/parallel_cases.h"
#include "harness/train/shared_training.h"
#include "harness/train/tuning.h"
#include "results/compare.h"
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
  if (c.purpose == Purpose::tune)
    return text + fmt::format(", tuning: rate {} for {}", c.optimizer.learning_rate,
                              c.epochs > 0 ? fmt::format("{} epoch{}", c.epochs, c.epochs == 1 ? "" : "s")
                                           : fmt::format("{} updates", c.steps));
  if (c.purpose == Purpose::boundary) return text + fmt::format(", rate {}", c.optimizer.learning_rate);
  if (c.tune && c.optimizer.learning_rate == 0) return text + ", rate to be tuned";
  if (c.tune) return text + fmt::format(", tuned rate {}", c.optimizer.learning_rate);
  return text;
}

// The settings of a case, those within objects by "optimizer.kind".
static std::map<std::string, std::string> flat_settings(const RunCase& c) {
  std::map<std::string, std::string> flat;
  const Json settings = to_json(c);
  for (const auto& [key, value] : settings.items()) {
    if (!value.is_object())
      flat[key] = value.text();
    else
      for (const auto& [inner, of] : value.items()) flat[key + "." + inner] = of.text();
  }
  return flat;
}

std::vector<std::string> differences(const std::vector<RunCase>& cases) {
  std::map<std::string, std::vector<std::size_t>> alike;
  for (std::size_t k = 0; k < cases.size(); ++k) alike[describe(cases[k])].push_back(k);
  std::vector<std::string> texts(cases.size());
  for (const auto& [name, group] : alike) {
    if (group.size() == 1) continue;
    std::vector<std::map<std::string, std::string>> settings;
    std::map<std::string, std::map<std::string, std::size_t>> counts;  // of a setting's values
    for (const std::size_t k : group)
      for (const auto& [key, value] : settings.emplace_back(flat_settings(cases[k]))) ++counts[key][value];
    for (std::size_t i = 0; i < group.size(); ++i)
      for (const auto& [key, value] : settings[i])  // those that are left out where they have their default, too
        if (counts[key][value] < group.size()) texts[group[i]] += ", " + key + " " + value;
  }
  return texts;
}

static std::string summary(const Record& record) {
  if (record.outcome == RecordOutcome::diverged) return "diverged " + record.reason;
  if (record.outcome != RecordOutcome::ok) {
    const std::string rank = record.failed_rank ? fmt::format(" (rank {})", *record.failed_rank) : "";
    return choice_name(record.outcome) + rank + ": " + record.reason;
  }
  std::string text = "ok";
  if (const auto t = throughput(record)) text += fmt::format(", {:.4g} samples/s", t->samples_per_second);
  if (const auto m = peak_memory(record)) text += ", peak " + to_text(Bytes(*m));
  if (const auto v = final_metric(record)) text += fmt::format(", {} {:.4f}", metric_name(record), *v);
  if (target(record)) {
    const auto time = time_to_accuracy(record);
    text += time ? ", target after " + to_text(Seconds(*time)) : ", target not reached";
  }
  if (record.curve_of) text += ", curve of " + record.curve_of->system;
  return text;
}

namespace {

// A case of the sweep, or a training that the search for a case's rate may need.
struct SweepJob {
  RunCase c;
  const RunCase* tuned = nullptr;  // whose search
  std::size_t round = 0;
  bool repeated = false;  // an earlier job is the same training
};

// Each search before the first case that needs it.
std::vector<SweepJob> jobs_of(const std::vector<RunCase>& cases) {
  std::set<std::string> searches, trainings;
  std::vector<SweepJob> jobs;
  for (const RunCase& c : cases) {
    if (c.tune && searches.insert(search_digest(c)).second)
      for (TuningCase& candidate : tuning_cases(c)) {
        const bool repeated = !trainings.insert(digest_of(candidate.c)).second;
        // Of the first round all run. Of a later one each search decides for itself.
        if (!repeated || candidate.round > 0) jobs.push_back({std::move(candidate.c), &c, candidate.round, repeated});
      }
    jobs.push_back({c});
  }
  return jobs;
}

std::vector<RunCase> cases_of(const std::vector<SweepJob>& jobs) {
  std::vector<RunCase> cases;
  for (const SweepJob& job : jobs) cases.push_back(job.c);
  return cases;
}

}  // namespace

std::vector<RunCase> with_tuning(const std::vector<RunCase>& cases) {
  std::vector<RunCase> all;
  for (SweepJob& job : jobs_of(cases))
    if (!job.repeated) all.push_back(std::move(job.c));
  return all;
}

std::vector<RunCase> expected_with_tuning(const std::vector<RunCase>& cases) {
  std::vector<RunCase> all;
  for (SweepJob& job : jobs_of(cases)) {
    const auto kept = [&] {
      const TuneSpec& tune = *job.tuned->tune;
      return std::span(tune.learning_rates).first(static_cast<std::size_t>(tune.rounds[job.round - 1].keep));
    };
    const bool dropped = job.round > 0 && job.c.optimizer.learning_rate > kept().back();
    if (!job.repeated && !dropped) all.push_back(std::move(job.c));
  }
  return all;
}

namespace {

// Runs the cases of one sweep, from as many threads as run side by side.
class SweepRun {
 public:
  SweepRun(const std::vector<RunCase>& cases, const SweepOptions& options, const RunOne& run_one)
      : options_(options),
        run_one_(run_one),
        jobs_(jobs_of(cases)),
        store_(options.out),
        in_order_(store_, options.shard),
        progress_(options.progress, jobs_.size()),
        trainings_(groups()),
        differences_(differences(cases_of(jobs_))),
        timelines_(options.timelines.value_or(
            cases.size() * static_cast<std::size_t>(options.shard ? options.shard->count : 1) <= kSmallSweep
                ? KeptTimelines::all
                : KeptTimelines::none)),
        made_(jobs_.size()),
        earlier_(jobs_.size()) {
    for (const std::string& warning : store_.warnings()) progress_.note("warning: " + warning);
    if (options.again && !options.resume) return;
    std::vector<Record> stored = store_.read();
    std::erase_if(stored, [](const Record& r) { return !is_final(r); });
    if (options.resume) {
      for (const Record& record : stored) finished_.put(record.digest, record);
    } else {
      std::set<std::string> digests;
      for (const Record& record : stored) digests.insert(record.digest);
      const auto known =
          std::ranges::count_if(jobs_, [&](const SweepJob& job) { return digests.contains(digest_of(job.c)); });
      if (known > 0)
        throw InputError(options.out.string(),
                         fmt::format("holds results of {} of these {} cases already", known, jobs_.size()),
                         "give --resume to skip them, --again to run them once more, or another --out");
    }
  }

  SweepResult run() {
    try {
      run_side_by_side(
          jobs_.size(), options_.jobs, [&](std::size_t k) { return runs_alone(jobs_[k].c); },
          [&](std::size_t k, CaseSlots& slots) {
            if (run_or_skip(k, slots)) return true;
            finished_.end();
            return false;
          });
    } catch (...) {
      in_order_.finish();
      throw;
    }
    in_order_.finish();
    for (const auto& [group, record] : best_) store_.append(record);
    for (std::optional<Record>& record : made_)
      if (record) result_.records.push_back(std::move(*record));
    for (std::optional<Record>& record : earlier_)
      if (record) result_.records.push_back(std::move(*record));
    return std::move(result_);
  }

 private:
  std::vector<std::string> groups() const {
    std::vector<std::string> groups;
    for (const SweepJob& job : jobs_) groups.push_back(training_group(job.c));
    return groups;
  }

  // False: the sweep ends.
  bool run_or_skip(std::size_t k, CaseSlots& slots) {
    SharedTrainings::Turn turn(trainings_, k, [&slots](const auto& wait) { slots.without(wait); });
    const std::string name = digest_of(jobs_[k].c);
    if (interrupted()) return interrupt();
    if (const Record* found = finished_.find(name)) {
      in_order_.put(k, std::nullopt);
      if (jobs_[k].repeated) return true;
      earlier_[k] = *found;
      const std::lock_guard lock(mutex_);
      ++result_.skipped;
      return true;
    }
    RunCase job = jobs_[k].c;
    std::optional<Tuning> tuning;
    if (job.tune || jobs_[k].round > 0) {  // the trainings that it waits for stand before it in the list
      const auto search = search_until(jobs_[k], slots);
      if (!search) return interrupt();
      if (job.tune) {
        tuning = search->result();
        job = with_chosen_rate(std::move(job), *tuning);
      } else if (!needs(*search, name)) {
        in_order_.put(k, std::nullopt);
        progress_.begin(k, describe(job) + differences_[k]);
        progress_.end(k, "not needed: an earlier round has dropped this rate");
        return true;
      }
    }
    progress_.begin(k, describe(job) + differences_[k]);
    try {
      Record record = run_one_(job, {.cancel = &interrupted(),
                                     .progress = [&](double fraction) { progress_.update(k, fraction); },
                                     .checkpoints = options_.checkpoints,
                                     .timeline = timelines_ != KeptTimelines::none,
                                     .turn = &turn});
      record.tuning = std::move(tuning);
      keep_timeline(record);
      in_order_.put(k, record);
      progress_.end(k, summary(record));
      finished_.put(name, record);
      made_[k] = std::move(record);
    } catch (const Cancelled&) {
      progress_.end(k, "interrupted: no record; run again with --resume");
      return interrupt();
    } catch (...) {
      finished_.end();
      throw;
    }
    const std::lock_guard lock(mutex_);
    const RecordOutcome outcome = made_[k].value().outcome;
    if (outcome != RecordOutcome::failed && outcome != RecordOutcome::timed_out) return true;
    ++result_.failed;
    if (options_.progress == ProgressStyle::none) progress_.note(describe(job) + ": " + summary(*made_[k]));
    return true;
  }

  // Takes the timeline out of a record that is to have none; of `best` keeps the one that is the fastest so far.
  void keep_timeline(Record& record) {
    if (timelines_ == KeptTimelines::all) return;
    const std::optional<double> rate = samples_per_second(record);
    if (timelines_ == KeptTimelines::best && rate && !record.timeline.empty() && record.purpose == Purpose::measure) {
      const std::lock_guard lock(mutex_);
      const auto [found, added] = best_.try_emplace({comparison_group(record), record.system}, record);
      if (!added && *rate > samples_per_second(found->second).value()) found->second = record;
    }
    record.timeline.clear();
  }

  // The search as it stands before the job; none: the sweep ends before.
  std::optional<RateSearch> search_until(const SweepJob& job, CaseSlots& slots) {
    RateSearch search(job.tuned ? *job.tuned : job.c);
    for (std::size_t round = 0; job.tuned ? round < job.round : !search.over(); ++round) {
      std::vector<std::string> digests;
      for (const RunCase& candidate : search.cases()) digests.push_back(digest_of(candidate));
      const std::vector<Record> records = finished_.wait_for(digests, slots);
      if (records.empty()) return std::nullopt;
      search.end_round(records);
    }
    return search;
  }

  static bool needs(const RateSearch& search, const std::string& digest) {
    return std::ranges::any_of(search.cases(), [&](const RunCase& c) { return digest_of(c) == digest; });
  }

  bool interrupt() {
    const std::lock_guard lock(mutex_);
    result_.interrupted = true;
    return false;
  }

  const SweepOptions& options_;
  const RunOne& run_one_;
  const std::vector<SweepJob> jobs_;
  Store store_;
  RecordsInOrder in_order_;
  Progress progress_;
  FinishedCases finished_;  // earlier ones if resuming, and those made now
  SharedTrainings trainings_;
  const std::vector<std::string> differences_;
  const KeptTimelines timelines_;
  std::map<std::pair<ComparisonGroup, std::string>, Record> best_;  // by system; with their timelines
  std::vector<std::optional<Record>> made_, earlier_;               // per case
  std::mutex mutex_;
  SweepResult result_;
};

}  // namespace

SweepResult run_sweep(const std::vector<RunCase>& cases, const SweepOptions& options, const RunOne& run_one) {
  return SweepRun(cases, options, run_one).run();
}

}  // namespace sluice
