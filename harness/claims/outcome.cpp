#include "harness/claims/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <thread>

#include "results/store.h"

namespace sluice {

namespace {

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

// How many of several figures are within the tolerance.
struct Within {
  std::size_t of = 0, within = 0;
  std::vector<std::string> values;  // those that are

  void add(const std::string& value, bool is_within) {
    ++of;
    if (!is_within) return;
    ++within;
    values.push_back(value);
  }
  bool mixed() const { return within > 0 && within < of; }
};

// Over all values of the open fields and all readings of the published figure: reproduced where every combination is
// within the tolerance, not comparable where some are.
void judge_value(const Claim& claim, Outcome& outcome) {
  std::vector<std::string> undecided;
  Within all, readings;
  Claim read = claim;
  std::vector<double> others = claim.other_readings;
  if (claim.published.number) others.insert(others.begin(), *claim.published.number);
  for (std::size_t r = 0; r < std::max<std::size_t>(1, others.size()); ++r) {
    if (!others.empty()) read.published.number = others[r];
    const bool as_given = within_tolerance(read, *outcome.ours);
    all.add("", as_given);
    readings.add(to_text(read.published), as_given);
    for (const VariationOutcome& open : outcome.open) {
      Within values;
      for (const VariedFigure& one : open.figures) {
        values.add(one.value.dump(), within_tolerance(read, one.ours));
        all.add("", within_tolerance(read, one.ours));
      }
      if (values.mixed() && r == 0)
        undecided.push_back(fmt::format("{} is not published: within the tolerance at {} of {} values ({})", open.what,
                                        values.within, values.of, fmt::join(values.values, ", ")));
    }
  }
  outcome.value = all.within == all.of ? ClaimVerdict::reproduced : ClaimVerdict::not_reproduced;
  if (!all.mixed()) return;
  outcome.value = ClaimVerdict::not_comparable;
  if (readings.mixed()) undecided.push_back("within the tolerance if read as " + readings.values.front());
  if (undecided.empty()) undecided.emplace_back("the open fields decide");
  if (!claim.reason.empty()) undecided.push_back(claim.reason);
  outcome.reason = fmt::format("{}", fmt::join(undecided, "; "));
}

Outcome run_claim(const Claim& claim, ProfileStore& profiles) {
  Outcome outcome{.name = claim.name, .group = claim.group, .reason = claim.reason};
  if (!claim.scenario) return outcome;
  outcome.scenario = digest(claim.scenario_json);
  try {
    outcome.ours = claim.scenario(profiles);
    for (const Variation& variation : claim.experiments)
      outcome.experiments.push_back(run_variation(claim, variation, profiles));
    for (const Variation& variation : claim.open) outcome.open.push_back(run_variation(claim, variation, profiles));
    judge_value(claim, outcome);
  } catch (const NotAvailable& absent) {
    outcome.ours.reset();
    outcome.open.clear();
    outcome.experiments.clear();
    outcome.value = ClaimVerdict::not_comparable;
    outcome.reason = absent.what();
  }
  return outcome;
}

using GroupFigures = std::map<std::string, std::pair<Figure, Figure>>;  // by name: published, ours

// The order of the group's figures, once they are all there.
void judge_order(const Claim& claim, const GroupFigures& group, Outcome& outcome) {
  std::vector<double> published, ours;
  std::vector<std::pair<std::string, double>> named;
  for (const std::string& name : claim.order->of) {
    const auto found = group.find(name);
    if (found == group.end() || !found->second.first.number || !found->second.second.number) {
      outcome.reason = "'" + name + "' has no figure";
      return;
    }
    published.push_back(*found->second.first.number);
    ours.push_back(*found->second.second.number);
    named.emplace_back(name, ours.back());
  }
  outcome.ours = Figure{{}, order_text(named, claim.order->tie)};
  const std::string inverted = inverted_pairs(*claim.order, published, ours);
  outcome.value = inverted.empty() ? ClaimVerdict::reproduced : ClaimVerdict::not_reproduced;
  if (!inverted.empty()) outcome.reason = inverted + (claim.reason.empty() ? "" : "; " + claim.reason);
}

int sign(double value, double dead_zone) { return value > dead_zone ? 1 : value < -dead_zone ? -1 : 0; }

// The direction's verdict, once all figures of the group are there: all values of open fields must point that way.
void judge_direction(const Claim& claim, const GroupFigures& group, Outcome& outcome) {
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
  const auto same_way = [&](const Figure& ours) {
    return ours.number && sign(*ours.number - our_reference, dead_zone) == way;
  };
  bool same = same_way(*outcome.ours);
  for (const VariationOutcome& open : outcome.open)
    for (const VariedFigure& one : open.figures) same = same && same_way(one.ours);
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

double allowance(const Claim& claim) {
  const double effect = effect_of(claim, claim.published.number.value_or(0));
  return std::max(claim.tolerance.absolute, claim.tolerance.relative * std::abs(effect));
}

std::string inverted_pairs(const Order& order, std::span<const double> published, std::span<const double> ours) {
  std::string text;
  for (std::size_t a = 0; a < order.of.size(); ++a)
    for (std::size_t b = 0; b < order.of.size(); ++b) {
      const double apart = ours[a] - ours[b];
      if (published[a] - published[b] <= 1e-9 * std::abs(published[a]) || apart > 1e-9 * std::abs(ours[a])) continue;
      text += fmt::format("{}'{}' is published above '{}'", text.empty() ? "" : ", ", order.of[a], order.of[b]);
    }
  return text.empty() ? "" : text + ", ours not";
}

bool within_tolerance(const Claim& claim, const Figure& ours) {
  if (!claim.published.number || !ours.number)
    return !claim.published.number && !ours.number && ours.text == claim.published.text;
  // A rounding error does not decide at the edge of a tolerance.
  const double rounding = 1e-9 * std::max(1.0, std::abs(*claim.published.number));
  const double allowed = allowance(claim) + rounding;
  const double apart = *ours.number - *claim.published.number;
  switch (claim.compare) {
    case Compare::equal:
      return std::abs(apart) <= allowed;
    case Compare::at_most:
      return apart <= allowed;
    case Compare::at_least:
      return apart >= -allowed;
    case Compare::above:
      return apart > rounding;
  }
  return false;
}

std::vector<Outcome> run_claims(const PaperClaims& claims, ProfileStore& profiles) {
  std::vector<Outcome> outcomes(claims.claims.size());
  std::vector<std::exception_ptr> errors(outcomes.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < outcomes.size();) {
      try {
        outcomes[i] = run_claim(claims.claims[i], profiles);
      } catch (...) {
        errors[i] = std::current_exception();
        next = outcomes.size();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned k = 1; k < std::thread::hardware_concurrency(); ++k) others.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  std::map<std::string, GroupFigures> figures;
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    if (outcomes[i].ours)
      figures[claims.claims[i].group][claims.claims[i].name] = {claims.claims[i].published, *outcomes[i].ours};
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Claim& claim = claims.claims[i];
    if (claim.order)
      judge_order(claim, figures[claim.group], outcomes[i]);
    else
      judge_direction(claim, figures[claim.group], outcomes[i]);
  }
  return outcomes;
}

Counts count(std::span<const Claim> claims, std::span<const Outcome> outcomes, std::optional<ClaimKind> kind) {
  Counts counts;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (kind && claims[i].kind != *kind) continue;
    ++counts.figures;
    if (!sluice::counts(claims[i].evidence)) {
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
    for (const VariationOutcome& open : o.open) one["open"].push_back(to_json(open));
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
              .value = reader.choice<ClaimVerdict>("verdict"),
              .reason = reader.text("reason", "")};
    if (reader.has("ours")) o.ours = figure_from_json(reader.raw("ours"), reader, "ours");
    if (reader.has("direction")) o.direction = reader.choice<ClaimVerdict>("direction");
    for (JsonReader& open : reader.objects("open")) o.open.push_back(variation_from_json(std::move(open)));
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
  if (!std::ranges::equal(stored.open, now.open, same_variation) ||
      !std::ranges::equal(stored.experiments, now.experiments, same_variation))
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
