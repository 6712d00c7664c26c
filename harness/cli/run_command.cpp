#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/numbers.h"
#include "harness/base/source_folder.h"
#include "harness/base/stop.h"
#include "harness/base/visible_text.h"
#include "harness/case/profile_store.h"
#include "harness/case/settings.h"
#include "harness/case/sweep.h"
#include "harness/cli/chrome_trace.h"
#include "harness/cli/commands.h"
#include "harness/cli/exit_codes.h"
#include "harness/cli/gpu_program.h"
#include "harness/cli/timeline_page.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/run/compare_inputs.h"
#include "harness/run/job.h"
#include "harness/run/parallel_cases.h"
#include "harness/run/sweep_runner.h"
#include "harness/run/sweep_time.h"
#include "harness/train/tuning.h"
#include "results/compare.h"
#include "results/stability.h"
#include "results/store.h"

namespace sluice {

namespace {

// As many ranks as a launcher started processes, for a case over MPI that does not say how many.
Json default_ranks(const Json& flags) {
  const auto transport = choice_named<TransportKind>(flags.value("transport", ""));
  const int processes = launch_from_environment().size;
  const bool over_processes = transport == TransportKind::mpi || (transport == TransportKind::nccl && processes > 1);
  return over_processes ? Json{{"ranks", processes}} : Json::object();
}

// --seed for a whole sweep: cases that differ in nothing but their seed become one.
void set_seed(Sweep& sweep, const std::string& text) {
  const auto seed = number_as<std::uint64_t>(text);
  if (!seed) throw InputError("--seed", "'" + text + "' is not a number of at least 0", "write --seed 1");
  std::set<std::string> seen;
  std::vector<RunCase> cases;
  for (RunCase& c : sweep.cases) {
    if (c.tune && std::ranges::count(c.tune->seeds, *seed) > 0)
      throw InputError("--seed", text + " is the seed that learning rates are tuned on", "choose another");
    if (c.train) c.seed = *seed;  // otherwise it decides nothing
    if (seen.insert(digest_of(c)).second) cases.push_back(std::move(c));
  }
  sweep.cases = std::move(cases);
}

// A case for each of the systems that are given, each with those of the options that it has.
Sweep sweep_of_flags(const CaseFlags& flags) {
  for (const char* key : {"system", "workload"})
    if (!flags.values.contains(key))
      throw InputError("run", std::string("--") + key + " is missing", "give a sweep file, or --system and --workload");
  Sweep sweep;
  sweep.cases = cases_of(entries_of(flags, default_ranks(entry_of(flags).values)));
  sweep.combinations = sweep.experiments = sweep.cases.size();
  const std::size_t others = sweep.cases.size() - 1;
  sweep.name = sweep.cases.front().system + (others > 0 ? fmt::format("-and-{}-others", others) : "") + "-" +
               std::filesystem::path(sweep.cases.front().workload).filename().string();
  return sweep;
}

Sweep sweep_of(const RunArguments& a) {
  if (a.sweep.empty()) return sweep_of_flags(a.flags);
  const std::map<std::string, std::string>& given = a.flags.values;
  for (const auto& [key, value] : given)
    if (key != "seed")
      throw InputError(place_of_flag("/" + key), "goes with a single case, not with a sweep",
                       "write it into the sweep file");
  if (!a.flags.set.empty())
    throw InputError("--set", "goes with a single case, not with a sweep", "write it into the sweep file");
  std::string file = a.sweep;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored) && !file.ends_with(".json")) {
    file = source_folder() + "/harness/sweeps/" + file + ".json";
    if (!std::filesystem::exists(file, ignored)) {
      const std::string near = nearest(a.sweep, sweep_names());
      throw InputError(a.sweep, "no such sweep",
                       near.empty() ? "give a file, or a name of sluice list sweeps" : "did you mean '" + near + "'?");
    }
  }
  Sweep sweep = load_sweep(file);
  if (const auto seed = given.find("seed"); seed != given.end()) set_seed(sweep, seed->second);
  return sweep;
}

