// See comparison_rows.h.
#include "results/comparison_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "harness/base/json.h"
#include "harness/pipeline/provenance_note.h"
#include "harness/pipeline/system.h"
#include "results/fields.h"
#include "results/metrics.h"
#include "results/system_style.h"

namespace sluice {

std::string why_failed(const Record& record) {
  return (record.failed_rank ? fmt::format("rank {}: ", *record.failed_rank) : "") + record.reason;
}

namespace {

// The learning-rate search that a record comes from, without what it found.
std::string search_of(const Record& r) {
  if (!r.tuning) return "";
  Json search = to_json(*r.tuning);
  search.erase("results");
  search.erase("chosen");
  return search.dump();
}

// All but the seed: records that differ in nothing else are repetitions.
using RowKey = std::tuple<std::string, std::string, int, int, std::string, std::string, std::string, std::string>;
RowKey row_key(const Record& r) {
  return {r.system, options_json(r).dump(), r.ranks, r.microbatches, r.transport, r.device, r.cluster, search_of(r)};
}

// Everything by which two records of one system may differ, as names and texts.
std::map<std::string, std::string> traits(const Record& r) {
  // Not the optimizer, the same in the whole comparison except for a rate that was tuned.
  std::map<std::string, std::string> result = r.options;
  if (const std::string search = search_of(r); !search.empty()) result["tuning"] = search;
  result["microbatches"] = std::to_string(r.microbatches);
  result["transport"] = r.transport;
  // On the virtual clock it is the cluster's, and unknown where the system rejected.
  if (r.clock != Clock::virtual_clock) result["device"] = r.device;
  result["cluster"] = r.cluster;
  return result;
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
  row.asynchronous = is_asynchronous(first);
  row.ranks = first.ranks;
  row.microbatches = first.microbatches;
  row.samples_per_update = first.samples_per_step > 0 ? first.samples_per_step : first.batch;
  row.updates_per_epoch = first.updates_per_epoch;
  row.outcome = RecordOutcome::ok;
  std::vector<Throughput> throughputs;
  int without_drain = 0;  // seeds that have a time to accuracy without it
  row.learning_rate = learning_rate(first);
  row.tuning = first.tuning;
  for (const Record& record : records) {
    if (record.outcome == RecordOutcome::ok) {
      ++row.succeeded;
    } else if (row.outcome == RecordOutcome::ok) {
      row.outcome = record.outcome;
      row.reason = why_failed(record);
    }
    if (const auto t = throughput(record)) throughputs.push_back(*t);
    take_max(row.measured_peaks, measured_peaks(record));
    take_max(row.predicted_peaks, predicted_peaks(record));
    if (is_result(record) || record.outcome == RecordOutcome::timed_out) ++row.attempts;
    if (record.outcome == RecordOutcome::diverged) {
      ++row.diverged;
      if (record.diverged_at)
        row.first_divergence = std::min(row.first_divergence.value_or(*record.diverged_at), *record.diverged_at);
    }
    if (time_to_accuracy(record)) ++row.reached;
    if (time_to_accuracy_without_drain(record)) ++without_drain;
    if (const auto m = best_metric(record)) {
      const bool better = !row.best_metric || (lower_is_better(record) ? *m < *row.best_metric : *m > *row.best_metric);
      if (better) row.best_metric = m;
    }
  }
  if (first.clock == Clock::wall && !throughputs.empty()) row.interval = interval_over_seeds(throughputs);
  for (const Field* metric : metrics())
    if (const auto found = spread(*metric, records)) row.figures[metric] = *found;
  if (without_drain < row.reached) row.figures.erase(find_field("time_to_accuracy_without_drain"));
  row.records = std::move(records);
  const auto figure = [&row](const char* name) { return row.figure(*find_field(name)); };
  row.throughput = figure("throughput");
  row.latency = figure("latency");
  row.latency_95 = figure("latency_95");
  row.time_to_accuracy = figure("time_to_accuracy");
  row.time_without_drain = figure("time_to_accuracy_without_drain");
  row.peak_memory = figure("peak_memory");
  row.bubble = figure("bubble");
  row.sent_bytes = figure("sent_bytes");
  row.final_metric = figure("final_metric");
  return row;
}

std::vector<ComparisonRow> unlabelled_rows(std::span<const Record* const> records,
                                           const std::function<Record(const Record&)>& take) {
  std::map<RowKey, std::vector<Record>> by_row;
  for (const Record* record : records) by_row[row_key(*record)].push_back(take(*record));
  std::vector<ComparisonRow> rows;
  for (auto& [key, seeds] : by_row) rows.push_back(make_row(std::move(seeds)));
  return rows;
}

const std::string kFileDigests = "file_digests";  // harness/case/file_digests.h

// The options that differ from their defaults.
std::map<std::string, std::string> chosen_options(const Record& r) {
  // Settings of a run that records hold whatever their value (in_record_options of harness/case/settings.cpp), and
  // those that the heading of a table says already.
  static const std::map<std::string, std::string> kRunDefaults = {
      {"cuts", "messages"}, {"gradient_buckets", "25MB"}, {"layout", "groups"}, {"weight_gradient", "per_microbatch"}};
  static const std::set<std::string> kInHeading = {"attention", "precision", "task", "workload_digest"};
  const System* system = system_called(r.system);
  if (!system) return {};
  std::map<std::string, std::string> chosen = r.options;
  std::erase_if(chosen, [&](const auto& option) {
    const auto& [name, value] = option;
    const auto spec = std::ranges::find(system->options, name, &OptionSpec::name);
    if (spec != system->options.end()) return spec->default_value == value;
    const auto usual = kRunDefaults.find(name);
    return kInHeading.contains(name) || (usual != kRunDefaults.end() && usual->second == value);
  });
  return chosen;
}

std::string options_text(const std::map<std::string, std::string>& options) {
  std::string text;
  for (const auto& [name, value] : options) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

}  // namespace

std::optional<Spread> ComparisonRow::figure(const Field& field) const {
  if (field.better == Better::none) return spread(field, records);
  const auto found = figures.find(&field);
  return found == figures.end() ? std::nullopt : std::optional(found->second);
}

bool ComparisonRow::misses_target() const {
  const bool measured = final_metric || diverged > 0;
  return measured && attempts > 0 && reached == 0 && target(records.front());
}

LabelledRows comparison_rows(std::span<const Record* const> records, const std::function<Record(const Record&)>& take) {
  LabelledRows result{unlabelled_rows(records, take), ""};
  std::vector<const Record*> firsts;
  for (const ComparisonRow& row : result.rows) firsts.push_back(&row.records.front());
  TellingOptions options = telling_options(firsts);
  result.shared_options = std::move(options.shared);
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    ComparisonRow& row = result.rows[i];
    row.options = options.of_rows[i];
    row.label = row.system + (row.options.empty() ? "" : " " + row.options);
  }
  return result;
}

TellingOptions telling_options(std::span<const Record* const> records) {
  if (records.empty()) return {};
  struct Values {
    std::set<std::string> texts;
    int rows = 0;  // that have one
  };
  std::map<std::string, std::map<std::string, Values>> values;  // by system and name
  std::map<std::string, int> rows;                              // of a system
  std::map<std::string, std::string> shared = chosen_options(*records.front());
  for (const Record* record : records) {
    ++rows[record->system];
    for (const auto& [name, text] : traits(*record)) {
      Values& all = values[record->system][name];
      all.texts.insert(text);
      ++all.rows;
    }
    const auto chosen = chosen_options(*record);
    std::erase_if(shared, [&](const auto& option) {
      const auto own = chosen.find(option.first);
      return own == chosen.end() || own->second != option.second;
    });
  }
  TellingOptions result{{}, options_text(shared)};
  std::map<std::pair<std::string, std::string>, std::set<std::string>> contents;  // by system and text
  for (const Record* record : records) {
    const auto chosen = chosen_options(*record);
    std::map<std::string, std::string> shown = traits(*record);
    std::erase_if(shown, [&](const auto& trait) {
      const std::string& name = trait.first;
      // One value in some rows and none in the others tells them apart, too.
      const Values& all = values[record->system][name];
      const bool differs_in_system = all.texts.size() > 1 || all.rows < rows[record->system];
      return !differs_in_system && (!chosen.contains(name) || shared.contains(name));
    });
    const auto digests = shown.extract(kFileDigests);
    result.of_rows.push_back(options_text(shown));
    contents[{record->system, result.of_rows.back()}].insert(digests ? digests.mapped() : "");
  }
  // What files hold tells rows apart that are alike in everything else.
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::string& text = result.of_rows[i];
    const auto digests = records[i]->options.find(kFileDigests);
    if (digests != records[i]->options.end() && contents[{records[i]->system, text}].size() > 1)
      text += (text.empty() ? "" : " ") + options_text({*digests});
  }
  return result;
}

