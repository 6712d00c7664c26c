#include "harness/claims/mutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/base/error.h"

namespace sluice {

namespace {

constexpr double kMore = 1.3;
constexpr const char *kRanks = "one rank more", *kHalf = "half of the ranks";
// By which costs are multiplied.
constexpr std::pair<const char*, double> kCosts[] = {{"costs x 1.3", kMore}, {"costs / 1.3", 1 / kMore}};
// Systems that differ in order, activations in flight, weight versions and copies of weights.
constexpr const char* kOrders[] = {"gpipe", "one_f_one_b", "pipedream", "chimera"};

std::string text_of(const Json& object, const std::string& key) {
  const Json* found = object.find(key);
  return found && found->is_string() ? found->get<std::string>() : "";
}

// Numbers of an object, or of its lists, times a factor, where they are there.
void scale(Json& object, const std::vector<std::string>& keys, double by) {
  for (const std::string& key : keys) {
    if (!object.contains(key)) continue;
    Json& found = object[key];
    if (found.is_number()) found = by * found.get<double>();
    if (found.is_array())
      for (Json& number : found) number = by * number.get<double>();
  }
}

bool has_integer(const Json& object, const std::string& key) {
  const Json* found = object.find(key);
  return found && found->is_number_integer();
}

Json merged(Json into, const Json& over) {
  merge_fields(into, over);
  return into;
}

// A copy with one thing changed.
template <class Change>
void add(std::vector<Mutation>& to, const std::string& what, const Json& scenario, const Change& change) {
  Json changed = scenario;
  change(changed);
  to.push_back({what, std::move(changed)});
}

// Other systems with their default options. `options`: the member that holds those of the system at hand.
template <class Place>
void add_orders(std::vector<Mutation>& to, const Json& scenario, const std::string& options, const Place& place) {
  for (const char* system : kOrders)
    add(to, std::string("the order of ") + system, scenario, [&](Json& changed) {
      Json& at = place(changed);
      at["system"] = system;
      at.erase(options);
    });
}

void add_ranks(std::vector<Mutation>& to, const Json& scenario, std::int64_t ranks, const auto& place) {
  add(to, kRanks, scenario, [&](Json& changed) { place(changed)["ranks"] = ranks + 1; });
  if (ranks > 1) add(to, kHalf, scenario, [&](Json& changed) { place(changed)["ranks"] = ranks / 2; });
}

std::vector<Mutation> of_schedule(const Json& scenario) {
  std::vector<Mutation> result;
  for (const auto& [what, by] : kCosts)
    add(result, what, scenario, [&](Json& changed) {
      for (const char* time : {"F", "I", "W"})
        if (!changed.contains(time)) changed[time] = 1;
      scale(changed, {"F", "I", "W", "stash", "weight_stash", "weights"}, by);
      if (changed.contains("transformer")) scale(changed["transformer"], {"bytes_per_parameter"}, by);
    });
  const auto here = [](Json& changed) -> Json& { return changed; };
  add_ranks(result, scenario, scenario["ranks"].get<std::int64_t>(), here);
  add(result, "one micro-batch more", scenario,
      [](Json& changed) { changed["microbatches"] = changed["microbatches"].get<std::int64_t>() + 1; });
  if (scenario.contains("transformer"))
    add(result, "one layer more", scenario, [](Json& changed) {
      Json& layers = changed["transformer"]["layers"];
      layers = layers.get<std::int64_t>() + 1;
    });
  add_orders(result, scenario, "set", here);
  return result;
}

std::vector<Mutation> of_case(const Json& scenario) {
  std::vector<Mutation> result;
  const Json& given = scenario["case"];
  const auto in_case = [](Json& changed) -> Json& { return changed["case"]; };
  if (has_integer(given, "ranks")) {
    const auto ranks = given["ranks"].get<std::int64_t>();
    const std::string cluster = text_of(given, "cluster");
    if (!cluster.empty() && cluster.find("speed=") == std::string::npos)
      for (const auto& [what, by] : kCosts)
        add(result, what, scenario, [&](Json& changed) {
          changed["case"]["cluster"] = fmt::format("{},speed=0-{}:{:.3f}", cluster, ranks - 1, 1 / by);
        });
    add_ranks(result, scenario, ranks, in_case);
  }
  add_orders(result, scenario, "options", in_case);
  return result;
}

std::vector<Mutation> of_model(const Json& scenario) {
  std::vector<Mutation> result;
  if (scenario.contains("device"))
    for (const auto& [what, by] : kCosts)
      add(result, what, scenario, [&](Json& changed) {
        scale(changed["device"], {"flops", "flops_16", "memory_bandwidth"}, 1 / by);
      });
  const Json* balance = scenario.find("balance");
  if (balance && balance->is_number_integer())
    add(result, kRanks, scenario,
        [](Json& changed) { changed["balance"] = changed["balance"].get<std::int64_t>() + 1; });
  if (balance && balance->is_array() && !balance->empty())
    add(result, kRanks, scenario, [&](Json& changed) {  // the first stage becomes two
      const auto first = balance->front().get<std::int64_t>();
      changed["balance"] = Json::array({first / 2, first - first / 2});
      for (std::size_t s = 1; s < balance->size(); ++s) changed["balance"].push_back((*balance)[s]);
    });
  if (scenario.contains("system")) add_orders(result, scenario, "set", [](Json& changed) -> Json& { return changed; });
  for (const auto& [key, size] : scenario["model"].items())
    if (size.is_number_integer())
      add(result, "twice the model's " + key, scenario,
          [&](Json& changed) { changed["model"][key] = 2 * size.get<std::int64_t>(); });
  return result;
}

// The scenario with this field of its own for what costs are multiplied by.
std::vector<Mutation> of_costs(const Json& scenario, const std::string& field) {
  std::vector<Mutation> result;
  for (const auto& [what, by] : kCosts) add(result, what, scenario, [&](Json& changed) { changed[field] = by; });
  return result;
}

std::vector<Mutation> of_records(const Json& scenario) {
  std::vector<Mutation> result = of_costs(scenario, "costs");
  for (const char* system : {"graphpipe", "piper"})
    add(result, std::string("the records of ") + system, scenario, [&](Json& changed) {
      changed["where"] = merged(changed["where"], {{"system", system}});
    });
  return result;
}

std::vector<Mutation> of_transformer(const Json& scenario) {
  std::vector<Mutation> result = of_costs(scenario, "compute");
  const auto integer = [&](const char* key) {
    return has_integer(scenario, key) ? scenario[key].get<std::int64_t>() : 1;
  };
  add(result, kRanks, scenario, [&](Json& changed) { changed["pipeline"] = integer("pipeline") + 1; });
  add(result, "twice the tensor-parallel degree", scenario,
      [&](Json& changed) { changed["tensor"] = 2 * integer("tensor"); });
  add(result, "twice the layers", scenario, [&](Json& changed) { changed["layers"] = 2 * integer("layers"); });
  return result;
}

std::vector<Mutation> of_formula(const Json& scenario) {
  std::vector<Mutation> result;
  for (const auto& [key, value] : scenario.items())
    if (value.is_number() && key != "scale")
      add(result, key == "p" ? kRanks : key + " x 1.3", scenario,
          [&](Json& changed) { changed[key] = key == "p" ? value.get<double>() + 1 : kMore * value.get<double>(); });
  return result;
}

Json shared_fields(const Json& scenario) {
  const Json* both = scenario.find("both");
  return both ? *both : Json::object();
}

std::vector<Mutation> of_ratio(const Json& scenario) {
  const Json above = merged(shared_fields(scenario), scenario["numerator"]),
             below = merged(shared_fields(scenario), scenario["denominator"]);
  std::vector<Mutation> result;
  for (const Mutation& changed : mutations(above))
    result.push_back({changed.what, {{"kind", "ratio"}, {"numerator", changed.scenario}, {"denominator", below}}});
  result.push_back(
      {"numerator and denominator exchanged", {{"kind", "ratio"}, {"numerator", below}, {"denominator", above}}});
  return result;
}

std::vector<Mutation> of_several(const Json& scenario) {
  std::map<std::string, Json> changed;  // by what
  const Json& members = scenario["of"];
  for (const auto& [name, own] : members.items())
    for (const Mutation& one : mutations(merged(shared_fields(scenario), own))) {
      Json& whole =
          changed.try_emplace(one.what, Json{{"kind", scenario["kind"]}, {"of", Json::object()}}).first->second;
      whole["of"][name] = one.scenario;
    }
  std::vector<Mutation> result;
  for (auto& [what, whole] : changed) {
    for (const auto& [name, own] : members.items())
      if (!whole["of"].contains(name)) whole["of"][name] = merged(shared_fields(scenario), own);
    result.push_back({what, whole});
  }
  return result;
}

// The figure of a changed scenario; none where the change does not apply.
std::optional<Figure> figure_of(const Mutation& mutation, ProfileStore& profiles) {
  try {
    return read_scenario(JsonReader(mutation.scenario, "a changed scenario"))(profiles);
  } catch (const NotAvailable&) {
    return {};
  } catch (const InputError&) {
    return {};
  }
}

struct Tried {
  std::vector<std::string> changes;
  bool turned = false;
};

Tried try_figure(const Claim& claim, ProfileStore& profiles) {
  Tried tried;
  for (const Mutation& mutation : mutations(claim.scenario_json)) {
    const std::optional<Figure> figure = figure_of(mutation, profiles);
    if (!figure) continue;
    tried.changes.push_back(mutation.what);
    tried.turned = !within_tolerance(claim, *figure);
    if (tried.turned) break;
  }
  return tried;
}

Tried try_order(const Order& order, const std::map<std::string, std::pair<const Claim*, const Outcome*>>& group,
                ProfileStore& profiles) {
  std::vector<double> published, ours;
  for (const std::string& name : order.of) {
    const auto& [claim, outcome] = group.at(name);
    published.push_back(*claim->published.number);
    ours.push_back(*outcome->ours->number);
  }
  Tried tried;
  for (std::size_t i = 0; i < order.of.size() && !tried.turned; ++i)
    for (const Mutation& mutation : mutations(group.at(order.of[i]).first->scenario_json)) {
      const std::optional<Figure> figure = figure_of(mutation, profiles);
      if (!figure || !figure->number) continue;
      tried.changes.push_back(order.of[i] + ": " + mutation.what);
      std::vector<double> changed = ours;
      changed[i] = *figure->number;
      tried.turned = !inverted_pairs(order, published, changed).empty();
      if (tried.turned) break;
    }
  return tried;
}

}  // namespace

std::vector<Mutation> mutations(const Json& scenario) {
  using Of = std::vector<Mutation> (*)(const Json&);
  static const std::map<std::string, Of> kinds = {
      {"schedule", of_schedule}, {"case", of_case},       {"model", of_model}, {"transformer", of_transformer},
      {"records", of_records},   {"formula", of_formula}, {"ratio", of_ratio}, {"largest", of_several},
      {"smallest", of_several},  {"sum", of_several},     {"mean", of_several}};
  return kinds.at(text_of(scenario, "kind"))(scenario);
}

MutationReport mutate(const PaperClaims& claims, std::span<const Outcome> stored, ProfileStore& profiles) {
  std::map<std::string, std::map<std::string, std::pair<const Claim*, const Outcome*>>> groups;
  for (std::size_t i = 0; i < claims.claims.size(); ++i)
    groups[claims.claims[i].group][claims.claims[i].name] = {&claims.claims[i], &stored[i]};
  MutationReport report;
  for (std::size_t i = 0; i < claims.claims.size(); ++i) {
    const Claim& claim = claims.claims[i];
    if (stored[i].value != ClaimVerdict::reproduced || !stored[i].ours) continue;
    ++report.reproduced;
    Tried tried = claim.order ? try_order(*claim.order, groups[claim.group], profiles) : try_figure(claim, profiles);
    if (!tried.turned) report.unmoved.push_back({claim.group, claim.name, std::move(tried.changes)});
  }
  return report;
}

}  // namespace sluice
