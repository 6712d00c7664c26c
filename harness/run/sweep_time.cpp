#include "harness/run/sweep_time.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/quantities.h"
#include "harness/case/feed.h"
#include "harness/case/settings.h"
#include "harness/pipeline/system.h"
#include "harness/run/environment.h"
#include "harness/run/run_case.h"
#include "harness/train/shared_training.h"
#include "results/metrics.h"
#include "workloads/models/registry.h"

namespace sluice {

namespace {

double assumed_seconds_per_sample(const RunCase& c, const Workload& workload) {
  const ModelGraph& model = workload.model;
  const std::vector<Shape> shapes = model.shapes();
  double operations = 0;
  for (const LayerSpec& layer : model.layers) {
    const LayerFlops f = flops(layer, input_shapes(model, shapes, layer));
    operations += (f.forward + f.input_gradient + f.weight_gradient).value;
  }
  const double ops = 3.0 * static_cast<double>(model.layers.size()) * c.microbatches;
  return operations / kAssumedFlops + ops * kAssumedOverhead / static_cast<double>(c.batch);
}

// Samples that go through the model forward only, in all evaluations.
double evaluated_samples(const RunCase& c, const Workload& workload, const DataSplit& data) {
  double samples = static_cast<double>(data.test.samples);
  // A translation is generated token by token, each time with all the tokens before it.
  if (data.words) samples += static_cast<double>(kDecodedSamples * workload.model.inputs[1].shape[0]) / 2;
  return samples * c.epochs * c.evaluations_per_epoch;
}

}  // namespace

std::optional<CaseWork> work_of(const RunCase& c, const std::map<std::string, double>& measured) {
  if (!c.train) return CaseWork{kAssumedSecondsWithoutTraining, false};
  const Workload& workload = find_workload(c.workload);
  const auto found = measured.find(c.workload);
  const double per_sample = found == measured.end() ? assumed_seconds_per_sample(c, workload) : found->second;
  double trained = static_cast<double>(c.steps * c.batch), evaluated = 0;
  if (c.epochs > 0) {
    try {
      const std::shared_ptr<const DataSplit> data = data_of(workload.dataset, workload.model);
      const std::int64_t updates = data->train.samples / c.batch * c.epochs;  // whole batches
      trained = static_cast<double>(updates * c.batch);
      evaluated = evaluated_samples(c, workload, *data);
    } catch (const InputError&) {
      return std::nullopt;
    }
  }
  return CaseWork{kAssumedSecondsWithoutTraining + per_sample * (trained + evaluated / 3), found != measured.end()};
}

std::map<std::string, double> seconds_per_sample(std::span<const Record> records) {
  const std::string cpu = describe_environment().machine.value().cpu;
  std::map<std::string, std::vector<double>> seconds;
  for (const Record& record : records) {
    if (record.system != "single_device" || record.clock != Clock::wall || record.device != "cpu") continue;
    if (!record.environment.machine || record.environment.machine->cpu != cpu) continue;
    if (const auto t = throughput(record)) seconds[record.workload].push_back(1 / t->samples_per_second);
  }
  std::map<std::string, double> result;
  for (auto& [workload, all] : seconds) {
    std::ranges::sort(all);
    result[workload] = all[all.size() / 2];
  }
  return result;
}

std::vector<Record> measure_speeds(std::span<const RunCase> cases, std::span<const Record> records,
                                   ProfileStore& profiles,
                                   const std::function<void(const std::string& workload)>& say) {
  constexpr int kUpdates = 6;  // half of them to warm up
  const std::map<std::string, double> known = seconds_per_sample(records);
  std::set<std::string> asked;
  std::vector<Record> measured;
  for (const RunCase& c : cases) {
    if (!c.train || c.device == DeviceKind::cuda || known.contains(c.workload)) continue;
    if (!asked.insert(c.workload).second) continue;
    try {
      const double samples = kUpdates * static_cast<double>(c.batch);
      if (samples * assumed_seconds_per_sample(c, find_workload(c.workload)) > kLongestMeasurement) continue;
      say(c.workload);
      Record record = run_case(resolve({{{"system", "single_device"},
                                         {"workload", c.workload},
                                         {"clock", "wall"},
                                         {"costs", "analytic"},
                                         {"batch", c.batch},
                                         {"microbatches", c.microbatches},
                                         {"steps", kUpdates}},
                                        in_file("the time of a sweep")}),
                               profiles, {});
      if (record.outcome == RecordOutcome::ok) measured.push_back(std::move(record));
    } catch (const InputError&) {  // the sweep will say so
    }
  }
  return measured;
}

SweepTime sweep_time(std::span<const RunCase> cases, std::span<const Record> records, int jobs, int cores) {
  const std::map<std::string, double> measured = seconds_per_sample(records);
  SweepTime time;
  std::set<std::string> by_records, by_rate, unknown, trained;
  for (const RunCase& c : cases) {
    if (c.device == DeviceKind::cuda) {
      ++time.gpu_cases;
      continue;
    }
    const bool on_wall = c.clock == Clock::wall;
    ++(on_wall ? time.wall_cases : time.virtual_cases);
    const auto work = work_of(c, measured);
    if (!work) {
      unknown.insert(c.workload);
      continue;
    }
    if (c.train) (work->measured ? by_records : by_rate).insert(c.workload);
    const System& system = find_system(c.system, "system");
    const int ranks = system.one_process ? 1 : c.ranks;
    double seconds = work->seconds;
    if (const std::string group = training_group(c); system.synchronous && !group.empty())
      if (!trained.insert(fmt::format("{} {} {}", c.microbatches, c.optimizer.learning_rate, group)).second)
        seconds = kAssumedSecondsWithoutTraining;
    if (on_wall)
      time.wall_seconds += seconds / std::min(ranks, cores);
    else
      time.virtual_seconds += seconds / std::min(jobs, cores);
  }
  time.measured.assign(by_records.begin(), by_records.end());
  time.assumed.assign(by_rate.begin(), by_rate.end());
  time.unknown.assign(unknown.begin(), unknown.end());
  return time;
}

static std::string duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

static std::string cases_text(std::size_t count) { return fmt::format("{} case{}", count, count == 1 ? "" : "s"); }

std::string to_text(const SweepTime& time, int jobs) {
  const std::string on_gpus =
      cases_text(time.gpu_cases) + " on GPUs: not estimated, only a run on a GPU tells how long that takes";
  if (time.gpu_cases > 0 && time.wall_cases + time.virtual_cases == 0) return "time: " + on_gpus;
  std::string text = fmt::format("time: about {} on this machine, if nothing else runs on it",
                                 duration(time.wall_seconds + time.virtual_seconds));
  text += fmt::format("\n  {} on the wall clock, one after another: {}", cases_text(time.wall_cases),
                      duration(time.wall_seconds));
  text += fmt::format("\n  {} on the virtual clock, {} at a time: {}; less where more of them share a training",
                      cases_text(time.virtual_cases), jobs, duration(time.virtual_seconds));
  if (time.gpu_cases > 0) text += "\n  " + on_gpus;
  if (!time.measured.empty())
    text += fmt::format("\n  by what this machine trains a second: {}", fmt::join(time.measured, ", "));
  if (!time.assumed.empty())
    text += fmt::format("\n  by {:.0f} GFLOP/s a core and {:.0f} us an op: {}", kAssumedFlops / 1e9,
                        kAssumedOverhead * 1e6, fmt::join(time.assumed, ", "));
  if (!time.unknown.empty())
    text += fmt::format("\n  not counted, their data is not here: {}", fmt::join(time.unknown, ", "));
  return text;
}

}  // namespace sluice
