// Divergence boundaries from records: see stability.h.
#include "results/stability.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "results/comparison_rows.h"
#include "results/metrics.h"
#include "results/system_style.h"

namespace sluice {

namespace {

// Everything but rate and seed of what may stand in one grid; and of one system in it.
using GridKey =
    std::tuple<std::string, std::string, std::string, std::string, std::int64_t, int, std::string, std::string>;
GridKey grid_key(const Record& r) {
  return {r.workload, r.cluster, choice_name(r.clock), r.cost_source,
          r.batch,    r.ranks,   duration_text(r),     optimizer_text(r, false)};
}

std::string grid_row_key(const Record& r) {
  return Json{r.system, r.options, r.ranks, r.microbatches, r.transport, r.device, r.cluster}.dump();
}

bool same_but_for_ranks_and_cluster(const Record& a, const Record& b) {
  return a.workload == b.workload && a.clock == b.clock && a.cost_source == b.cost_source && a.batch == b.batch &&
         duration_text(a) == duration_text(b) && optimizer_text(a, false) == optimizer_text(b, false);
}

StableRateRow make_row(const std::vector<const Record*>& records, const StableRates& grid) {
  StableRateRow row;
  row.system = records.front()->system;
  row.reference = row.system == kReferenceSystem;
  row.ranks = records.front()->ranks;
  row.runs.assign(grid.rates.size(), std::vector<Stability>(grid.seeds.size(), Stability::unknown));
  for (const Record* record : records) {
    const auto rate = std::ranges::find(grid.rates, learning_rate(*record).value()) - grid.rates.begin();
    const auto seed = std::ranges::find(grid.seeds, record->seed) - grid.seeds.begin();
    row.runs[rate][seed] = stability_of(*record);
    if (record->diverged_at)
      row.first_divergence = std::min(row.first_divergence.value_or(*record->diverged_at), *record->diverged_at);
    if (!is_result(*record) && row.reason.empty())
      row.reason = choice_name(record->outcome) + (record->reason.empty() ? "" : ": " + record->reason);
  }
  const auto stable_until = [&](const auto& is_stable) -> std::optional<double> {
    std::optional<double> largest;
    for (std::size_t k = 0; k < grid.rates.size() && is_stable(row.runs[k]); ++k) largest = grid.rates[k];
    return largest;
  };
  for (std::size_t s = 0; s < grid.seeds.size(); ++s)
    row.per_seed.push_back(stable_until([&](const auto& runs) { return runs[s] == Stability::stable; }));
  row.largest = stable_until(
      [](const auto& runs) { return std::ranges::all_of(runs, [](Stability s) { return s == Stability::stable; }); });
  row.at_edge = row.largest == grid.rates.back();
  return row;
}

std::size_t count(const std::vector<Stability>& runs, Stability what) {
  return static_cast<std::size_t>(std::ranges::count(runs, what));
}

// "5/5", and what the others did: "3/5, 2 diverged".
std::string runs_text(const std::vector<Stability>& runs) {
  std::string text = fmt::format("{}/{}", count(runs, Stability::stable), runs.size());
  for (const Stability other : {Stability::diverged, Stability::no_progress, Stability::unknown})
    if (const std::size_t n = count(runs, other); n == runs.size()) {
      return to_text(other);
    } else if (n > 0) {
      text += fmt::format(", {} {}", n, to_text(other));
    }
  return text;
}

}  // namespace

const char* to_text(Stability stability) {
  static constexpr const char* kTexts[] = {"stable", "no progress", "diverged", "not run"};
  return kTexts[static_cast<std::size_t>(stability)];
}

Stability stability_of(const Record& record) {
  if (record.outcome == RecordOutcome::diverged) return Stability::diverged;
  if (record.outcome != RecordOutcome::ok) return Stability::unknown;
  const auto last = closing_loss(record);
  if (record.curve.size() < 2 || !record.curve.front().loss || !last) return Stability::unknown;
  if (!std::ranges::all_of(record.curve, [](const CurvePoint& p) { return !p.loss || std::isfinite(*p.loss); }))
    return Stability::diverged;
  return *last <= 0.9 * *record.curve.front().loss ? Stability::stable : Stability::no_progress;
}

std::vector<StableRates> stable_rates(std::span<const Record> records) {
  std::vector<const Record*> kept = latest_of(records);
  std::erase_if(kept, [](const Record* r) { return r->purpose != Purpose::boundary || !learning_rate(*r); });
  std::map<GridKey, std::vector<const Record*>> groups;
  for (const Record* record : kept) groups[grid_key(*record)].push_back(record);
  const auto is_reference = [](const Record* r) { return r->system == kReferenceSystem; };
  const bool others = !std::ranges::all_of(kept, is_reference);

  std::vector<StableRates> result;
  for (const auto& [key, own] : groups) {
    std::vector<const Record*> members = own;
    // The single device stands in every group, whatever its rank count; on its own only alone.
    if (others && std::ranges::all_of(own, is_reference)) continue;
    std::erase_if(members, is_reference);
    for (const Record* record : kept)
      if (is_reference(record) && same_but_for_ranks_and_cluster(*record, *own.front())) members.push_back(record);
    const Record& first = *own.front();
    StableRates grid;
    std::tie(grid.workload, grid.cluster, grid.clock, grid.cost_source, grid.batch, grid.ranks, grid.duration,
             grid.optimizer) = key;
    grid.title = workload_title(first);
    std::set<double> rates;
    std::set<std::uint64_t> seeds;
    std::map<std::string, std::vector<const Record*>> by_row;
    for (const Record* record : members) {
      rates.insert(learning_rate(*record).value());
      seeds.insert(record->seed);
      by_row[grid_row_key(*record)].push_back(record);
    }
    grid.rates.assign(rates.begin(), rates.end());
    grid.seeds.assign(seeds.begin(), seeds.end());
    std::vector<const Record*> firsts;
    for (const auto& [name, runs] : by_row) firsts.push_back(runs.front());
    const TellingOptions options = telling_options(firsts);
    grid.options = options.shared;
    std::size_t i = 0;
    for (const auto& [name, runs] : by_row) {
      grid.rows.push_back(make_row(runs, grid));
      StableRateRow& row = grid.rows.back();
      const std::string& chosen = options.of_rows[i++];
      row.label = row.system + (chosen.empty() ? "" : " " + chosen);
    }
    std::ranges::stable_sort(grid.rows, [](const StableRateRow& a, const StableRateRow& b) {
      if (a.reference != b.reference) return a.reference;
      const double x = a.largest.value_or(0), y = b.largest.value_or(0);
      return x != y ? x > y : a.label < b.label;
    });
    result.push_back(std::move(grid));
  }
  return result;
}

std::string rate_text(const StableRateRow& row, const StableRates& of) {
  if (row.largest) return fmt::format("{}{:g}", row.at_edge ? ">= " : "", *row.largest);
  // Below the grid only where the smallest rate really failed.
  const auto& smallest = row.runs.front();
  if (count(smallest, Stability::unknown) > 0) return "unknown";
  return fmt::format("< {:g}", of.rates.front());
}

std::string title_of(const StableRateRow& row) {
  return system_style(row.system).title + row.label.substr(row.system.size());
}

std::string title_of(const StableRates& of) {
  std::string text = fmt::format("{} on {}, {} clock, {} rank{}, global batch {}", of.title, of.cluster, of.clock,
                                 of.ranks, of.ranks == 1 ? "" : "s", of.batch);
  for (const std::string& more : {of.duration, of.optimizer, of.options})
    if (!more.empty()) text += ", " + more;
  return text + fmt::format(", {} seed{}", of.seeds.size(), of.seeds.size() == 1 ? "" : "s");
}

std::vector<std::vector<std::string>> cells_of(const StableRates& of) {
  std::vector<std::vector<std::string>> lines = {{"system", "largest stable"}};
  for (const double rate : of.rates) lines[0].push_back(fmt::format("{:g}", rate));
  lines[0].emplace_back("first divergence");
  for (const StableRateRow& row : of.rows) {
    lines.push_back({title_of(row), rate_text(row, of)});
    for (const auto& runs : row.runs) lines.back().push_back(runs_text(runs));
    lines.back().push_back(row.first_divergence ? fmt::format("update {}", row.first_divergence.value())
                                                : row.reason.substr(0, 60));
  }
  return lines;
}

const std::array<const char*, 3> kStabilityNote = {
    "n/m: stable runs of all seeds. Largest stable: it and every smaller rate of the grid is",
    "stable for all seeds: no divergence, and a final training loss (mean of the last tenth of",
    "the updates) of at most 0.9 of the first update's."};

std::string to_table(std::span<const StableRates> boundaries) {
  std::string text;
  for (const StableRates& b : boundaries) {
    if (!text.empty()) text += "\n";
    text += "Largest stable learning rate: " + visible(title_of(b)) + "\n\n";
    std::vector<std::vector<std::string>> lines = cells_of(b);
    for (auto& line : lines)
      for (std::string& cell : line) cell = visible(cell);
    for (std::size_t column = 0; column < lines[0].size(); ++column) {
      std::size_t wide = 0;
      for (const auto& line : lines) wide = std::max(wide, line[column].size());
      for (auto& line : lines) line[column].resize(wide, ' ');
    }
    for (const auto& line : lines) {
      std::string row;
      for (const std::string& cell : line) row += "  " + cell;
      row.erase(row.find_last_not_of(' ') + 1);
      text += row + "\n";
    }
    text += fmt::format("\n  {}\n", fmt::join(kStabilityNote, "\n  "));
  }
  return text.empty() ? "no records with purpose \"boundary\"\n" : text;
}

Json to_json(std::span<const StableRates> boundaries) {
  Json result = Json::array();
  for (const StableRates& b : boundaries) {
    Json rows = Json::array();
    for (const StableRateRow& row : b.rows) {
      Json runs = Json::array();
      for (const auto& of_rate : row.runs) {
        Json texts = Json::array();
        for (const Stability s : of_rate) texts.push_back(to_text(s));
        runs.push_back(std::move(texts));
      }
      rows.push_back({{"system", row.system},
                      {"label", row.label},
                      {"reference", row.reference},
                      {"ranks", row.ranks},
                      {"largest_stable_rate", row.largest},
                      {"at_edge_of_grid", row.at_edge},
                      {"per_seed", row.per_seed},
                      {"runs", runs},
                      {"first_divergence", row.first_divergence},
                      {"reason", row.reason}});
    }
    result.push_back({{"workload", b.workload},
                      {"title", b.title},
                      {"cluster", b.cluster},
                      {"clock", b.clock},
                      {"cost_source", b.cost_source},
                      {"ranks", b.ranks},
                      {"batch", b.batch},
                      {"duration", b.duration},
                      {"optimizer", b.optimizer},
                      {"shared_options", b.options},
                      {"metric", kStableRateMetric},
                      {"rates", b.rates},
                      {"seeds", b.seeds},
                      {"rows", std::move(rows)}});
  }
  return result;
}

}  // namespace sluice
