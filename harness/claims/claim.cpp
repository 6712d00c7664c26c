#include "harness/claims/claim.h"

#include <algorithm>
#include <map>
#include <set>

#include "harness/base/error.h"
#include "harness/base/visible_text.h"
#include "harness/claims/formulas.h"

namespace sluice {

namespace {

// Fields that a claim has from its group unless it gives its own.
constexpr const char* kInherited[] = {"source",    "what",        "unit",   "tolerance", "compare",     "sure",
                                      "direction", "differences", "reason", "open",      "experiments", "published"};

template <class T>
T choice(JsonReader& reader, const std::string& key, const std::vector<std::pair<std::string, T>>& choices) {
  const std::string given = reader.text(key);
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (name == given) return value;
    names.push_back(name);
  }
  reader.fail(key, "unknown value '" + given + "'", suggestion(given, names));
}

Sureness read_sureness(JsonReader& reader) {
  return choice<Sureness>(reader, "sure",
                          {{"A", Sureness::a},
                           {"B", Sureness::b},
                           {"C", Sureness::c},
                           {"remembered", Sureness::remembered},
                           {"calibration", Sureness::calibration}});
}

Compare read_compare(JsonReader& reader) {
  if (!reader.has("compare")) return Compare::equal;
  return choice<Compare>(reader, "compare",
                         {{"equal", Compare::equal}, {"at_most", Compare::at_most}, {"at_least", Compare::at_least}});
}

Tolerance read_tolerance(JsonReader& reader) {
  JsonReader fields = reader.object("tolerance");
  const Tolerance tolerance{fields.number_or("absolute", 0, 0, kMostNumber),
                            fields.number_or("relative", 0, 0, kMostNumber)};
  fields.no_other_keys();
  return tolerance;
}

Direction read_direction(JsonReader& reader) {
  if (!reader.has("direction")) return {};
  const Json& than = reader.raw("direction");
  if (than.is_number()) return {than.get<double>()};
  if (than.is_string()) return {than.get<std::string>()};
  reader.fail("direction", "must be a number or the name of a claim of the group");
}

// A number, a text, or {"formula": name, arguments ...}: what the paper's formula gives.
Figure read_published(JsonReader& reader) {
  const Json& published = reader.raw("published");
  if (published.is_number()) return {published.get<double>(), {}};
  if (published.is_string()) return {{}, published.get<std::string>()};
  if (!published.is_object()) reader.fail("published", "must be a number, a text or a formula");
  JsonReader formula = reader.object("published");
  const Figure figure = read_formula(formula);
  formula.no_other_keys();
  return figure;
}

Variation read_variation(JsonReader fields, const Json& scenario, const std::string& where) {
  Variation result{fields.text("field"), fields.text("what"), {}};
  if (!result.field.starts_with('/'))
    fields.fail("field", "'" + result.field + "' is not a JSON pointer", "write /microbatches");
  const Json& values = fields.raw("values");
  if (!values.is_array() || values.size() < 2) fields.fail("values", "must be a list of at least two values");
  fields.no_other_keys();
  for (const Json& value : values) {
    Json varied = scenario;
    Json* place = place_in(varied, result.field);
    if (!place) fields.fail("field", "'" + result.field + "' is no place in the scenario");
    *place = value;
    result.points.push_back({value, read_scenario(JsonReader(varied, where))});
  }
  return result;
}

Claim read_claim(const Json& merged, const std::string& group, const std::string& file, const std::string& pointer) {
  JsonReader reader(merged, file, pointer);
  Claim claim;
  claim.group = group;
  claim.name = reader.text("name");
  claim.source = reader.text("source");
  claim.what = reader.text("what");
  claim.unit = reader.text("unit", "");
  claim.sure = read_sureness(reader);
  claim.compare = read_compare(reader);
  claim.published = read_published(reader);
  if (reader.has("tolerance")) claim.tolerance = read_tolerance(reader);
  claim.direction = read_direction(reader);
  claim.differences = reader.text("differences", "");
  claim.reason = reader.text("reason", "");
  if (reader.has("scenario")) {
    claim.scenario_json = reader.object("scenario").json();
    const std::string where = reader.where("scenario");
    claim.scenario = read_scenario(JsonReader(claim.scenario_json, where));
    if (reader.has("open")) claim.open = read_variation(reader.object("open"), claim.scenario_json, where);
    for (JsonReader& experiment : reader.objects("experiments"))
      claim.experiments.push_back(read_variation(std::move(experiment), claim.scenario_json, where));
  } else if (claim.reason.empty()) {
    reader.fail("scenario", "is missing", "describe one, or give the reason why there is none");
  }
  reader.no_other_keys();
  return claim;
}

void read_group(JsonReader& group, const std::string& file, const std::string& pointer, PaperClaims& result) {
  const std::string name = group.text("name");
  Json inherited = Json::object();
  for (const char* key : kInherited)
    if (group.has(key)) inherited[key] = group.raw(key);
  const Json scenario = group.has("scenario") ? group.object("scenario").json() : Json();
  std::set<std::string> names;
  const std::size_t first = result.claims.size();
  const std::vector<JsonReader> claims = group.objects("claims");
  if (claims.empty()) group.fail("claims", "must hold at least one claim");
  group.no_other_keys();
  for (std::size_t i = 0; i < claims.size(); ++i) {
    Json merged = inherited;
    for (const auto& [key, value] : claims[i].json().items())
      if (key != "scenario") merged[key] = value;
    const bool own = claims[i].json().contains("scenario");
    if (!scenario.is_null() || own) {
      merged["scenario"] = scenario.is_null() ? Json::object() : scenario;
      if (own) merge_fields(merged["scenario"], claims[i].json()["scenario"]);
    }
    Claim claim = read_claim(merged, name, file, pointer + "/claims/" + std::to_string(i));
    if (!names.insert(claim.name).second) claims[i].fail("name", "'" + claim.name + "' stands here twice");
    result.claims.push_back(std::move(claim));
  }
  for (std::size_t i = first; i < result.claims.size(); ++i)
    if (const auto* other = std::get_if<std::string>(&result.claims[i].direction.than))
      if (!names.contains(*other))
        claims[i - first].fail("direction", "the group has no claim '" + *other + "'",
                               suggestion(*other, std::vector<std::string>(names.begin(), names.end())));
}

}  // namespace

