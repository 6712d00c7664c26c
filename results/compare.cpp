// Grouping, aggregation and ratios: see compare.h. The table is in compare_table.cpp.
#include "results/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "harness/base/error.h"
#include "results/metrics.h"
#include "results/tell_apart.h"

namespace sluice {
namespace {

using nlohmann::json;

// Never mixes clocks, nor costs from a formula with costs from a profile.
// Nor what was trained for longer, or at another learning rate: see optimizer_text.
using GroupKey =
    std::tuple<std::string, std::string, std::string, std::string, std::int64_t, int, std::string, std::string>;
GroupKey group_key(const Record& r) {
  return {r.workload, r.cluster, r.clock, r.cost_source, r.batch, r.ranks, duration_text(r), optimizer_text(r)};
}

// The learning-rate search that a record comes from, without what it found.
std::string search_of(const Record& r) {
  if (r.tuning.empty()) return "";
  json search = r.tuning;
  search.erase("results");
  search.erase("chosen");
  return search.dump();
}

// All but the seed: records that differ in nothing else are repetitions.
using RowKey = std::tuple<std::string, std::string, int, int, std::string, std::string, std::string, std::string>;
RowKey row_key(const Record& r) {
  return {r.system, r.options.dump(), r.ranks, r.microbatches, r.transport, r.device, r.cluster, search_of(r)};
}

// Everything by which two records of one system may differ, as names and texts.
std::map<std::string, std::string> traits(const Record& r) {
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : r.options.items())
    if (name != "optimizer")  // the same in the whole comparison, but for a rate that was tuned
      result[name] = value.is_string() ? value.get<std::string>() : value.dump();
  if (const std::string search = search_of(r); !search.empty()) result["tuning"] = search;
  result["microbatches"] = std::to_string(r.microbatches);
  result["transport"] = r.transport;
  // On the virtual clock it is the cluster's, and unknown where the system refused.
  if (r.clock != "virtual") result["device"] = r.device;
  result["cluster"] = r.cluster;
  return result;
}

std::optional<Spread> spread(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return Spread{quantile(values, 0), median(values), quantile(values, 1)};
}

void take_max(std::vector<std::int64_t>& into, const std::vector<std::int64_t>& values) {
  if (into.size() < values.size()) into.resize(values.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i) into[i] = std::max(into[i], values[i]);
}

std::optional<Interval> interval_over_seeds(const std::vector<Throughput>& seeds) {
  std::vector<double> medians;
  for (const Throughput& seed : seeds) medians.push_back(seed.samples_per_second);
  if (const auto interval = median_interval(medians)) return interval;
  std::optional<Interval> result;
  for (const Throughput& seed : seeds) {
    if (!seed.interval) return std::nullopt;
    result = result ? hull(*result, *seed.interval) : *seed.interval;
  }
  return result;
}

ComparisonRow make_row(std::vector<Record> records) {
  std::stable_sort(records.begin(), records.end(), [](const Record& a, const Record& b) { return a.seed < b.seed; });
  ComparisonRow row;
  const Record& first = records.front();
  row.system = first.system;
  row.reference = first.system == kReferenceSystem;
  row.ranks = first.ranks;
  row.microbatches = first.microbatches;
  row.samples_per_update = first.samples_per_step > 0 ? first.samples_per_step : first.batch;
  row.updates_per_epoch = first.updates_per_epoch;
  row.outcome = "ok";
  std::vector<Throughput> throughputs;
  row.learning_rate = learning_rate(first);
  row.tuning = first.tuning;
  std::vector<double> rates, times, undrained, finals, peaks;
  for (const Record& record : records) {
    if (record.outcome == "ok") {
      ++row.succeeded;
    } else if (row.outcome == "ok") {
      row.outcome = record.outcome;
      row.reason = record.reason;
      if (record.failed_rank) row.reason = "rank " + std::to_string(*record.failed_rank) + ": " + row.reason;
    }
    if (const auto t = throughput(record)) {
      throughputs.push_back(*t);
      rates.push_back(t->samples_per_second);
    }
    take_max(row.measured_peaks, measured_peaks(record));
    take_max(row.predicted_peaks, predicted_peaks(record));
    if (const auto p = peak_memory(record)) peaks.push_back(static_cast<double>(*p));
    if (is_result(record) || record.outcome == "timed_out") ++row.attempts;
    if (record.outcome == "diverged") {
      ++row.diverged;
      if (record.diverged_at)
        row.first_divergence = std::min(row.first_divergence.value_or(*record.diverged_at), *record.diverged_at);
    }
    if (const auto t = time_to_accuracy(record)) times.push_back(*t);
    if (const auto t = time_to_accuracy_without_drain(record)) undrained.push_back(*t);
    if (const auto m = final_metric(record)) finals.push_back(*m);
    if (const auto m = best_metric(record)) {
      const bool better = !row.best_metric || (lower_is_better(record) ? *m < *row.best_metric : *m > *row.best_metric);
      if (better) row.best_metric = m;
    }
  }
  row.throughput = spread(rates);
  if (first.clock == "wall" && !throughputs.empty()) row.interval = interval_over_seeds(throughputs);
  row.time_to_accuracy = spread(times);
  if (undrained.size() == times.size()) row.time_without_drain = spread(undrained);
  row.peak_memory = spread(peaks);
  row.reached = static_cast<int>(times.size());
  row.final_metric = spread(finals);
  row.records = std::move(records);
  return row;
}

std::vector<ComparisonRow> make_rows(const std::vector<const Record*>& records) {
  std::map<RowKey, std::vector<Record>> by_row;
  for (const Record* record : records) by_row[row_key(*record)].push_back(*record);
  std::vector<ComparisonRow> rows;
  for (auto& [key, seeds] : by_row) rows.push_back(make_row(std::move(seeds)));
  return rows;
}

void label_rows(std::vector<ComparisonRow>& rows) {
  std::vector<const Record*> firsts;
  for (const ComparisonRow& row : rows) firsts.push_back(&row.records.front());
  const std::vector<std::string> options = telling_options(firsts);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].options = options[i];
    rows[i].label = rows[i].system + (options[i].empty() ? "" : " " + options[i]);
  }
}