void inject_failure(Sweep& sweep, const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const int rank = number_as<int>(text.substr(0, colon)).value_or(-1);
  const std::int64_t update = colon == text.size() ? -1 : whole_number_in(text.substr(colon + 1)).value_or(-1);
  if (rank < 0 || update < 0) throw InputError("--inject-failure", "'" + text + "' is not RANK:UPDATE", "write 1:5");
  if (std::ranges::none_of(sweep.cases, [&](const RunCase& c) { return rank < c.ranks; }))
    throw InputError("--inject-failure", "no case has a rank " + std::to_string(rank), "ranks count from 0");
  if (std::ranges::none_of(sweep.cases, &RunCase::train))
    throw InputError("--inject-failure", "no case trains, so that no rank can fail", "leave --no-train out");
  if (std::ranges::all_of(sweep.cases, [&](const RunCase& c) { return c.steps > 0 && update >= c.steps; }))
    throw InputError("--inject-failure", "no case has an update " + std::to_string(update), "updates count from 0");
  for (RunCase& c : sweep.cases) {
    Json entry = to_json(c);
    entry["inject_failure"] = {{"rank", rank}, {"update", update}};
    c = resolve({entry, place_of_flag});
  }
}

// As run_sweep; however it ends, the other processes are told that no case follows.
SweepResult run_over_mpi(Job& job, const std::vector<RunCase>& cases, const SweepOptions& options,
                         ProfileStore& profiles) {
  try {
    SweepResult result =
        run_sweep(cases, options, [&](const RunCase& c, const RunHooks& hooks) { return job.run(c, profiles, hooks); });
    job.dismiss();
    return result;
  } catch (const AgreedError&) {  // the other processes threw it, too
    throw;
  } catch (...) {
    job.dismiss();
    throw;
  }
}

std::optional<KeptTimelines> kept_timelines(const RunArguments& a) {
  if (a.timelines.empty()) return std::nullopt;
  const auto kept = choice_named<KeptTimelines>(a.timelines);
  if (!kept)
    throw InputError("--timelines", "unknown choice '" + a.timelines + "'",
                     suggestion(a.timelines, choice_names<KeptTimelines>()));
  return kept;
}

Sweep chosen_sweep(const RunArguments& a) {
  kept_timelines(a);  // a mistake is found before anything runs
  Sweep sweep = sweep_of(a);
  if (!a.shard.empty()) sweep.cases = shard(std::move(sweep.cases), a.shard);
  if (!a.inject_failure.empty()) inject_failure(sweep, a.inject_failure);
  reject_same_output({a.out, a.trace, a.html});
  for (const auto& [flag, file] : {std::pair("--trace", a.trace), std::pair("--html", a.html)}) {
    if (file.empty()) continue;
    if (kept_timelines(a).value_or(KeptTimelines::all) != KeptTimelines::all)
      throw InputError("--timelines", std::string(flag) + " is made from the timeline", "leave --timelines out");
    if (sweep.cases.size() != 1 || sweep.cases.front().tune)
      throw InputError(flag, "is of one case", "give --system and --workload, with one system and one rate");
  }
  // Rejects another's file before the work begins.
  if (!a.trace.empty()) chrome_trace_file(a.trace);
  if (!a.html.empty()) timeline_page_file(a.html);
  return sweep;
}

