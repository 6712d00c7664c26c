#include "harness/claims/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/base/error.h"
#include "results/store.h"

namespace sluice {

namespace {

constexpr std::pair<ClaimVerdict, const char*> kVerdicts[] = {{ClaimVerdict::reproduced, "reproduced"},
                                                              {ClaimVerdict::direction_only, "direction only"},
                                                              {ClaimVerdict::not_reproduced, "not reproduced"},
                                                              {ClaimVerdict::not_comparable, "not comparable"}};

double allowance(const Claim& claim) {
  return std::max(claim.tolerance.absolute, claim.tolerance.relative * std::abs(claim.published.number.value_or(0)));
}

// Where the published figure lies among varied ones.
std::string needed_value(const Claim& claim, const std::vector<VariedFigure>& figures) {
  if (!claim.published.number) {
    for (const VariedFigure& one : figures)
      if (one.ours.text == claim.published.text) return one.value.dump();
    return "";
  }
  const double published = *claim.published.number;
  for (std::size_t i = 0; i + 1 < figures.size(); ++i) {
    const std::optional<double>&here = figures[i].ours.number, &next = figures[i + 1].ours.number;
    if (!here || !next) continue;
    const double a = *here - published, b = *next - published;
    if (a * b > 0) continue;
    const Json &from = figures[i].value, &to = figures[i + 1].value;
    if (a == 0) return from.dump();
    if (b == 0) return to.dump();
    if (!from.is_number() || !to.is_number()) return "between " + from.dump() + " and " + to.dump();
    return fmt::format("about {:.3g}", from.get<double>() + (to.get<double>() - from.get<double>()) * a / (a - b));
  }
  for (const VariedFigure& one : figures)
    if (within_tolerance(claim, one.ours)) return one.value.dump();
  return "";
}

VariationOutcome run_variation(const Claim& claim, const Variation& variation, ProfileStore& profiles) {
  VariationOutcome result{variation.what, {}, {}};
  for (const Variation::Point& point : variation.points)
    result.figures.push_back({point.value, point.scenario(profiles)});
  result.needed = needed_value(claim, result.figures);
  return result;
}

void judge_open_field(const Claim& claim, const VariationOutcome& open, Outcome& outcome) {
  std::vector<std::string> within;
  for (const VariedFigure& one : open.figures)
    if (within_tolerance(claim, one.ours)) within.push_back(one.value.dump());
  const std::size_t all = open.figures.size();
  if (within.size() == all) {
    outcome.value = ClaimVerdict::reproduced;
    return;
  }
  if (within.empty()) return;  // as it is
  outcome.value = ClaimVerdict::not_comparable;
  outcome.reason =
      fmt::format("{} is not published: within the tolerance at {} of {} values ({}){}", open.what, within.size(), all,
                  fmt::join(within, ", "), claim.reason.empty() ? "" : "; " + claim.reason);
}

Outcome run_claim(const Claim& claim, ProfileStore& profiles) {
  Outcome outcome{.name = claim.name, .group = claim.group, .reason = claim.reason};
  if (!claim.scenario) return outcome;
  outcome.scenario = digest(claim.scenario_json);
  try {
    const Figure& ours = outcome.ours.emplace(claim.scenario(profiles));
    outcome.value = within_tolerance(claim, ours) ? ClaimVerdict::reproduced : ClaimVerdict::not_reproduced;
    for (const Variation& variation : claim.experiments)
      outcome.experiments.push_back(run_variation(claim, variation, profiles));
    if (claim.open) {
      const VariationOutcome& open = outcome.open.emplace(run_variation(claim, *claim.open, profiles));
      judge_open_field(claim, open, outcome);
    }
  } catch (const NotAvailable& absent) {
    outcome.ours.reset();
    outcome.value = ClaimVerdict::not_comparable;
    outcome.reason = absent.what();
  }
  return outcome;
}

int sign(double value, double dead_zone) { return value > dead_zone ? 1 : value < -dead_zone ? -1 : 0; }

// The direction's verdict, once all figures of the group are there.
void judge_direction(const Claim& claim, const std::map<std::string, std::pair<Figure, Figure>>& group,
                     Outcome& outcome) {
  if (!outcome.ours || !outcome.ours->number || !claim.published.number) return;
  double published_reference = 0, our_reference = 0;
  if (const auto* number = std::get_if<double>(&claim.direction.than)) {
    published_reference = our_reference = *number;
  } else if (const auto* other = std::get_if<std::string>(&claim.direction.than)) {
    const auto found = group.find(*other);
    if (found == group.end()) return;
    const auto& [published, ours] = found->second;
    if (!published.number || !ours.number) return;
    published_reference = *published.number;
    our_reference = *ours.number;
  } else {
    return;
  }
  const double published = *claim.published.number - published_reference;
  const int way = sign(published, 1e-9 * std::abs(published_reference));
  const double dead_zone = way == 0 ? allowance(claim) : 1e-9 * std::abs(our_reference);
  const bool same = sign(*outcome.ours->number - our_reference, dead_zone) == way;
  outcome.direction = same ? ClaimVerdict::reproduced : ClaimVerdict::not_reproduced;
  if (same && outcome.value == ClaimVerdict::not_reproduced) outcome.value = ClaimVerdict::direction_only;
}

Json to_json(const Figure& figure) {
  if (!figure.number) return figure.text;
  return std::stod(fmt::format("{:.7g}", *figure.number));
}

Figure figure_from_json(const Json& value, const JsonReader& reader, const std::string& key) {
  if (value.is_number()) return {value.get<double>(), {}};
  if (value.is_string()) return {{}, value.get<std::string>()};
  reader.fail(key, "must be a number or a text");
}

Json to_json(const VariationOutcome& variation) {
  Json values = Json::array(), ours = Json::array();
  for (const VariedFigure& one : variation.figures) {
    values.push_back(one.value);
    ours.push_back(to_json(one.ours));
  }
  return {{"what", variation.what}, {"values", values}, {"ours", ours}, {"needed", variation.needed}};
}

VariationOutcome variation_from_json(JsonReader reader) {
  VariationOutcome result{reader.text("what"), {}, reader.text("needed")};
  const Json &values = reader.raw("values"), &ours = reader.raw("ours");
  if (!values.is_array() || !ours.is_array() || values.size() != ours.size())
    reader.fail("ours", "must be a list with an entry for each of the values");
  for (std::size_t i = 0; i < values.size(); ++i)
    result.figures.push_back({values[i], figure_from_json(ours[i], reader, "ours")});
  reader.no_other_keys();
  return result;
}

bool agree(const Figure& a, const Figure& b) {
  if (!a.number || !b.number) return a.number.has_value() == b.number.has_value() && a.text == b.text;
  return std::abs(*a.number - *b.number) <= 2e-6 * std::max(std::abs(*a.number), std::abs(*b.number)) + 1e-12;
}

}  // namespace

std::string to_text(ClaimVerdict verdict) {
  for (const auto& [value, text] : kVerdicts)
    if (value == verdict) return text;
  return "";
}

ClaimVerdict verdict_named(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& [value, text] : kVerdicts) {
    if (text == name) return value;
    names.emplace_back(text);
  }
  throw InputError(where, "unknown verdict '" + name + "'", suggestion(name, names));
}

