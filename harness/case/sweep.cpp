#include "harness/case/sweep.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/stop.h"
#include "harness/base/visible_text.h"
#include "harness/case/settings.h"
#include "harness/pipeline/system.h"

namespace sluice {

static Json as_list(const Json& value) { return value.is_array() ? value : Json::array({value}); }

// Of a setting. Where its value is a list itself, [3, 1] is one value and [[3, 1], [2, 2]] are two.
static Json values_of(const std::string& key, const Json& value) {
  const auto setting = std::ranges::find(settings(), key, &Setting::key);
  const bool of_lists = setting != settings().end() && setting->value.type == SettingValue::Type::list;
  if (of_lists && value.is_array() && std::ranges::none_of(value, [](const Json& v) { return v.is_array(); }))
    return Json::array({value});
  return as_list(value);
}

// Names of systems, with "*", "*synchronous" and "*asynchronous" written out and without those that "!NAME" excludes.
// Systems that only infer are among them where the entry's task is inference.
static Json named_systems(const Json& values, bool inference) {
  Json systems = Json::array();
  std::set<std::string> excluded;
  for (const Json& value : values) {
    if (value.is_string() && value.get<std::string>().starts_with("!")) {
      excluded.insert(find_system(value.get<std::string>().substr(1), "system").name);
      continue;
    }
    const auto meant = value.is_string() ? systems_of_pattern(value.get<std::string>()) : std::vector<const System*>{};
    if (meant.empty()) systems.push_back(value);
    for (const System* system : meant)
      if (inference || !system->inference_only) systems.push_back(system->name);
  }
  if (excluded.empty()) return systems;
  Json left = Json::array();
  for (const Json& system : systems)
    if (!system.is_string() || !excluded.contains(system.get<std::string>())) left.push_back(system);
  return left;
}

namespace {

constexpr std::size_t kMaxCombinations = 100'000;  // of an entry, and of a sweep

[[noreturn]] void fail_too_many(const std::string& where) {
  throw InputError(where, "more than " + std::to_string(kMaxCombinations) + " combinations",
                   "cut the lists, or make several sweeps");
}

// The objects that choose one value of every list, in the order in which the lists were added: the last varies fastest.
// They are counted before the first is made.
class Combinations {
 public:
  explicit Combinations(PlaceOf place) : place_(std::move(place)) {}

  // key: of the object; inner: of the object under that key, if it holds one.
  void multiply(const std::string& key, const std::optional<std::string>& inner, Json values) {
    if (values.empty())
      throw InputError(place_("/" + key + (inner ? "/" + *inner : "")), "is an empty list", "give at least one value");
    count_ *= values.size();
    if (count_ > kMaxCombinations) fail_too_many(place_(""));
    lists_.push_back({key, inner, std::move(values), 0});
  }

  std::size_t count() const { return count_; }

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

static Combinations combinations_of(const Entry& entry) {
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
      Json values = values_of(item.first, item.second);
      if (item.first == "system" && !values.empty()) {
        values = named_systems(values, inference);
        if (values.empty())
          throw InputError(entry.place("/system"), "excludes every system that it names",
                           R"(name those that remain, too: ["*", "!gpipe"])");
      }
      combinations.multiply(item.first, {}, std::move(values));
    }
  }
  return combinations;
}

std::vector<RunCase> expand_case(const Entry& entry) {
  std::vector<RunCase> cases;
  combinations_of(entry).each([&](const Json& combination) { cases.push_back(resolve({combination, entry.place})); });
  return cases;
}

// A setting without effect in some combinations.
struct Idle {
  std::string pointer, why;
  std::size_t combinations = 0;
};

// Adds the entry's cases that the sweep does not have yet; `seen`: the digests of those that it has; `idle`: by place.
static void add_cases(Sweep& sweep, std::set<std::string>& seen, std::map<std::string, Idle>& idle,
                      Combinations& combinations, const PlaceOf& place) {
  combinations.each([&](const Json& combination) {
    ReadCase read = read_case({combination, place});
    for (const auto& [pointer, why] : read.without_effect) {
      Idle& found = idle[place(pointer)];
      found = {pointer, why, found.combinations + 1};
    }
    if (seen.insert(digest_of(read.c)).second) sweep.cases.push_back(std::move(read.c));
  });
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
  std::vector<std::pair<Combinations, PlaceOf>> entries;
  sweep.combinations = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    check_stop();
    const Entry entry =
        with_defaults(grid[i], in_file(path, "/grid/" + std::to_string(i)), defaults, in_file(path, "/defaults"));
    entries.emplace_back(combinations_of(entry), entry.place);
    sweep.combinations += entries.back().first.count();
    if (sweep.combinations > kMaxCombinations) fail_too_many(in_file(path, "/grid")(""));
  }
  std::set<std::string> seen;
  std::map<std::string, Idle> idle;
  for (auto& [combinations, place] : entries) add_cases(sweep, seen, idle, combinations, place);
  sweep.experiments = sweep.cases.size();
  for (const auto& [at, setting] : idle) {
    std::size_t uses = 0;  // a default: the combinations of all entries that do not replace it
    for (const auto& [combinations, place] : entries)
      if (place(setting.pointer) == at) uses += combinations.count();
    if (setting.combinations == uses)
      sweep.without_effect.push_back(at + (setting.why.empty() ? "" : ": " + setting.why));
  }
  return sweep;
}

std::string search_digest(const RunCase& c) {
  RunCase any_seed = c;
  any_seed.seed = c.tune->seeds.front();
  return digest_of(any_seed);
}

}  // namespace sluice