// The MPI job that this process was started in, if a case of the sweep runs over MPI; then all of the job's processes
// read the same sweep, or agree on one error.
std::unique_ptr<Job> job_for(const RunArguments& a, Sweep& sweep) {
  const Launch launch = launch_from_environment();
  std::optional<InputError> error;
  try {
    sweep = chosen_sweep(a);
  } catch (const InputError& e) {
    error = e;
  }
  // Before the job begins: sluice-cuda may take this process over.
  if (!error && !a.dry_run && std::ranges::count(sweep.cases, DeviceKind::cuda, &RunCase::device) > 0)
    need_device(DeviceKind::cuda);
  const bool over_mpi = std::ranges::any_of(sweep.cases, runs_as_processes);
  const bool all_are_wrong = (error || !over_mpi) && launch.size > 1 && mpi_built() && a.shard.empty();
  std::unique_ptr<Job> job;
  if ((over_mpi || all_are_wrong) && !a.dry_run) job = std::make_unique<Job>();
  try {
    agree_on_error(job ? &job->processes() : nullptr, [&] {
      if (error) throw *error;
      if (!over_mpi && launch.size > 1 && a.shard.empty() && !a.dry_run)
        throw AgreedError("run",
                          std::to_string(launch.size) + " processes were started together, but no case runs over MPI",
                          "use --transport mpi (for GPUs: nccl), or start one process");
    });
    if (!job) return job;
    compare_inputs(job->processes(), sweep.cases);
    agree_on_error(&job->processes(), [&] {
      const int ranks = sweep.cases.front().ranks, size = job->processes().size();
      if (!a.sweep.empty() || ranks == size) return;
      throw InputError(
          "--ranks",
          fmt::format("{} rank{} as {} process{}", ranks, ranks == 1 ? "" : "s", size, size == 1 ? "" : "es"),
          fmt::format("start one process per rank: mpirun -n {} sluice run ...", ranks));
    });
    return job;
  } catch (AgreedError& e) {
    if (!job) throw;
    print_while_joined(e, job->processes());
    throw;
  }
}

// Which part of the sweep "i/n" is, once shard() has found it sound.
std::optional<SweepPart> part_of(const std::string& shard) {
  if (shard.empty()) return std::nullopt;
  return SweepPart{std::stoll(shard), std::stoll(shard.substr(shard.find('/') + 1))};
}

}  // namespace

static int jobs_of(const RunArguments& a) {
  return a.jobs > 0 ? a.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// The records of the default folder and of `out`: what they show of this machine's speed, and what is done.
static std::vector<Record> earlier_records(const std::string& out) {
  std::set<std::string> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(runs_folder(), none))
    if (entry.path().extension() == ".jsonl") files.insert(std::filesystem::absolute(entry.path()).string());
  if (std::filesystem::is_regular_file(out)) files.insert(std::filesystem::absolute(out).string());
  std::vector<Record> records;
  for (const std::string& file : files) {
    try {
      for (Record& record : read_records(file).records) records.push_back(std::move(record));
    } catch (const InputError&) {
      // A file of another version: it helps no estimate.
    }
  }
  return records;
}

// Lists the cases, and on stderr the time that they will take.
static int dry_run(const RunArguments& a, const Sweep& sweep, const std::string& out) {
  if (launch_from_environment().rank > 0) return 0;
  std::vector<RunCase> cases = expected_with_tuning(sweep.cases);
  Json list = Json::array();
  const std::vector<std::string> differences_of = differences(cases);
  for (std::size_t k = 0; k < cases.size(); ++k) {
    list.push_back(to_json(cases[k]));
    if (!a.json) fmt::print("{}\n", visible(describe(cases[k]) + differences_of[k]));
  }
  if (a.json) fmt::print("{}\n", list.dump(2));
  if (a.resume && std::filesystem::is_regular_file(out)) {
    std::set<std::string> done;
    for (const Record& record : read_records(out).records)
      if (is_final(record)) done.insert(record.digest);
    std::erase_if(cases, [&](const RunCase& c) { return done.contains(digest_of(c)); });
  }
  std::fflush(stdout);
  for (const std::string& value : sweep.without_effect) fmt::print(stderr, "no effect: {}\n", visible(value));
  if (sweep.experiments < sweep.combinations)
    fmt::print(stderr, "{} combinations are {} experiment{}; each is run once\n", sweep.combinations, sweep.experiments,
               sweep.experiments == 1 ? "" : "s");
  if (a.jobs > 0 && std::ranges::count(sweep.cases, Clock::virtual_clock, &RunCase::clock) == 0)
    fmt::print(stderr, "no effect: --jobs: cases on the wall clock run one after another\n");
  if (!a.checkpoints.empty() && std::ranges::none_of(sweep.cases, &RunCase::train))
    fmt::print(stderr, "no effect: --checkpoints: no case trains\n");
  if (std::ranges::any_of(sweep.cases, [](const RunCase& c) { return c.tune && c.tune->rounds.size() > 1; }))
    fmt::print(stderr,
               "tuning: later rounds are listed with the lowest rates; the rounds before choose the real ones\n");
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<Record> records = earlier_records(out);
  const auto say = [](const std::string& workload) {
    fmt::print(stderr, "time: a few updates of {} show how fast this machine trains it\n", visible(workload));
  };
  ProfileStore profiles(default_profile_folder());
  std::ranges::move(measure_speeds(cases, records, profiles, say), std::back_inserter(records));
  fmt::print(stderr, "{}\n", to_text(sweep_time(cases, records, jobs_of(a), cores), jobs_of(a)));
  return 0;
}

