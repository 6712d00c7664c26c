// The tables of report.html, as HTML. Every text that comes from records is escaped.
#pragma once

#include <span>
#include <string>

#include "plots/charts.h"
#include "results/record.h"

namespace sluice {

std::string results_table(const Comparison& c, const Palette& palette);
std::string verdict_list(const Comparison& c);
std::string tuning_table(const Comparison& c, const Palette& palette);
std::string theory_table(const Comparison& c, const Palette& palette);
// Planners, what each minimised and what the common simulator makes of its plan; "" where nothing was searched.
std::string planner_table(const Comparison& c, const Palette& palette);
std::string machine_table(std::span<const Record> records);

}  // namespace sluice