std::optional<double> largest(const ComparisonRow& row) {
  const auto& peaks = row.measured_peaks.empty() ? row.predicted_peaks : row.measured_peaks;
  if (peaks.empty()) return std::nullopt;
  return static_cast<double>(*std::max_element(peaks.begin(), peaks.end()));
}

std::optional<double> ratio(std::optional<double> ours, std::optional<double> theirs) {
  if (!ours || !theirs || *theirs == 0) return std::nullopt;
  return *ours / *theirs;
}

std::optional<double> middle(const std::optional<Spread>& s) { return s ? std::optional(s->median) : std::nullopt; }

// Smaller is better placed; rows without the value come last.
double place(const ComparisonRow& row, CompareMetric metric) {
  constexpr double kLast = std::numeric_limits<double>::infinity();
  switch (metric) {
    case CompareMetric::throughput:
      return row.throughput ? -row.throughput->median : kLast;
    case CompareMetric::memory:
      return largest(row).value_or(kLast);
    case CompareMetric::time_to_accuracy:
      return row.time_to_accuracy ? row.time_to_accuracy->median : kLast;
    case CompareMetric::final_metric:
      if (!row.final_metric) return kLast;
      return lower_is_better(row.records.front()) ? row.final_metric->median : -row.final_metric->median;
  }
  return kLast;
}

void relate_to_baseline(Comparison& comparison, const std::string& baseline) {
  // Of several variants of the baseline the fastest is taken: the harder one to beat.
  ComparisonRow* base = nullptr;
  for (ComparisonRow& row : comparison.rows) {
    if (row.system != baseline) continue;
    if (!base || place(row, CompareMetric::throughput) < place(*base, CompareMetric::throughput)) base = &row;
  }
  if (!base) return;
  comparison.baseline = base->label;
  base->baseline = true;
  for (ComparisonRow& row : comparison.rows) {
    row.throughput_ratio = ratio(middle(row.throughput), middle(base->throughput));
    row.memory_ratio = ratio(largest(row), largest(*base));
    row.time_ratio = ratio(middle(row.time_to_accuracy), middle(base->time_to_accuracy));
    if (!row.throughput_ratio || &row == base) continue;
    if (comparison.clock == "virtual") {
      row.differs = std::abs(*row.throughput_ratio - 1) > 1e-6;
    } else if (enough_seeds(row) && enough_seeds(*base)) {
      row.differs = row.throughput->max < base->throughput->min || base->throughput->max < row.throughput->min;
    } else if (row.interval && base->interval) {
      row.differs = !overlap(*row.interval, *base->interval);
    }
  }
}