int run_command(const RunArguments& a) {
  Sweep sweep;
  const std::unique_ptr<Job> job = job_for(a, sweep);
  const std::string out = a.out.empty() ? runs_folder() + "/" + sweep.name + ".jsonl" : a.out;
  if (a.dry_run) return dry_run(a, sweep, out);
  handle_signals();
  if (!job)  // the processes of a job end together
    end_after_signal(Seconds(0.7), "interrupted: what was finished is stored; run again with --resume");
  const SweepOptions options{out,        a.resume,         parse_progress(a.progress), a.checkpoints,
                             jobs_of(a), part_of(a.shard), kept_timelines(a),          a.again};
  ProfileStore profiles(default_profile_folder());
  if (job) {
    job->guard(out);
    if (!job->leads()) {
      job->follow(with_tuning(sweep.cases), profiles,
                  {.cancel = &interrupted(), .progress = {}, .checkpoints = a.checkpoints});
      return 0;
    }
  }
  const SweepResult result = job ? run_over_mpi(*job, sweep.cases, options, profiles)
                                 : run_sweep(sweep.cases, options, [&](const RunCase& c, const RunHooks& hooks) {
                                     return run_case(c, profiles, hooks);
                                   });
  const std::vector<Comparison> comparisons = compare(result.records);
  if (!a.trace.empty() || !a.html.empty()) {
    const auto record = std::ranges::find(result.records, digest_of(sweep.cases.front()), &Record::digest);
    if (record == result.records.end() || record->timeline.empty()) {
      fmt::print(stderr, "no {}: the case has no timeline\n", a.trace.empty() ? "page" : "trace");
    } else {
      if (!a.trace.empty()) chrome_trace_file(a.trace).write(chrome_trace(*record));
      if (!a.html.empty()) timeline_page_file(a.html).write(timeline_page(*record));
    }
  }
  if (a.json) {
    fmt::print("{}\n", to_json(comparisons).dump(2));
  } else {
    const std::vector<StableRates> boundaries = stable_rates(result.records);
    if (!comparisons.empty() || boundaries.empty()) fmt::print("{}\n", to_table(comparisons));
    if (!boundaries.empty()) fmt::print("{}\n", to_table(boundaries));
    std::error_code unknown;
    const std::filesystem::path shown = std::filesystem::relative(out, unknown);
    fmt::print("records: {}\n", visible(unknown ? out : shown.string()));
  }
  if (result.skipped > 0)
    fmt::print(stderr, "{} of {} cases were finished before and skipped (--resume)\n", result.skipped,
               with_tuning(sweep.cases).size());
  if (result.interrupted) {
    fmt::print(stderr, "interrupted: what was finished is stored; run again with --resume\n");
    return 1;
  }
  return result.failed > 0 ? 1 : 0;
}

}  // namespace sluice
