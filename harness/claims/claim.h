// Claims: figures that papers published, each with its source, how sure its reading is, the scenario that Sluice runs
// for a figure of its own to compare, and the tolerance within which it counts as reproduced.
// results/claims/PAPER.json holds a paper's, in groups that mostly are the tables of the paper:
//
//   {"title", "citation", "set_up", "groups": [
//     {"name", "kind", "source", "evidence", "what", "unit", "tolerance", "compare", "effect", "direction",
//      "differences", "scenario", "claims": [{"name", "published", ...}]}]}
//
// A claim has the fields of its group where it does not give its own; scenarios are merged field by field.
// results/README.md explains the fields.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/base/choice.h"
#include "harness/claims/scenario.h"

namespace sluice {

// How sure the reading of a published figure is. Three kinds never count: remembered, from memory of the paper;
// calibration, a figure that costs are fitted on, shown for what the fit leaves; derived, a figure that follows from
// counted ones of the paper, as a throughput from the baseline's and their ratio.
enum class Evidence { a, b, c, remembered, calibration, derived };
inline bool counts(Evidence evidence) { return evidence < Evidence::remembered; }
template <>
struct Choices<Evidence> {
  static constexpr Choice<Evidence> all[] = {{Evidence::a, "A"},
                                             {Evidence::b, "B"},
                                             {Evidence::c, "C"},
                                             {Evidence::remembered, "remembered"},
                                             {Evidence::calibration, "calibration"},
                                             {Evidence::derived, "derived"}};
};

// What a claim is evidence of. Each kind is counted by itself.
enum class ClaimKind {
  headline,         // a figure of the abstract or of the main table of results, from Sluice's own costs
  end_to_end,       // another time or memory that Sluice simulates from its own costs
  measured_times,   // simulated from operation times that the authors measured
  formula,          // a closed formula, or a schedule of unit times
  count,            // parameters, bytes, weight versions, messages: nothing is timed
  authors_program,  // what the authors' released program gives for the same input
};
inline constexpr ClaimKind kClaimKinds[] = {ClaimKind::headline, ClaimKind::end_to_end, ClaimKind::measured_times,
                                            ClaimKind::formula,  ClaimKind::count,      ClaimKind::authors_program};
template <>
struct Choices<ClaimKind> {
  static constexpr Choice<ClaimKind> all[] = {{ClaimKind::headline, "headline"},
                                              {ClaimKind::end_to_end, "end_to_end"},
                                              {ClaimKind::measured_times, "measured_times"},
                                              {ClaimKind::formula, "formula"},
                                              {ClaimKind::count, "count"},
                                              {ClaimKind::authors_program, "authors_program"}};
};

struct Tolerance {
  double absolute = 0, relative = 0;  // the wider of the two
  std::string reason;                 // why it is not the default of the claim's kind
};

// Of a claim that gives none: 10 % where a time or a memory is simulated, exact for the other kinds.
Tolerance default_tolerance(ClaimKind kind);

// What the tolerance is relative to.
enum class Effect {
  figure,  // the published figure
  gain,    // the published ratio less 1: a ratio of 1.02 shows an effect of 0.02
};
template <>
struct Choices<Effect> {
  static constexpr Choice<Effect> all[] = {{Effect::figure, "figure"}, {Effect::gain, "gain"}};
};

enum class Compare {
  equal,     // ours within the tolerance of the published figure
  at_most,   // ours not above it by more than the tolerance
  at_least,  // ours not below it by more than the tolerance
  above,     // ours above it, not equal; no tolerance
};
template <>
struct Choices<Compare> {
  static constexpr Choice<Compare> all[] = {{Compare::equal, "equal"},
                                            {Compare::at_most, "at_most"},
                                            {Compare::at_least, "at_least"},
                                            {Compare::above, "above"}};
};

// Which way a figure points: above, below or at a number, or another claim's figure.
struct Direction {
  std::variant<std::monostate, double, std::string> than;  // none; a number; the name of a claim of the same group
};

// Values that a field of the scenario is given in turn, or named changes of several fields.
struct Variation {
  std::string what;  // in words: "micro-batches"
  struct Point {
    Json value;  // of the field, or the name of the change
    Scenario scenario;
  };
  std::vector<Point> points;
};

// The order of other claims' figures, the largest first, instead of a figure of its own.
struct Order {
  std::vector<std::string> of;  // claims of the group
  double tie = 0;               // relative error of the model: our figures that are closer are shown as a tie
};

struct Claim {
  std::string name, group;
  ClaimKind kind = ClaimKind::headline;
  std::string source, what, unit, differences;
  Evidence evidence = Evidence::a;
  Tolerance tolerance;
  Compare compare = Compare::equal;
  Effect effect = Effect::figure;
  Direction direction;
  Figure published;
  std::vector<double> other_readings;  // of the published words: "157 % faster" is 2.57 or 1.57
  std::optional<Order> order;          // then `published` is the order of the published figures
  Json scenario_json;
  Scenario scenario;   // empty: an order, or nothing can be run, and `reason` says why
  std::string reason;  // why it is not reproduced, or not comparable
  // Fields that the published set-up leaves open. The claim is reproduced if it is for all of their plausible values
  // (and all readings), and not comparable if only for some.
  std::vector<Variation> open;
  // A field that is known, or a simplification of ours, varied to explain a difference. It does not change the verdict.
  std::vector<Variation> experiments;
};

struct PaperClaims {
  std::string paper;  // the file's name without its ending
  std::string title, citation, set_up;
  bool measurements = false;  // of others or of us, not figures of a system's paper
  std::vector<Claim> claims;  // names are unique within a group, groups within a paper
};

// Throws InputError with file and JSON pointer. Touches no file.
PaperClaims claims_from_json(const Json& json, const std::string& paper, const std::string& where);

PaperClaims read_claims(const std::filesystem::path& file);                   // throws InputError
std::vector<std::string> listed_papers(const std::filesystem::path& folder);  // with claims, in order of name

std::string to_text(ClaimKind kind);  // "end to end"

// The figure that the tolerance is relative to: the figure itself, or a ratio's gain.
inline double effect_of(const Claim& claim, double figure) {
  return claim.effect == Effect::gain ? figure - 1 : figure;
}

// "ZB-2p > 1F1B-I ~ ZB-1p = 1F1B": figures by their names, the largest first; = where they are equal, ~ where they are
// within the relative `tie` of one another. What all names begin with, up to a comma, is left out.
std::string order_text(std::vector<std::pair<std::string, double>> figures, double tie);

}  // namespace sluice
