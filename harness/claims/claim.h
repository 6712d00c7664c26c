// Claims: figures that papers published, each with its source, how sure its reading is, the scenario that Sluice runs
// to set a figure of its own beside it, and the tolerance within which it counts as reproduced.
// results/claims/PAPER.json holds a paper's, in groups that mostly are the tables of the paper:
//
//   {"title", "citation", "set_up", "groups": [
//     {"name", "source", "sure", "what", "unit", "tolerance", "compare", "direction", "differences", "scenario",
//      "claims": [{"name", "published", ...}]}]}
//
// A claim has the fields of its group where it does not give its own; scenarios are merged field by field.
// results/README.md explains the fields.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/claims/scenario.h"

namespace sluice {

// How sure the reading of a published figure is. Two kinds never count: remembered, from memory of the paper, and
// calibration, a figure that costs are fitted on, shown for what the fit leaves.
enum class Sureness { a, b, c, remembered, calibration };
inline bool counts(Sureness sure) { return sure != Sureness::remembered && sure != Sureness::calibration; }

struct Tolerance {
  double absolute = 0, relative = 0;  // the wider of the two
};

enum class Compare {
  equal,     // ours within the tolerance of the published figure
  at_most,   // ours not above it by more than the tolerance
  at_least,  // ours not below it by more than the tolerance
};

// Which way a figure points: above, below or at a number, or another claim's figure.
struct Direction {
  std::variant<std::monostate, double, std::string> than;  // none; a number; the name of a claim of the same group
};

// Values that a field of the scenario is given in turn.
struct Variation {
  std::string field;  // a JSON pointer into the scenario
  std::string what;   // in words: "micro-batches"
  struct Point {
    Json value;
    Scenario scenario;
  };
  std::vector<Point> points;
};

struct Claim {
  std::string name, group;
  std::string source, what, unit, differences;
  Sureness sure = Sureness::a;
  Tolerance tolerance;
  Compare compare = Compare::equal;
  Direction direction;
  Figure published;
  Json scenario_json;
  Scenario scenario;   // empty: nothing can be run, and `reason` says why
  std::string reason;  // why it is not reproduced, or not comparable
  // A field that the published set-up leaves open. The claim is reproduced if it is for all of its plausible values,
  // and not comparable if only for some.
  std::optional<Variation> open;
  // A field that is known, or a simplification of ours, varied to explain a difference. It does not change the verdict.
  std::vector<Variation> experiments;
};

struct PaperClaims {
  std::string paper;  // the file's name without its ending
  std::string title, citation, set_up;
  std::vector<Claim> claims;  // names are unique within a group, groups within a paper
};

// Throws InputError with file and JSON pointer. Touches no file.
PaperClaims claims_from_json(const Json& json, const std::string& paper, const std::string& where);

PaperClaims read_claims(const std::filesystem::path& file);                   // throws InputError
std::vector<std::string> listed_papers(const std::filesystem::path& folder);  // with claims, in order of name

std::string to_text(Sureness sure);

}  // namespace sluice
