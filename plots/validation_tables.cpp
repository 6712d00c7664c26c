#include "plots/validation_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "results/comparison_rows.h"

namespace sluice {
namespace {

using By = ValidationTable::By;

constexpr double kListed = 0.08;  // cases with larger errors are listed one by one

FilledCell count_cell(std::size_t n) { return {std::to_string(n), static_cast<double>(n)}; }

FilledCell percent_cell(double share, const char* sign = "") {
  return {fmt::format(fmt::runtime(fmt::format("{{:{}.1f}} %", sign)), 100 * share), 100 * share};
}

FilledCell milliseconds_cell(double seconds) { return {fmt::format("{:.4g} ms", 1e3 * seconds), seconds}; }

FilledCell order_cell(std::size_t kept, std::size_t pairs) {
  if (pairs == 0) return {"-", std::nullopt};
  const double share = 100 * static_cast<double>(kept) / static_cast<double>(pairs);
  return {fmt::format("{:.1f} % ({} of {})", share, kept, pairs), share};
}

void add_errors(std::vector<FilledCell>& cells, const ErrorSummary& errors) {
  cells.push_back(count_cell(errors.cases));
  for (const double value : {errors.median, errors.p90, errors.largest}) cells.push_back(percent_cell(value));
  cells.push_back(percent_cell(errors.bias, "+"));
}

void add_group(FilledTable& table, const std::string& name, const GroupErrors& errors) {
  FilledLine line{{name.substr(std::min(name.find_first_not_of(' '), name.size()))}, {}};
  add_errors(line.cells, errors.time);
  line.cells.push_back(order_cell(errors.order.kept, errors.order.pairs));
  for (const double value : {errors.memory.median, errors.memory.largest})
    line.cells.push_back(errors.memory.cases > 0 ? percent_cell(value) : FilledCell{"-", std::nullopt});
  table.lines.push_back(std::move(line));
}

// One line a comparison, then the order kept as lines of one value each.
void add_all(FilledTable& table, const Validation& v) {
  const auto add = [&](const std::string& name, const ErrorSummary& errors) {
    if (errors.cases == 0) return;
    table.lines.push_back({{name}, {}});
    add_errors(table.lines.back().cells, errors);
  };
  add("seconds of an update", v.time);
  add("the same, one round and one profile", v.rounds.cases > 0 ? v.single : ErrorSummary());
  add("peak memory of a rank", v.memory);
  add("the wall clock: a round against the others", v.rounds);
  add("the wall clock: odd rounds against even ones", v.halves);
  const auto add_order = [&](const std::string& name, std::size_t kept, std::size_t pairs) {
    if (pairs == 0) return;
    FilledLine line{{name}, {count_cell(pairs), order_cell(kept, pairs)}};
    line.cells.resize(table.description.columns.size(), FilledCell{"", std::nullopt});
    table.lines.push_back(std::move(line));
  };
  add_order("order of pairs more than 5 % apart, kept", v.order.kept, v.order.pairs);
  if (v.rounds.cases == 0) return;
  add_order("of these, pairs that every round orders alike, kept", v.order.sure_kept, v.order.sure_pairs);
  add_order("the wall clock: order of even rounds, kept by odd ones", v.order.own_kept, v.order.own_pairs);
}

void add_cases(FilledTable& table, const Validation& v) {
  std::vector<const ValidatedCase*> beyond;
  for (const ValidatedCase& c : v.cases)
    if (std::abs(c.error()) > kListed) beyond.push_back(&c);
  std::ranges::sort(beyond, [](const auto* a, const auto* b) { return std::abs(a->error()) > std::abs(b->error()); });
  for (const ValidatedCase* c : beyond) {
    const std::string rest = c->label.starts_with(c->system) ? c->label.substr(c->system.size()) : " " + c->label;
    table.lines.push_back({{title_of(c->system, "") + rest},
                           {milliseconds_cell(c->wall), milliseconds_cell(c->simulated), percent_cell(c->error(), "+"),
                            percent_cell(c->round_spread)}});
  }
}

}  // namespace

FilledTable fill(const ValidationTable& table, const Validation& v) {
  FilledTable filled{description_of(table), {}};
  if (table.by == By::all) add_all(filled, v);
  if (table.by == By::cases) add_cases(filled, v);
  for (const auto& [by, groups] :
       {std::pair(By::system, &v.by_system), std::pair(By::workload, &v.by_workload),
        std::pair(By::micro_batch, &v.by_micro_batch), std::pair(By::transport, &v.by_transport)})
    if (by == table.by)
      for (const auto& [name, errors] : *groups)
        add_group(filled, by == By::system ? title_of(name, "") : name, errors);
  return filled;
}

}  // namespace sluice