PaperClaims claims_from_json(const Json& document, const std::string& paper, const std::string& where) {
  JsonReader reader(document, where);
  PaperClaims result{.paper = paper,
                     .title = reader.text("title"),
                     .citation = reader.text("citation"),
                     .set_up = reader.text("set_up", ""),
                     .claims = {}};
  std::vector<JsonReader> groups = reader.objects("groups");
  if (groups.empty()) reader.fail("groups", "must hold at least one group");
  reader.no_other_keys();
  std::set<std::string> names;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    read_group(groups[g], where, "/groups/" + std::to_string(g), result);
    if (!names.insert(result.claims.back().group).second)
      groups[g].fail("name", "'" + result.claims.back().group + "' stands here twice");
  }
  return result;
}

PaperClaims read_claims(const std::filesystem::path& file) {
  if (!is_portable_name(file.stem().string()))
    throw InputError(visible(file.string()), "its name is also its page's",
                     "use letters, digits, '_', '-' and '.' in it");
  return claims_from_json(parse_json_file(file.string()), file.stem().string(), file.string());
}

std::vector<std::string> listed_papers(const std::filesystem::path& folder) {
  std::vector<std::string> papers;
  if (std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".json") && !name.ends_with(".results.json")) papers.push_back(entry.path().stem().string());
    }
  std::ranges::sort(papers);
  return papers;
}

std::string to_text(Sureness sure) {
  switch (sure) {
    case Sureness::a:
      return "A";
    case Sureness::b:
      return "B";
    case Sureness::c:
      return "C";
    case Sureness::remembered:
      return "remembered";
    case Sureness::calibration:
      return "calibration";
  }
  return "";
}

}  // namespace sluice
