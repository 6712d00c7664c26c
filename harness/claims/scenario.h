// A scenario: how Sluice computes a figure to compare with a published one. It is read from JSON completely before it
// runs, so a running scenario has no input errors, and it runs on the virtual clock. "kind" names one of:
//   model        a declared model, its parameters, or its training on a described cluster
//   case         the settings of a sweep's case, planned and simulated
//   transformer  a GPT on A100 with tensor, pipeline and data parallelism
//   records      a metric of the best of the reference records that match
//   ratio        numerator / denominator, two scenarios that share the fields of "both"
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

// A number, or a text for comparisons of texts (an order, a split). The range is that of the figures from which the
// number was chosen, if there are several.
struct Figure {
  std::optional<double> number;
  std::string text;
};

// Thrown by a scenario without a figure: for example, no combination fits into memory.
class NotAvailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// profiles: the source of "profile" costs of a case.
using Scenario = std::function<Figure(ProfileStore& profiles)>;

// Throws InputError with file and JSON pointer: unknown kinds, names and fields, wrong types, numbers out of range.
Scenario read_scenario(JsonReader reader);

// By kind, for read_scenario.
Scenario read_schedule_scenario(JsonReader& reader);
Scenario read_model_scenario(JsonReader& reader);
Scenario read_case_scenario(JsonReader& reader);
Scenario read_records_scenario(JsonReader& reader);
Scenario read_transformer_scenario(JsonReader& reader);

// The measures of each kind of scenario, and the closed formulas.
std::vector<std::string> formula_names();
std::vector<std::string> schedule_measures();
std::vector<std::string> model_measures();
std::vector<std::string> case_measures();
std::vector<std::string> transformer_measures();

// The figure of a closed formula, {"formula": name, arguments ...}.
Figure read_formula(JsonReader& reader);

// Merges a JSON object's fields into another one, recursively; null removes a field (RFC 7396).
void merge_fields(Json& into, const Json& over);
// The member at a JSON pointer, created if only the last key is missing; null: there is no such place.
Json* place_in(Json& document, const std::string& pointer);
// The "set" of options, as texts.
std::map<std::string, std::string> read_set(JsonReader& reader);

}  // namespace sluice
