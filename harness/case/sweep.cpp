#include "harness/case/sweep.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/stop.h"
#include "harness/base/visible_text.h"
#include "harness/case/settings.h"
#include "harness/pipeline/system.h"

namespace sluice {

static Json as_list(const Json& value) { return value.is_array() ? value : Json::array({value}); }

// Names of systems, with "*" and "*asynchronous" written out and without those that "!NAME" excludes. Systems that only
// infer are among them where the entry's task is inference.
static Json named_systems(const Json& values, bool inference) {
  Json systems = Json::array();
  std::set<std::string> excluded;
  for (const Json& value : values) {
    if (value.is_string() && value.get<std::string>().starts_with("!")) {
      excluded.insert(find_system(value.get<std::string>().substr(1), "system").name);
      continue;
    }
    if (value != "*" && value != "*asynchronous") {
      systems.push_back(value);
      continue;
    }
    for (const System* system : all_systems())
      if ((value == "*" || !system->synchronous) && (inference || !system->inference_only))
        systems.push_back(system->name);
  }
  if (excluded.empty()) return systems;
  Json left = Json::array();
  for (const Json& system : systems)
    if (!system.is_string() || !excluded.contains(system.get<std::string>())) left.push_back(system);
  return left;
}

namespace {

// The objects that choose one value of every list, in the order in which the lists were added: the last varies fastest.
// They are counted before the first is made.
class Combinations {
 public:
  explicit Combinations(PlaceOf place) : place_(std::move(place)) {}

  // key: of the object; inner: of the object under that key, if it holds one.
  void multiply(const std::string& key, const std::optional<std::string>& inner, Json values) {
    if (values.empty())
      throw InputError(place_("/" + key + (inner ? "/" + *inner : "")), "is an empty list", "give at least one value");
    count_ = count_ > kMaxCombinations ? count_ : count_ * values.size();
    if (count_ > kMaxCombinations)
      throw InputError(place_(""), "more than " + std::to_string(kMaxCombinations) + " combinations",
                       "cut the lists, or make several sweeps");
    lists_.push_back({key, inner, std::move(values), 0});
  }

  template <class Use>
  void each(Use use) {
    for (std::size_t n = 0; n < count_; ++n) {
      check_stop();
      Json combination = Json::object();
      for (const List& list : lists_) {
        Json& place = list.inner ? combination[list.key][*list.inner] : combination[list.key];
        place = list.values[list.chosen];
      }
      use(combination);
      for (std::size_t k = lists_.size(); k > 0 && ++lists_[k - 1].chosen == lists_[k - 1].values.size(); --k)
        lists_[k - 1].chosen = 0;
    }
  }

 private:
  static constexpr std::size_t kMaxCombinations = 100'000;
  struct List {
    std::string key;
    std::optional<std::string> inner;
    Json values;
    std::size_t chosen;
  };
  PlaceOf place_;
  std::vector<List> lists_;
  std::size_t count_ = 1;
};

// Whether it may name files in folders of the repository: results/runs/NAME.jsonl, plots/out/NAME.
bool is_plain_name(const std::string& name) {
  constexpr std::size_t longest = 100;
  const bool printable = std::ranges::all_of(
      name, [](char c) { return static_cast<unsigned char>(c) > ' ' && c != 0x7f && c != '/' && c != '\\'; });
  return !name.empty() && name.size() <= longest && printable && name[0] != '.' && name[0] != '-' &&
         visible(name) == name;
}

}  // namespace

std::vector<RunCase> expand_case(const Entry& entry) {
  if (!entry.values.is_object())
    throw InputError(entry.place(""), std::string("must be an object, is ") + entry.values.type_name());
  Combinations combinations(entry.place);
  const bool inference = entry.values.contains("task") && entry.values["task"] == choice_name(Task::inference);
  for (const auto& item : entry.values.items()) {
    const bool holds_lists = item.first == "options" || item.first == "optimizer";
    if (holds_lists && item.second.is_object()) {
      for (const auto& inner : item.second.items())
        combinations.multiply(item.first, inner.first, as_list(inner.second));
    } else {
      const Json values = as_list(item.second);
      combinations.multiply(item.first, {}, item.first == "system" ? named_systems(values, inference) : values);
    }
  }
  std::vector<RunCase> cases;
  combinations.each([&](const Json& combination) { cases.push_back(resolve({combination, entry.place})); });
  return cases;
}

// The entry, with the defaults that it does not give itself.
static Entry with_defaults(const Json& values, const PlaceOf& place, const Json& defaults,
                           const PlaceOf& place_default) {
  Entry entry{values, place};
  if (!values.is_object()) return entry;
  std::set<std::string> taken;
  for (const auto& [key, value] : defaults.items()) {
    if (values.contains(key)) continue;
    entry.values[key] = value;
    taken.insert(key);
  }
  entry.place = [=](const std::string& pointer) {
    const std::string key = pointer.empty() ? "" : pointer.substr(1, pointer.find('/', 1) - 1);
    return taken.contains(key) ? place_default(pointer) : place(pointer);
  };
  return entry;
}

Sweep load_sweep(const std::string& path) {
  const Json json = parse_json_file(path);
  JsonReader reader(json, path);
  Sweep sweep;
  sweep.name = reader.text("name", std::filesystem::path(path).stem().string());
  if (!is_plain_name(sweep.name))
    reader.fail("name", "'" + sweep.name + "' is not a plain name of at most 100 printable characters",
                "it names files: no slash or space, and no dot or dash in front");
  sweep.title = reader.text("title", sweep.name);
  const Json defaults = reader.has("defaults") ? reader.object("defaults").json() : Json::object();
  const Json& grid = reader.raw("grid");
  if (!grid.is_array() || grid.empty()) reader.fail("grid", "must be a list of at least one object");
  reader.no_other_keys();
  std::set<std::string> seen;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    for (RunCase& c : expand_case(
             with_defaults(grid[i], in_file(path, "/grid/" + std::to_string(i)), defaults, in_file(path, "/defaults"))))
      if (seen.insert(digest_of(c)).second) sweep.cases.push_back(std::move(c));
  }
  return sweep;
}

std::string search_digest(const RunCase& c) {
  RunCase any_seed = c;
  any_seed.seed = c.tune->seeds.front();
  return digest_of(any_seed);
}

}  // namespace sluice