// Whether a run had the part of its system: one that names an option ("clip_s") where the option is not its default,
// one that names a value ("planner=paper") where the option has it or begins with it, and any other part.
static bool chose(const Record& record, const System& system, const std::string& part) {
  for (const OptionSpec& option : system.options) {
    const auto given = record.options.find(option.name);
    const std::string& value = given == record.options.end() ? option.default_value : given->second;
    if (part == option.name) return value != option.default_value;
    const std::size_t found = part.find(option.name + "=");
    if (found != std::string::npos) return value.starts_with(part.substr(found + option.name.size() + 1));
  }
  return true;
}

std::string provenance_of(std::span<const Record> records) {
  std::vector<const System*> systems;
  std::ranges::copy_if(all_systems(), std::back_inserter(systems), [&](const System* system) {
    return std::ranges::count(records, system->name, &Record::system) > 0;
  });
  for (const Record& record : records)  // one that is in no table
    if (const System* system = system_called(record.system); system && std::ranges::count(systems, system) == 0)
      systems.push_back(system);
  return provenance_note(systems, [&](const System& system, const std::string& part) {
    return std::ranges::any_of(records,
                               [&](const Record& r) { return r.system == system.name && chose(r, system, part); });
  });
}

std::map<const ComparisonRow*, std::string> options_across(std::span<const Comparison> comparisons) {
  std::map<const ComparisonRow*, std::set<std::string>> own;  // names of the options in the row's label
  std::map<std::string, std::set<std::string>> telling;       // the same of all rows of a system
  std::map<std::pair<std::string, std::string>, std::set<std::string>> elsewhere;  // their values in other rows
  for (const Comparison& c : comparisons)
    for (const ComparisonRow& row : c.rows) {
      std::set<std::string>& names = own[&row];
      std::istringstream words(row.options);
      for (std::string word; words >> word;) names.insert(word.substr(0, word.find('=')));
      telling[row.system].insert(names.begin(), names.end());
    }
  for (const auto& [row, names] : own)
    for (const auto& [name, value] : traits(row->records.front()))
      if (!names.contains(name) && telling[row->system].contains(name)) elsewhere[{row->system, name}].insert(value);
  std::map<const ComparisonRow*, std::string> result;
  for (const auto& [row, names] : own) {
    std::map<std::string, std::string> shown = traits(row->records.front());
    std::erase_if(shown, [&](const auto& trait) {
      const auto values = elsewhere.find({row->system, trait.first});
      return !names.contains(trait.first) && (values == elsewhere.end() || values->second.size() > 1);
    });
    result[row] = options_text(shown);
  }
  return result;
}

std::string title_of(const ComparisonRow& row) { return title_of(row.system, row.options); }

std::string title_of(const std::string& system, const std::string& options) {
  return system_style(system).title + (options.empty() ? "" : " " + options);
}

}  // namespace sluice
