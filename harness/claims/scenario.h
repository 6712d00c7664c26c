// A scenario: what Sluice computes for a figure to compare with a published one. It is read from JSON whole, so
// that nothing of it can be wrong once it runs, and runs on the virtual clock. "kind" names one of:
//   schedule     a system's order on a chain of stages: times and bytes are given
//   model        a declared model, its parameters, or its training on a described cluster
//   case         the settings of a sweep's case, planned and simulated
//   transformer  a GPT on A100 with tensor, pipeline and data parallelism
//   records      a metric of the best of the reference records that match
//   ratio        numerator / denominator, two scenarios that share the fields of "both"
//   scaled       "by" times the figure of another scenario, "of"
//   largest, smallest, sum, mean   of several scenarios
//   formula      a closed formula of formulas.cpp
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"

namespace sluice {

class ProfileStore;

inline constexpr double kGiB = 1024.0 * 1024 * 1024;

// A number, or a text where what is compared is a text (an order, a split). The range is that of the figures from which
// the number was chosen, where there are several.
struct Figure {
  std::optional<double> number;
  std::string text;
};

// Thrown by a scenario that has no figure: no combination fits into memory, say.
class NotAvailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// profiles: where a case with "profile" costs gets them.
using Scenario = std::function<Figure(ProfileStore& profiles)>;

// Throws InputError with file and JSON pointer: unknown kinds, names and fields, wrong types, numbers out of range.
Scenario read_scenario(JsonReader reader);

// Of the kinds, for read_scenario.
Scenario read_schedule_scenario(JsonReader& reader);
Scenario read_model_scenario(JsonReader& reader);
Scenario read_case_scenario(JsonReader& reader);
Scenario read_records_scenario(JsonReader& reader);
Scenario read_transformer_scenario(JsonReader& reader);

// What scenarios of a kind can measure, and the closed formulas.
std::vector<std::string> formula_names();
std::vector<std::string> schedule_measures();
std::vector<std::string> model_measures();
std::vector<std::string> case_measures();
std::vector<std::string> transformer_measures();

// The figure of a closed formula, {"formula": name, arguments ...}.
Figure read_formula(JsonReader& reader);

// A JSON object's fields put over those of another, inside objects too; null removes a field (RFC 7396).
void merge_fields(Json& into, const Json& over);
// The member of an object that a JSON pointer names, made where only the last key is missing; null: there is no such
// place.
Json* place_in(Json& document, const std::string& pointer);
// Of a "set" of options, as texts.
std::map<std::string, std::string> read_set(JsonReader& reader);

}  // namespace sluice
