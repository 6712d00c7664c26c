#include "results/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <tuple>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/numbers.h"
#include "results/metrics.h"
#include "results/step_repeats.h"

namespace sluice {
namespace {

void keep_fullest(std::vector<MemorySplit>& ranks) {
  if (ranks.size() < 2) return;
  ranks = {*std::ranges::max_element(ranks, {}, &MemorySplit::total)};
}

// An episode that begins after the run says nothing of it; presets draw them for days.
void keep_episodes_of_the_run(Record& record) {
  if (!record.observed.interference) return;
  const double end = std::accumulate(record.step_seconds.begin(), record.step_seconds.end(), 0.0);
  std::erase_if(record.observed.interference->episodes, [&](const auto& episode) { return episode.start > end; });
}

// More digits than any page shows: of what the virtual clock and the training computed nine are kept, of a wall-clock
// time, which no run repeats, seven. Half of the bytes.
double in_digits(double value, int digits) {
  return std::isfinite(value) ? number_in(fmt::format("{:.{}g}", value, digits)).value() : value;
}

void shorten_numbers(Record& record) {
  const int digits = record.clock == Clock::virtual_clock ? 9 : 7;
  for (double& seconds : record.step_seconds) seconds = in_digits(seconds, digits);
  for (CurvePoint& point : record.curve) {
    point.seconds = in_digits(point.seconds, digits);
    if (point.loss) point.loss = in_digits(*point.loss, digits);
    if (point.metric) point.metric = in_digits(*point.metric, 9);
  }
}

// The same of a part of a record's line.
void shorten_numbers(Json& value) {
  if (value.is_number() && !value.is_number_integer()) value = in_digits(value.get<double>(), 9);
  if (value.is_array())
    for (Json& element : value) shorten_numbers(element);
  if (value.is_object())
    for (const auto& [key, member] : value.items()) shorten_numbers(value[key]);
}

// Pages show evaluations; of the losses only the first and the last tenth decide anything (closing_loss, stability.h).
void keep_deciding_losses(Record& record) {
  if (record.curve.empty()) return;
  const std::int64_t first = record.curve.front().step, closing = first_closing_step(record);
  std::erase_if(record.curve, [&](const CurvePoint& p) { return p.step != first && p.step < closing && !p.metric; });
}

// What is observed as the paper promises stands in the record once.
void drop_what_theory_says(Record& record) {
  if (!record.theory) return;
  if (record.observed.in_flight == record.theory->in_flight) record.observed.in_flight.reset();
  if (record.observed.weight_versions == record.theory->weight_versions) record.observed.weight_versions.reset();
}

}  // namespace

Record reference_record(Record record) {
  record.timeline.clear();
  record.observed.latency_seconds.reset();
  keep_episodes_of_the_run(record);
  drop_what_theory_says(record);
  keep_deciding_losses(record);
  if (record.environment.validation) record.curve.clear();
  if (record.clock == Clock::virtual_clock && !record.peak_bytes.empty()) record.predicted_peak_bytes.clear();
  keep_fullest(record.peak_bytes);
  keep_fullest(record.predicted_peak_bytes);
  if (record.plan) {
    record.plan->module_names.reset();
    for (PlanDescription::Stage& stage : record.plan->stages) stage.layers.reset();
  }
  shorten_numbers(record);
  return record;
}

void write_reference(const std::filesystem::path& file, std::span<const Record> records) {
  std::vector<Record> kept = latest({records.begin(), records.end()});
  std::erase_if(kept, [](const Record& record) { return record.purpose == Purpose::tune; });
  std::ranges::stable_sort(kept, [](const Record& a, const Record& b) {
    const Json options_a = options_json(a), options_b = options_json(b);
    return std::tie(a.system, a.workload, a.cluster, a.ranks, a.batch, a.microbatches, options_a, a.seed) <
           std::tie(b.system, b.workload, b.cluster, b.ranks, b.batch, b.microbatches, options_b, b.seed);
  });
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  for (Record& record : kept) {
    const Record reference = reference_record(std::move(record));
    Json line = to_json(reference);
    for (const char* part : {"observed", "plan", "planning_seconds", "work"})
      if (line.contains(part)) shorten_numbers(line[part]);
    if (reference.clock == Clock::virtual_clock &&
        std::ranges::all_of(reference.step_seconds, [](double s) { return std::isfinite(s); }))
      line["step_seconds"] = with_repeats(reference.step_seconds);
    out << line.dump() << '\n';
  }
  out.flush();
  if (!out) throw RunError(file.string() + ": cannot be written; is the disk full?");
}

}  // namespace sluice