bool within_tolerance(const Claim& claim, const Figure& ours) {
  if (!claim.published.number || !ours.number)
    return !claim.published.number && !ours.number && ours.text == claim.published.text;
  // A rounding error does not decide at the edge of a tolerance.
  const double allowed = allowance(claim) + 1e-9 * std::max(1.0, std::abs(*claim.published.number));
  const double apart = *ours.number - *claim.published.number;
  switch (claim.compare) {
    case Compare::equal:
      return std::abs(apart) <= allowed;
    case Compare::at_most:
      return apart <= allowed;
    case Compare::at_least:
      return apart >= -allowed;
  }
  return false;
}

std::vector<Outcome> run_claims(const PaperClaims& claims, ProfileStore& profiles) {
  std::vector<Outcome> outcomes;
  std::map<std::string, std::map<std::string, std::pair<Figure, Figure>>> figures;  // group, name: published, ours
  for (const Claim& claim : claims.claims) {
    const Outcome& outcome = outcomes.emplace_back(run_claim(claim, profiles));
    if (outcome.ours) figures[claim.group][claim.name] = {claim.published, *outcome.ours};
  }
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    judge_direction(claims.claims[i], figures[claims.claims[i].group], outcomes[i]);
  return outcomes;
}

Counts count(std::span<const Claim> claims, std::span<const Outcome> outcomes) {
  Counts counts;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    ++counts.figures;
    if (!sluice::counts(claims[i].sure)) {
      ++counts.not_counted;
      continue;
    }
    switch (outcomes[i].value) {
      case ClaimVerdict::reproduced:
        ++counts.reproduced;
        break;
      case ClaimVerdict::direction_only:
        ++counts.direction_only;
        break;
      case ClaimVerdict::not_reproduced:
        ++counts.not_reproduced;
        break;
      case ClaimVerdict::not_comparable:
        ++counts.not_comparable;
        break;
    }
  }
  return counts;
}

