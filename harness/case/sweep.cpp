#include "harness/case/sweep.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/error.h"
#include "harness/base/json_reader.h"
#include "harness/case/settings.h"
#include "harness/pipeline/system.h"
#include "results/store.h"

namespace sluice {

static nlohmann::json as_list(const nlohmann::json& value) {
  return value.is_array() ? value : nlohmann::json::array({value});
}

// Names of systems, with "*" and "*asynchronous" written out.
static nlohmann::json named_systems(const nlohmann::json& values) {
  nlohmann::json systems = nlohmann::json::array();
  for (const nlohmann::json& value : values) {
    if (value != "*" && value != "*asynchronous") {
      systems.push_back(value);
      continue;
    }
    for (const System* system : all_systems())
      if (value == "*" || !system->synchronous) systems.push_back(system->name);
  }
  return systems;
}

namespace {

// The objects that choose one value of every list, in the order in which the lists were added: the last varies fastest.
class Combinations {
 public:
  Combinations(std::string file, std::string pointer) : file_(std::move(file)), pointer_(std::move(pointer)) {}

  // key: of the object; inner: of the object under that key, or "".
  void multiply(const std::string& key, const std::string& inner, const nlohmann::json& values) {
    if (values.empty())
      throw InputError(file_ + ": " + pointer_ + "/" + key + (inner.empty() ? "" : "/" + inner), "is an empty list",
                       "give at least one value");
    if (all_.size() * values.size() > 1'000'000)
      throw InputError(file_ + ": " + pointer_, "more than a million combinations");
    std::vector<nlohmann::json> next;
    for (const nlohmann::json& combination : all_)
      for (const nlohmann::json& value : values) {
        next.push_back(combination);
        (inner.empty() ? next.back()[key] : next.back()[key][inner]) = value;
      }
    all_ = std::move(next);
  }

  const std::vector<nlohmann::json>& all() const { return all_; }

 private:
  std::string file_, pointer_;
  std::vector<nlohmann::json> all_{nlohmann::json::object()};
};

}  // namespace

std::vector<RunCase> expand_case(const nlohmann::json& entry, const std::string& file, const std::string& pointer) {
  if (!entry.is_object())
    throw InputError(file + ": " + (pointer.empty() ? "/" : pointer),
                     std::string("must be an object, is ") + entry.type_name());
  Combinations combinations(file, pointer);
  for (const auto& item : entry.items()) {
    const bool holds_lists = item.key() == "options" || item.key() == "optimizer";
    if (holds_lists && item.value().is_object()) {
      for (const auto& inner : item.value().items())
        combinations.multiply(item.key(), inner.key(), as_list(inner.value()));
    } else {
      const nlohmann::json values = as_list(item.value());
      combinations.multiply(item.key(), "", item.key() == "system" ? named_systems(values) : values);
    }
  }
  std::vector<RunCase> cases;
  for (const nlohmann::json& combination : combinations.all()) cases.push_back(read_case(combination, file, pointer));
  return cases;
}

Sweep load_sweep(const std::string& path) {
  const nlohmann::json json = parse_json_file(path);
  JsonReader reader(json, path);
  Sweep sweep;
  sweep.name = reader.text("name", std::filesystem::path(path).stem().string());
  if (sweep.name.find('/') != std::string::npos || sweep.name.empty()) reader.fail("name", "must be a plain file name");
  sweep.title = reader.text("title", sweep.name);
  const nlohmann::json defaults = reader.has("defaults") ? reader.object("defaults").json() : nlohmann::json::object();
  const nlohmann::json& grid = reader.raw("grid");
  if (!grid.is_array() || grid.empty()) reader.fail("grid", "must be a list of at least one object");
  reader.no_other_keys();
  std::set<std::string> seen;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const std::string pointer = "/grid/" + std::to_string(i);
    nlohmann::json entry = grid[i];
    if (entry.is_object())
      for (const auto& item : defaults.items())
        if (!entry.contains(item.key())) entry[item.key()] = item.value();
    for (RunCase& c : expand_case(entry, path, pointer))
      if (seen.insert(digest(to_json(c))).second) sweep.cases.push_back(std::move(c));
  }
  return sweep;
}

std::vector<RunCase> shard(std::vector<RunCase> cases, const std::string& description) {
  const std::size_t slash = description.find('/');
  std::size_t i = 0, n = 0;
  const auto whole_number = [](const std::string& text, std::size_t& value) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stop == end;
  };
  const bool numbers = slash != std::string::npos && whole_number(description.substr(0, slash), i) &&
                       whole_number(description.substr(slash + 1), n);
  if (!numbers || i >= n || n > 1'000'000'000)
    throw InputError("--shard", "'" + description + "' is not i/n with 0 <= i < n", "write 0/4");
  std::map<std::string, std::size_t> searches;  // a learning-rate search -> its place
  std::vector<RunCase> mine;
  std::size_t places = 0;
  for (RunCase& c : cases) {
    std::size_t place = places;
    if (c.tune) {
      RunCase any_seed = c;
      any_seed.seed = c.tune->seed;
      place = searches.emplace(digest(to_json(any_seed)), places).first->second;
    }
    if (place == places) ++places;
    if (place % n == i) mine.push_back(std::move(c));
  }
  return mine;
}

}  // namespace sluice
