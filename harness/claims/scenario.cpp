#include "harness/claims/scenario.h"

#include <algorithm>

#include "harness/base/error.h"

namespace sluice {

namespace {

// The scenarios of an object, with the fields of `both` in each.
std::vector<Scenario> read_several(JsonReader& reader, const std::string& key) {
  const Json shared = reader.has("both") ? reader.object("both").json() : Json::object();
  const Json& all = reader.raw(key);
  if (!all.is_object() || all.empty()) reader.fail(key, "must be an object of scenarios");
  std::vector<Scenario> result;
  for (const auto& [name, own] : all.items()) {
    Json merged = shared;
    merge_fields(merged, own);
    result.push_back(read_scenario(JsonReader(merged, reader.where(key), "/" + name)));
  }
  return result;
}

double number_of(const Figure& figure) {
  if (!figure.number) throw std::logic_error("a scenario that gives a text stands where a number is needed");
  return *figure.number;
}

Scenario read_ratio(JsonReader& reader) {
  const Json shared = reader.has("both") ? reader.object("both").json() : Json::object();
  const auto part = [&](const std::string& key) {
    Json merged = shared;
    merge_fields(merged, reader.object(key).json());
    return read_scenario(JsonReader(merged, reader.where(key)));
  };
  return [above = part("numerator"), below = part("denominator")](ProfileStore& profiles) {
    return Figure{number_of(above(profiles)) / number_of(below(profiles)), {}};
  };
}

Scenario read_combined(JsonReader& reader, const std::string& kind) {
  return [all = read_several(reader, "of"), kind](ProfileStore& profiles) {
    double result = number_of(all.front()(profiles));
    for (std::size_t i = 1; i < all.size(); ++i) {
      const double next = number_of(all[i](profiles));
      result = kind == "sum" || kind == "mean" ? result + next
               : kind == "largest"             ? std::max(result, next)
                                               : std::min(result, next);
    }
    if (kind == "mean") result /= static_cast<double>(all.size());
    return Figure{result, {}};
  };
}

}  // namespace

Scenario read_scenario(JsonReader reader) {
  using Read = Scenario (*)(JsonReader&);
  static const std::vector<std::pair<std::string, Read>> kinds = {
      {"schedule", read_schedule_scenario},
      {"model", read_model_scenario},
      {"case", read_case_scenario},
      {"records", read_records_scenario},
      {"transformer", read_transformer_scenario},
      {"formula", [](JsonReader& r) -> Scenario { return [f = read_formula(r)](ProfileStore&) { return f; }; }},
      {"ratio", read_ratio},
      {"largest", [](JsonReader& r) { return read_combined(r, "largest"); }},
      {"smallest", [](JsonReader& r) { return read_combined(r, "smallest"); }},
      {"mean", [](JsonReader& r) { return read_combined(r, "mean"); }},
      {"sum", [](JsonReader& r) { return read_combined(r, "sum"); }}};
  const std::string kind = reader.text("kind");
  std::vector<std::string> names;
  for (const auto& [name, read] : kinds) {
    names.push_back(name);
    if (name != kind) continue;
    Scenario scenario = read(reader);
    reader.no_other_keys();
    return scenario;
  }
  reader.fail("kind", "unknown kind of scenario '" + kind + "'", suggestion(kind, names));
}

void merge_fields(Json& into, const Json& over) {
  if (!over.is_object()) {
    into = over;
    return;
  }
  if (!into.is_object()) into = Json::object();
  for (const auto& [key, value] : over.items()) {
    if (value.is_null())
      into.erase(key);
    else
      merge_fields(into[key], value);
  }
}

Json* place_in(Json& document, const std::string& pointer) {
  Json* place = &document;
  if (!pointer.starts_with('/')) return nullptr;
  for (std::size_t begin = 1; begin <= pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', begin), pointer.size());
    const std::string key = pointer.substr(begin, end - begin);
    const bool last = end == pointer.size();
    if (!place->is_object() || (!last && !place->contains(key))) return nullptr;
    place = &(*place)[key];
    begin = end + 1;
  }
  return place;
}

std::map<std::string, std::string> read_set(JsonReader& reader) {
  std::map<std::string, std::string> given;
  if (!reader.has("set")) return given;
  for (const auto& [key, value] : reader.object("set").json().items()) given[key] = value.text();
  return given;
}

}  // namespace sluice