json to_json(const std::optional<Spread>& s) {
  if (!s) return nullptr;
  return {{"min", s->min}, {"median", s->median}, {"max", s->max}};
}

template <class T>
json maybe(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_json(const ComparisonRow& row) {
  json seeds = json::array(), digests = json::array();
  for (const Record& record : row.records) {
    seeds.push_back(record.seed);
    digests.push_back(record.digest);
  }
  return {{"system", row.system},
          {"options", row.records.front().options},
          {"label", row.label},
          {"reference", row.reference},
          {"baseline", row.baseline},
          {"ranks", row.ranks},
          {"microbatches", row.microbatches},
          {"transport", row.records.front().transport},
          {"device", row.records.front().device},
          {"samples_per_update", row.samples_per_update},
          {"updates_per_epoch", row.updates_per_epoch},
          {"throughput", to_json(row.throughput)},
          {"interval", row.interval ? json{row.interval->low, row.interval->high} : json(nullptr)},
          {"throughput_ratio", maybe(row.throughput_ratio)},
          {"differs_from_baseline", maybe(row.differs)},
          {"measured_peak_bytes", row.measured_peaks},
          {"predicted_peak_bytes", row.predicted_peaks},
          {"memory_ratio", maybe(row.memory_ratio)},
          {"peak_memory", to_json(row.peak_memory)},
          {"time_to_accuracy", to_json(row.time_to_accuracy)},
          {"time_to_accuracy_without_drain", to_json(row.time_without_drain)},
          {"time_ratio", maybe(row.time_ratio)},
          {"reached", row.reached},
          {"attempts", row.attempts},
          {"final_metric", to_json(row.final_metric)},
          {"best_metric", maybe(row.best_metric)},
          {"learning_rate", maybe(row.learning_rate)},
          {"tuning", row.tuning.empty() ? json(nullptr) : row.tuning},
          {"diverged", row.diverged},
          {"first_divergence", maybe(row.first_divergence)},
          {"outcome", row.outcome},
          {"reason", row.reason},
          {"succeeded", row.succeeded},
          {"seeds", seeds},
          {"digests", digests}};
}

}  // namespace

std::vector<std::string> telling_options(std::span<const Record* const> records) {
  std::map<std::string, std::map<std::string, std::set<std::string>>> values;
  std::map<std::string, std::size_t> count;
  for (const Record* record : records) {
    ++count[record->system];
    for (const auto& [name, text] : traits(*record)) values[record->system][name].insert(text);
  }
  std::vector<std::string> result;
  for (const Record* record : records) {
    std::string& options = result.emplace_back();
    for (const auto& [name, text] : traits(*record)) {
      if (count[record->system] < 2 || values[record->system][name].size() < 2) continue;
      options += (options.empty() ? "" : " ") + name + "=" + text;
    }
  }
  return result;
}

CompareMetric parse_compare_metric(const std::string& text) {
  static const std::array<std::string, 5> names = {"throughput", "memory", "time_to_accuracy", "final_metric",
                                                   kStableRateMetric};
  for (std::size_t i = 0; i + 1 < names.size(); ++i)
    if (text == names[i]) return static_cast<CompareMetric>(i);
  throw InputError("--metric", "unknown metric '" + text + "'", suggestion(text, names));
}

