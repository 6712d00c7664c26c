#include "harness/model/load_interference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "harness/base/split.h"
#include "harness/model/interference_presets.h"

namespace sluice {

namespace {

constexpr double kNoEnd = std::numeric_limits<double>::infinity();

Resource resource_named(const std::string& name, const std::string& where) {
  const std::optional<Resource> resource = choice_named<Resource>(name);
  if (!resource) throw InputError(where, "unknown resource '" + name + "'", suggestion(name, choice_names<Resource>()));
  return *resource;
}

double from_zero(const std::string& text, const std::string& where) {
  if (const std::optional<double> value = number_in(text); value && *value >= 0) return *value;
  throw InputError(where, "'" + text + "' is not a number from 0 on",
                   "write an episode like compute:1@10-20x2 (resource, device, seconds from and until, slowdown)");
}

int device_in(const std::string& text, const std::string& where) {
  const double value = from_zero(text, where);
  if (value != std::floor(value) || value > 1e6) throw InputError(where, "'" + text + "' is not a device's number");
  return static_cast<int>(value);
}

// "compute:1@10-20x2", "link:0-1x4"
Episode episode_in(const std::string& text, const std::string& where) {
  Episode episode;
  const std::size_t colon = text.find(':'), times = text.rfind('x');
  const std::size_t at = std::min(text.find('@'), times);
  if (colon == std::string::npos || times == std::string::npos || at < colon)
    throw InputError(where, "'" + text + "' is not an episode", "write it like compute:1@10-20x2 or link:0-1@5-x4");
  episode.resource = resource_named(text.substr(0, colon), where);
  const std::string device = text.substr(colon + 1, at - colon - 1);
  const std::size_t dash = device.find('-');
  episode.device = device_in(device.substr(0, dash), where);
  if (dash != std::string::npos) episode.to = device_in(device.substr(dash + 1), where);
  episode.end = kNoEnd;
  if (at < times) {
    const std::string when = text.substr(at + 1, times - at - 1);
    const std::size_t until = when.find('-');
    episode.start = from_zero(when.substr(0, until), where);
    if (until != std::string::npos && until + 1 < when.size()) episode.end = from_zero(when.substr(until + 1), where);
  }
  episode.slowdown = from_zero(text.substr(times + 1), where);
  return episode;
}

Interference episodes_in(const std::string& text, const std::string& where) {
  Interference result;
  for (const std::string& item : split(text, ",")) result.episodes.push_back(episode_in(item, where));
  return result;
}

Interference interference_in_file(const std::string& file) {
  const Json json = parse_json_file(file);
  JsonReader reader(json, file);
  Interference result;
  result.name = reader.text("name", file);
  reader.text("source", "");
  result.seed = static_cast<std::uint64_t>(reader.integer_or<std::int64_t>("seed", 0, 0, kMaxWhole));
  result.op_noise = reader.number_or("op_noise", 0, 0, 10);
  result.latency_jitter = reader.number_or("latency_jitter", 0, 0, 10);
  for (JsonReader& e : reader.objects("episodes")) {
    Episode& episode = result.episodes.emplace_back();
    episode.resource = resource_named(e.text("resource"), e.where("resource"));
    episode.device = e.integer<int>("device", 0, kMaxCount);
    if (e.has("to")) episode.to = e.integer<int>("to", 0, kMaxCount);
    episode.start = e.number_or("start", 0, 0, kMaxSeconds);
    episode.end = e.has("seconds") ? episode.start + e.number("seconds", 0, kMaxSeconds) : kNoEnd;
    episode.slowdown = e.number("slowdown", 1, 1e6);
    e.no_other_keys();
  }
  reader.no_other_keys();
  return result;
}

void check(const Interference& interference, int devices, const std::string& where) {
  for (const Episode& e : interference.episodes) {
    if (!(e.slowdown >= 1) || !std::isfinite(e.slowdown))
      throw InputError(where, "a slowdown must be at least 1", "2 takes twice as long");
    if (!(e.start >= 0) || !(e.end > e.start)) throw InputError(where, "an episode must end after it starts");
    if (e.device >= devices || e.to >= devices)
      throw InputError(where, "device " + std::to_string(std::max(e.device, e.to)) + " does not exist",
                       "there are " + std::to_string(devices) + ", from 0");
    if (e.to >= 0 && e.resource != Resource::link)
      throw InputError(where, choice_name(e.resource) + " has one device", "only a link has two");
    if (e.to == e.device) throw InputError(where, "a link has two different ends");
  }
  if (interference.op_noise < 0 || interference.latency_jitter < 0)
    throw InputError(where, "op_noise and latency_jitter must not be negative");
}

}  // namespace

std::string interference_file(const std::string& description) {
  return description.ends_with(".json") ? description : preset_file(description);
}

Interference load_interference(const std::string& description, int devices, const std::string& where) {
  Interference result;
  if (description.empty() || description == "none") return result;
  const std::string head = description.substr(0, description.find(':'));
  const std::vector<std::string> resources = choice_names<Resource>();
  if (description.ends_with(".json")) {
    result = interference_in_file(description);
  } else if (std::ranges::count(resources, head) > 0) {
    result = episodes_in(description, where);
    result.name = description;
  } else {
    result = preset_interference(description, devices, where);
    result.name = description;
  }
  check(result, devices, where);
  std::ranges::stable_sort(result.episodes, {}, &Episode::start);
  return result;
}

}  // namespace sluice