Counts operator+(const Counts& a, const Counts& b) {
  return {a.figures + b.figures,       a.not_counted + b.not_counted,       a.not_comparable + b.not_comparable,
          a.reproduced + b.reproduced, a.direction_only + b.direction_only, a.not_reproduced + b.not_reproduced};
}

Json to_json(std::span<const Outcome> outcomes) {
  Json list = Json::array();
  for (const Outcome& o : outcomes) {
    Json one = {{"group", o.group}, {"name", o.name}, {"verdict", to_text(o.value)}};
    if (!o.scenario.empty()) one["scenario"] = o.scenario;
    if (o.ours) one["ours"] = to_json(*o.ours);
    if (o.direction) one["direction"] = to_text(*o.direction);
    if (!o.reason.empty()) one["reason"] = o.reason;
    if (o.open) one["open"] = to_json(*o.open);
    for (const VariationOutcome& experiment : o.experiments) one["experiments"].push_back(to_json(experiment));
    list.push_back(std::move(one));
  }
  return {{"outcomes", list}};
}

std::vector<Outcome> outcomes_from_json(const Json& document, const std::string& where) {
  JsonReader top(document, where);
  std::vector<Outcome> outcomes;
  for (JsonReader& reader : top.objects("outcomes")) {
    Outcome o{.name = reader.text("name"),
              .group = reader.text("group"),
              .scenario = reader.text("scenario", ""),
              .value = verdict_named(reader.text("verdict"), reader.where("verdict")),
              .reason = reader.text("reason", "")};
    if (reader.has("ours")) o.ours = figure_from_json(reader.raw("ours"), reader, "ours");
    if (reader.has("direction")) o.direction = verdict_named(reader.text("direction"), reader.where("direction"));
    if (reader.has("open")) o.open = variation_from_json(reader.object("open"));
    for (JsonReader& experiment : reader.objects("experiments"))
      o.experiments.push_back(variation_from_json(std::move(experiment)));
    reader.no_other_keys();
    outcomes.push_back(std::move(o));
  }
  top.no_other_keys();
  return outcomes;
}

std::string difference(const Outcome& stored, const Outcome& now) {
  const std::string name = stored.group + "/" + stored.name + ": ";
  if (stored.name != now.name || stored.group != now.group) return name + "is now " + now.group + "/" + now.name;
  if (stored.scenario != now.scenario) return name + "another scenario was recorded";
  if (stored.value != now.value) return name + "was " + to_text(stored.value) + ", is " + to_text(now.value);
  if (stored.direction != now.direction) return name + "its direction's verdict has changed";
  if (stored.ours.has_value() != now.ours.has_value() || (stored.ours && !agree(*stored.ours, *now.ours)))
    return name + "was " + (stored.ours ? to_text(*stored.ours) : "nothing") + ", is " +
           (now.ours ? to_text(*now.ours) : "nothing");
  const auto same_variation = [](const VariationOutcome& a, const VariationOutcome& b) {
    return std::ranges::equal(a.figures, b.figures, [](const VariedFigure& x, const VariedFigure& y) {
      return x.value == y.value && agree(x.ours, y.ours);
    });
  };
  const bool open_same =
      stored.open.has_value() == now.open.has_value() && (!stored.open || same_variation(*stored.open, *now.open));
  if (!open_same || !std::ranges::equal(stored.experiments, now.experiments, same_variation))
    return name + "a variation gives other figures";
  return "";
}

std::string to_text(const Figure& figure) {
  if (!figure.number) return figure.text;
  const double value = *figure.number;
  if (value == std::round(value) && std::abs(value) < 1e6) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

}  // namespace sluice