std::vector<Comparison> compare(std::span<const Record> records, const CompareOptions& options) {
  std::vector<Record> kept = latest(records);
  std::erase_if(kept, [](const Record& record) { return record.purpose != "measure"; });
  std::set<std::string> systems;
  std::map<GroupKey, std::vector<const Record*>> groups;
  for (const Record& record : kept) {
    systems.insert(record.system);
    groups[group_key(record)].push_back(&record);
  }
  if (!options.baseline.empty() && !systems.contains(options.baseline)) {
    const std::vector<std::string> known(systems.begin(), systems.end());
    throw InputError("--baseline", "no record of system '" + options.baseline + "'",
                     suggestion(options.baseline, known));
  }

  // The single-device runs that a group may be measured against: the same workload, batch and
  // clock, on the same cluster if there are any, else on another (its name is then in the row's
  // label).
  const auto references = [&](const Record& like) {
    std::vector<const Record*> same, other;
    for (const Record& record : kept) {
      if (record.system != kReferenceSystem || record.workload != like.workload || record.clock != like.clock ||
          record.cost_source != like.cost_source || record.batch != like.batch ||
          duration_text(record) != duration_text(like) || optimizer_text(record) != optimizer_text(like))
        continue;
      (record.cluster == like.cluster ? same : other).push_back(&record);
    }
    return same.empty() ? other : same;
  };
  const auto is_reference = [](const Record* record) { return record->system == kReferenceSystem; };

  std::set<const Record*> listed;  // references that stand in a group of other systems
  std::vector<Comparison> result;
  for (const bool alone : {false, true}) {
    for (const auto& [key, own] : groups) {
      if (std::all_of(own.begin(), own.end(), is_reference) != alone) continue;
      std::vector<const Record*> members = own;
      if (alone) {
        std::erase_if(members, [&](const Record* r) { return listed.contains(r); });
        if (members.empty()) continue;
      } else {
        std::erase_if(members, is_reference);
        for (const Record* record : references(*own.front())) {
          members.push_back(record);
          listed.insert(record);
        }
      }
      const Record& first = *own.front();
      Comparison comparison;
      std::tie(comparison.workload, comparison.cluster, comparison.clock, comparison.cost_source, comparison.batch,
               comparison.ranks, comparison.duration, comparison.optimizer) = key;
      comparison.tuned = !first.tuning.empty();
      const auto title = first.workload_facts.find("title");
      comparison.title =
          title != first.workload_facts.end() && title->is_string() ? title->get<std::string>() : first.workload;
      comparison.metric = metric_name(first);
      comparison.lower_is_better = lower_is_better(first);
      comparison.target = target(first);
      comparison.rows = make_rows(members);
      label_rows(comparison.rows);
      for (ComparisonRow& row : comparison.rows) {
        if (row.records.front().cluster == comparison.cluster) continue;
        row.options += (row.options.empty() ? "on " : ", on ") + row.records.front().cluster;
        row.label = row.system + " " + row.options;
      }
      relate_to_baseline(comparison, options.baseline.empty() ? kReferenceSystem : options.baseline);
      std::stable_sort(comparison.rows.begin(), comparison.rows.end(),
                       [&](const ComparisonRow& a, const ComparisonRow& b) {
                         if (a.reference != b.reference) return a.reference;
                         const double x = place(a, options.metric), y = place(b, options.metric);
                         return x != y ? x < y : a.label < b.label;
                       });
      comparison.verdicts = verdicts(comparison);
      result.push_back(std::move(comparison));
    }
  }
  return result;
}

json to_json(std::span<const Comparison> comparisons) {
  json result = json::array();
  for (const Comparison& c : comparisons) {
    json rows = json::array();
    for (const ComparisonRow& row : c.rows) rows.push_back(to_json(row));
    json verdicts = json::array();
    for (const Verdict& v : c.verdicts)
      verdicts.push_back({{"metric", v.metric},
                          {"cannot_be_told_apart", v.alike},
                          {"apart_from_all", v.apart},
                          {"too_few_seeds", v.too_few_seeds}});
    result.push_back({{"workload", c.workload},
                      {"title", c.title},
                      {"cluster", c.cluster},
                      {"clock", c.clock},
                      {"cost_source", c.cost_source},
                      {"duration", c.duration},
                      {"optimizer", c.optimizer},
                      {"learning_rate_policy", c.tuned ? "tuned" : "equal"},
                      {"ranks", c.ranks},
                      {"batch", c.batch},
                      {"metric", c.metric},
                      {"metric_direction", c.lower_is_better ? "down" : "up"},
                      {"target", maybe(c.target)},
                      {"baseline", c.baseline.empty() ? json(nullptr) : json(c.baseline)},
                      {"rows", std::move(rows)},
                      {"verdicts", std::move(verdicts)}});
  }
  return result;
}

std::string clock_text(const Comparison& comparison) {
  if (comparison.cost_source.empty()) return comparison.clock + " clock";
  return comparison.clock + " clock, " + (comparison.cost_source == "profile" ? "profiled" : comparison.cost_source) +
         " costs";
}

}  // namespace sluice
