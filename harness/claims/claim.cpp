#include "harness/claims/claim.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "harness/base/error.h"
#include "harness/base/visible_text.h"

namespace sluice {

namespace {

// Fields that a claim has from its group unless it gives its own.
constexpr const char* kInherited[] = {"kind",    "source",      "what",      "unit",        "tolerance",
                                      "compare", "evidence",    "direction", "differences", "reason",
                                      "open",    "experiments", "published", "effect"};
// Of these, what an order has.
constexpr const char* kInheritedByOrder[] = {"kind", "source", "what", "unit", "evidence", "differences"};

Tolerance read_tolerance(JsonReader& reader, ClaimKind kind) {
  if (!reader.has("tolerance")) return default_tolerance(kind);
  JsonReader fields = reader.object("tolerance");
  const Tolerance tolerance{fields.number_or("absolute", 0, 0, kMaxNumber),
                            fields.number_or("relative", 0, 0, kMaxNumber), fields.text("reason", "")};
  if (tolerance.reason.empty())
    fields.fail("reason", "is missing", "say why the tolerance is not the default of the kind, or leave it out");
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

// Whether a scenario gives a ratio: of two scenarios, or the largest, say, of several ratios.
bool is_ratio(const Json& scenario) {
  const auto says_ratio = [](const Json* one) {
    const Json* kind = one ? one->find("kind") : nullptr;
    return kind && kind->is_string() && kind->get<std::string>() == "ratio";
  };
  if (says_ratio(&scenario)) return true;
  const Json* several = scenario.find("of");
  if (!several || !several->is_object()) return false;
  if (says_ratio(scenario.find("both"))) return true;
  const Json::Object& items = several->items();
  return std::ranges::any_of(items, [&](const auto& item) { return says_ratio(&item.second); });
}

Variation read_variation(JsonReader fields, const Json& scenario, const std::string& where) {
  Variation result{fields.text("what"), {}};
  if (fields.has("changes")) {
    for (const auto& [name, change] : fields.object("changes").json().items()) {
      Json varied = scenario;
      merge_fields(varied, change);
      result.points.push_back({name, read_scenario(JsonReader(varied, where))});
    }
    if (result.points.size() < 2) fields.fail("changes", "must be an object of at least two changes");
    fields.no_other_keys();
    return result;
  }
  const std::string field = fields.text("field");
  if (!field.starts_with('/')) fields.fail("field", "'" + field + "' is not a JSON pointer", "write /microbatches");
  const Json& values = fields.raw("values");
  if (!values.is_array() || values.size() < 2) fields.fail("values", "must be a list of at least two values");
  fields.no_other_keys();
  for (const Json& value : values) {
    Json varied = scenario;
    Json* place = place_in(varied, field);
    if (!place) fields.fail("field", "'" + field + "' is no place in the scenario");
    *place = value;
    result.points.push_back({value, read_scenario(JsonReader(varied, where))});
  }
  return result;
}

Order read_order_of_claims(JsonReader& reader) {
  const Json& names = reader.raw("order");
  if (!names.is_array() || names.size() < 3) reader.fail("order", "must be a list of at least three claims");
  Order order{.of = {}, .tie = reader.number_or("tie", 0, 0, 1)};
  for (const Json& name : names) {
    if (!name.is_string()) reader.fail("order", "must be a list of names of claims");
    order.of.push_back(name.get<std::string>());
  }
  return order;
}

void read_scenario_of(JsonReader& reader, Claim& claim) {
  claim.scenario_json = reader.object("scenario").json();
  const std::string where = reader.where("scenario");
  claim.scenario = read_scenario(JsonReader(claim.scenario_json, where));
  if (is_ratio(claim.scenario_json) && !reader.has("effect"))
    reader.fail("effect", "is missing", "gain: the tolerance is relative to the ratio less 1; figure: to the ratio");
  for (JsonReader& open : reader.objects("open"))
    claim.open.push_back(read_variation(std::move(open), claim.scenario_json, where));
  for (JsonReader& experiment : reader.objects("experiments"))
    claim.experiments.push_back(read_variation(std::move(experiment), claim.scenario_json, where));
}

Claim read_claim(const Json& merged, const std::string& group, const std::string& file, const std::string& pointer) {
  JsonReader reader(merged, file, pointer);
  Claim claim;
  claim.group = group;
  claim.name = reader.text("name");
  claim.kind = reader.choice<ClaimKind>("kind");
  claim.source = reader.text("source");
  claim.what = reader.text("what");
  claim.unit = reader.text("unit", "");
  claim.evidence = reader.choice<Evidence>("evidence");
  claim.differences = reader.text("differences", "");
  claim.reason = reader.text("reason", "");
  if (reader.has("order")) {
    claim.order = read_order_of_claims(reader);
    reader.no_other_keys();
    return claim;
  }
  claim.compare = reader.choice_or("compare", claim.compare);
  claim.effect = reader.choice_or("effect", claim.effect);
  claim.published = read_published(reader);
  if (reader.has("other_readings")) {
    if (!claim.published.number) reader.fail("other_readings", "are numbers, and the published figure is none");
    claim.other_readings = reader.numbers("other_readings", -kMaxNumber, kMaxNumber);
  }
  if (claim.compare == Compare::above && reader.has("tolerance"))
    reader.fail("tolerance", "is not used where ours must be above the published figure", "leave it out");
  claim.tolerance = claim.compare == Compare::above ? Tolerance{} : read_tolerance(reader, claim.kind);
  claim.direction = read_direction(reader);
  if (reader.has("scenario"))
    read_scenario_of(reader, claim);
  else if (claim.reason.empty())
    reader.fail("scenario", "is missing", "describe one, or give the reason why there is none");
  reader.no_other_keys();
  return claim;
}

// The order of the published figures that a claim names.
void set_published_order(const std::vector<Claim>& group, const JsonReader& reader, Claim& claim) {
  std::vector<std::pair<std::string, double>> figures;
  for (const std::string& name : claim.order->of) {
    const auto found = std::ranges::find(group, name, &Claim::name);
    if (found == group.end()) reader.fail("order", "the group has no claim '" + name + "'");
    if (!found->published.number) reader.fail("order", "'" + name + "' has no number");
    figures.emplace_back(name, *found->published.number);
  }
  claim.published.text = order_text(std::move(figures), 0);
}

void read_group(JsonReader& group, const std::string& file, const std::string& pointer, PaperClaims& result) {
  const std::string name = group.text("name");
  Json inherited = Json::object(), inherited_by_order = Json::object();
  for (const char* key : kInherited)
    if (group.has(key)) inherited[key] = group.raw(key);
  for (const char* key : kInheritedByOrder)
    if (group.has(key)) inherited_by_order[key] = group.raw(key);
  const Json scenario = group.has("scenario") ? group.object("scenario").json() : Json();
  std::set<std::string> names;
  const std::size_t first = result.claims.size();
  const std::vector<JsonReader> claims = group.objects("claims");
  if (claims.empty()) group.fail("claims", "must hold at least one claim");
  group.no_other_keys();
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const bool is_order = claims[i].json().contains("order");
    Json merged = is_order ? inherited_by_order : inherited;
    for (const auto& [key, value] : claims[i].json().items())
      if (key != "scenario") merged[key] = value;
    const bool own = claims[i].json().contains("scenario");
    if (own && is_order) claims[i].fail("order", "is that of other claims' figures", "leave the scenario out");
    if (!is_order && (!scenario.is_null() || own)) {
      merged["scenario"] = scenario.is_null() ? Json::object() : scenario;
      if (own) merge_fields(merged["scenario"], claims[i].json()["scenario"]);
    }
    Claim claim = read_claim(merged, name, file, pointer + "/claims/" + std::to_string(i));
    if (!names.insert(claim.name).second) claims[i].fail("name", "'" + claim.name + "' stands here twice");
    result.claims.push_back(std::move(claim));
  }
  const std::vector<Claim> all(result.claims.begin() + static_cast<std::ptrdiff_t>(first), result.claims.end());
  for (std::size_t i = first; i < result.claims.size(); ++i)
    if (result.claims[i].order) set_published_order(all, claims[i - first], result.claims[i]);
  for (std::size_t i = first; i < result.claims.size(); ++i)
    if (const auto* other = std::get_if<std::string>(&result.claims[i].direction.than))
      if (!names.contains(*other))
        claims[i - first].fail("direction", "the group has no claim '" + *other + "'",
                               suggestion(*other, std::vector<std::string>(names.begin(), names.end())));
}

// Of names: what they all begin with, up to and with a comma and a space.
std::size_t shared_beginning(const std::vector<std::pair<std::string, double>>& figures) {
  const std::string& first = figures.front().first;
  std::size_t length = first.rfind(", ");
  for (; length != std::string::npos; length = length == 0 ? std::string::npos : first.rfind(", ", length - 1))
    if (std::ranges::all_of(figures,
                            [&](const auto& figure) { return figure.first.starts_with(first.substr(0, length + 2)); }))
      return length + 2;
  return 0;
}

}  // namespace

Tolerance default_tolerance(ClaimKind kind) {
  switch (kind) {
    case ClaimKind::headline:
    case ClaimKind::end_to_end:
    case ClaimKind::measured_times:
      return {.absolute = 0, .relative = 0.1, .reason = ""};
    case ClaimKind::formula:
    case ClaimKind::count:
    case ClaimKind::authors_program:
      break;
  }
  return {};
}

std::string order_text(std::vector<std::pair<std::string, double>> figures, double tie) {
  const std::size_t shared = shared_beginning(figures);
  std::ranges::stable_sort(figures, std::greater<>{}, [](const auto& figure) { return figure.second; });
  std::string text = figures.front().first.substr(shared);
  for (std::size_t i = 1; i < figures.size(); ++i) {
    const double above = figures[i - 1].second, apart = above - figures[i].second;
    text += apart <= 1e-9 * std::abs(above) ? " = " : apart <= tie * std::abs(above) ? " ~ " : " > ";
    text += figures[i].first.substr(shared);
  }
  return text;
}

PaperClaims claims_from_json(const Json& document, const std::string& paper, const std::string& where) {
  JsonReader reader(document, where);
  PaperClaims result{.paper = paper,
                     .title = reader.text("title"),
                     .citation = reader.text("citation"),
                     .set_up = reader.text("set_up", ""),
                     .measurements = reader.boolean("measurements", false),
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

std::string to_text(ClaimKind kind) {
  std::string text = kind == ClaimKind::authors_program ? "authors' program" : choice_name(kind);
  std::ranges::replace(text, '_', ' ');
  return text;
}

}  // namespace sluice
