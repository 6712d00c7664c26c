// What running a claim's scenario gives: a figure of ours, its verdicts, and what variations of the scenario show.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/claims/claim.h"

namespace sluice {

enum class ClaimVerdict {
  reproduced,
  direction_only,  // outside the tolerance, but it points the way that the published figure points
  not_reproduced,
  not_comparable,  // a field of the set-up is unknown and decides, or the scenario cannot run here
};
template <>
struct Choices<ClaimVerdict> {
  static constexpr Choice<ClaimVerdict> all[] = {{ClaimVerdict::reproduced, "reproduced"},
                                                 {ClaimVerdict::direction_only, "direction only"},
                                                 {ClaimVerdict::not_reproduced, "not reproduced"},
                                                 {ClaimVerdict::not_comparable, "not comparable"}};
};
inline std::string to_text(ClaimVerdict verdict) { return choice_name(verdict); }

struct VariedFigure {
  Json value;
  Figure ours;
};

struct VariationOutcome {
  std::string what;
  std::vector<VariedFigure> figures;
  // Between which two values, or at which one, the published figure lies; by linear interpolation where both are
  // numbers. Empty: at none of those tried.
  std::string needed;
};

struct Outcome {
  std::string name, group;
  std::string scenario;        // digest; empty where there is none
  std::optional<Figure> ours;  // none: it could not run
  ClaimVerdict value = ClaimVerdict::not_comparable;
  std::optional<ClaimVerdict> direction;  // none: the figure points no way
  std::string reason;
  std::vector<VariationOutcome> open, experiments;
};

// Runs every claim, on all cores. Of those that fail to run (NotAvailable), the outcome says why.
std::vector<Outcome> run_claims(const PaperClaims& claims, ProfileStore& profiles);

// Whether `ours` is within the claim's tolerance of the published figure.
bool within_tolerance(const Claim& claim, const Figure& ours);

// What the tolerance allows, in the unit of the figure.
double allowance(const Claim& claim);

// The pairs of the published order that ours has the other way round or cannot tell apart, in words; "": none.
// `published` and `ours` are the figures of Order::of.
std::string inverted_pairs(const Order& order, std::span<const double> published, std::span<const double> ours);

struct Counts {
  int figures = 0;      // all
  int not_counted = 0;  // of them those that never count (Evidence): in none of the following
  int not_comparable = 0, reproduced = 0, direction_only = 0, not_reproduced = 0;
  int checkable() const { return reproduced + direction_only + not_reproduced; }
};
// Of one kind, or of all.
Counts count(std::span<const Claim> claims, std::span<const Outcome> outcomes, std::optional<ClaimKind> kind = {});
Counts operator+(const Counts& a, const Counts& b);

// The stored outcomes of a paper: results/claims/PAPER.results.json. Numbers have seven digits.
Json to_json(std::span<const Outcome> outcomes);
// Throws InputError.
std::vector<Outcome> outcomes_from_json(const Json& json, const std::string& where);

// What differs between a stored outcome and one just made, in a sentence; "": nothing. Figures agree to a millionth.
std::string difference(const Outcome& stored, const Outcome& now);

// "0.2431", "1.5 to 2": a figure with four digits that count.
std::string to_text(const Figure& figure);

}  // namespace sluice
