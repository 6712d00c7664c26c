// Grouping and ratios: see compare.h. The table is in compare_table.cpp, the JSON in compare_json.cpp.
#include "results/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "harness/base/error.h"
#include "results/compare_columns.h"
#include "results/comparison_rows.h"
#include "results/fields.h"
#include "results/metrics.h"
#include "results/model_error.h"
#include "results/tell_apart.h"

namespace sluice {
namespace {

// A run needs the memory of the seed that needs most.
std::optional<double> largest(const ComparisonRow& row) {
  return row.peak_memory ? std::optional(row.peak_memory->max) : std::nullopt;
}

std::optional<double> ratio(std::optional<double> ours, std::optional<double> theirs) {
  if (!ours || !theirs || *theirs == 0) return std::nullopt;
  return *ours / *theirs;
}

// Smaller is better placed.
double value_to_place(const ComparisonRow& row, const Field& metric) {
  const auto value = metric.name == "peak_memory" ? largest(row) : middle(row.figure(metric));
  if (!value) return std::numeric_limits<double>::infinity();
  return higher_is_better(metric, row.records.front()) ? -*value : *value;
}

std::optional<double> p_value_of_throughput(const ComparisonRow& row, const ComparisonRow& base) {
  const auto rates = [](const ComparisonRow& of) {
    std::vector<double> values;
    for (const Record& record : of.records)
      if (const auto rate = throughput(record)) values.push_back(rate->samples_per_second);
    return values;
  };
  const std::vector<double> ours = rates(row), theirs = rates(base);
  if (ours.size() < 2 || theirs.size() < 2) return std::nullopt;
  return mann_whitney(ours, theirs);
}

// Rows that miss their target in every seed come behind those that reach it, rows without the value last.
std::tuple<bool, bool, double> place(const ComparisonRow& row, const Field& metric) {
  const double value = value_to_place(row, metric);
  return {std::isinf(value), row.misses_target(), value};
}

void relate_to_baseline(Comparison& comparison, const std::string& baseline) {
  // Of several variants of the baseline the fastest that reaches the target is taken: the harder one to beat.
  ComparisonRow* base = nullptr;
  const Field& fastest = *find_field("throughput");
  for (ComparisonRow& row : comparison.rows) {
    if (row.system != baseline) continue;
    if (!base || place(row, fastest) < place(*base, fastest)) base = &row;
  }
  if (!base) return;
  comparison.baseline = base->label;
  base->baseline = true;
  for (ComparisonRow& row : comparison.rows) {
    row.throughput_ratio = ratio(middle(row.throughput), middle(base->throughput));
    row.memory_ratio = ratio(largest(row), largest(*base));
    row.time_ratio = ratio(middle(row.time_to_accuracy), middle(base->time_to_accuracy));
    if (!row.throughput_ratio || &row == base) continue;
    if (comparison.clock == "wall") row.p_value = p_value_of_throughput(row, *base);
    if (comparison.clock == "virtual") {
      row.differs = !within_model_error(*row.throughput_ratio, 1, model_error(comparison.cost_source));
    } else if (enough_seeds(row) && enough_seeds(*base)) {
      const Spread &own = row.throughput.value(), &other = base->throughput.value();
      row.differs = own.max < other.min || other.max < own.min;
    } else if (row.interval && base->interval) {
      row.differs = !overlap(*row.interval, *base->interval);
    }
  }
}

}  // namespace

ComparisonGroup comparison_group(const Record& r) {
  return {r.workload, r.cluster, choice_name(r.clock), r.cost_source,
          r.batch,    r.ranks,   duration_text(r),     optimizer_text(r)};
}

// take: what a row keeps of a record.
static std::vector<Comparison> compare(std::span<const Record> records, const CompareOptions& options,
                                       const std::function<Record(const Record&)>& take) {
  const Field& metric = compare_metric(options.metric);
  std::vector<const Record*> kept = latest_of(records);
  std::erase_if(kept, [](const Record* record) { return record->purpose != Purpose::measure; });
  std::set<std::string> systems;
  std::map<ComparisonGroup, std::vector<const Record*>> groups;
  for (const Record* record : kept) {
    systems.insert(record->system);
    groups[comparison_group(*record)].push_back(record);
  }
  if (!options.baseline.empty() && !systems.contains(options.baseline)) {
    const std::vector<std::string> known(systems.begin(), systems.end());
    throw InputError("--baseline", "no record of system '" + options.baseline + "'",
                     suggestion(options.baseline, known));
  }

  // The single-device runs that a group may be measured against: the same workload, batch and clock, on the same
  // cluster if there are any, else on another (its name is then in the row's label).
  const auto alike = [](const Record& r) {
    return std::tuple(r.workload, r.clock, r.cost_source, r.batch, duration_text(r), optimizer_text(r));
  };
  std::map<decltype(alike(records.front())), std::vector<const Record*>> single_device;
  for (const Record* record : kept)
    if (record->system == kReferenceSystem) single_device[alike(*record)].push_back(record);
  const auto references = [&](const Record& like) {
    std::vector<const Record*> same, other;
    if (const auto found = single_device.find(alike(like)); found != single_device.end())
      for (const Record* record : found->second) (record->cluster == like.cluster ? same : other).push_back(record);
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
      comparison.tuned = first.tuning.has_value();
      comparison.title = workload_title(first);
      comparison.metric = metric_name(first);
      comparison.lower_is_better = lower_is_better(first);
      comparison.target = target(first);
      LabelledRows labelled = comparison_rows(members, take);
      comparison.rows = std::move(labelled.rows);
      comparison.options = std::move(labelled.shared_options);
      for (ComparisonRow& row : comparison.rows) {
        if (row.records.front().cluster == comparison.cluster) continue;
        row.options += (row.options.empty() ? "on " : ", on ") + row.records.front().cluster;
        row.label = row.system + " " + row.options;
      }
      relate_to_baseline(comparison, options.baseline.empty() ? kReferenceSystem : options.baseline);
      std::stable_sort(comparison.rows.begin(), comparison.rows.end(),
                       [&](const ComparisonRow& a, const ComparisonRow& b) {
                         if (a.reference != b.reference) return a.reference;
                         if (!options.sort.empty()) return comes_first(a, b, comparison, options.sort);
                         const auto x = place(a, metric), y = place(b, metric);
                         return x != y ? x < y : a.label < b.label;
                       });
      comparison.verdicts = verdicts(comparison);
      result.push_back(std::move(comparison));
    }
  }
  return result;
}

std::vector<Comparison> compare(std::span<const Record> records, const CompareOptions& options) {
  return compare(records, options, [](const Record& record) { return record; });
}

std::vector<Comparison> compare(std::vector<Record>&& records, const CompareOptions& options) {
  std::vector<Record> own = std::move(records);
  return compare(own, options, [&own](const Record& record) -> Record {
    if (record.system == kReferenceSystem) return record;  // may stand in several comparisons
    return std::move(own[static_cast<std::size_t>(&record - own.data())]);
  });
}

std::string clock_text(const Comparison& comparison) {
  if (comparison.cost_source.empty()) return comparison.clock + " clock";
  return comparison.clock + " clock, " + (comparison.cost_source == "profile" ? "profiled" : comparison.cost_source) +
         " costs";
}

}  // namespace sluice
