// The tables of report.html, as HTML. Every text that comes from records is escaped.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plots/charts.h"
#include "results/record.h"

namespace sluice {

std::string results_table(const Comparison& c);
std::string verdict_list(const Comparison& c);
std::string tuning_table(const Comparison& c);
std::string theory_table(const Comparison& c);
// Planners, the objective of each and the common simulation of its plan; "" if there was no search.
std::string planner_table(const Comparison& c);
// One row per record, with the digest that finds its line in the file of records.
std::string record_table(const std::vector<const Record*>& records, const std::string& id);
// "8, 7, 6, 5" -> "8 to 5"; "1, 1, 1" -> "3 × 1".
std::string folded_list(const std::vector<std::string>& texts);
// Escaped, with possible line breaks between the parts of an identifier or option, and none before % and ranks.
std::string breakable_name(const std::string& name);
std::string machine_table(std::span<const Record> records);

}  // namespace sluice
