// The synthetic model: per resource an alternating renewal process. Quiet for an exponentially distributed time, then
// an episode of log-normal length (median 10 min, 95 % below 2 h: the range that FALCON, arXiv 2410.12588, reports for
// fail-slows in large clusters), with one severity. The shapes are ours, fitted to such published ranges.
#include "harness/model/interference_presets.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "harness/base/error.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "harness/base/read_text.h"
#include "harness/base/split.h"
#include "harness/base/visible_text.h"

namespace sluice {

namespace {

struct Request {
  int devices = 1;
  std::uint64_t seed = 1;
  double scale = 1;
  std::optional<int> device;
  std::optional<double> busy;
  std::string file, where;

  int one_device() const { return device.value_or(std::min(1, devices - 1)); }
};

constexpr double kMu = 6.396929655216146;  // ln 600
constexpr double kSigma = 1.5;
constexpr double kHorizon = 48 * 3600;  // seconds for which episodes are drawn, before scaling

double mean_of_episodes() { return std::exp(kMu + kSigma * kSigma / 2); }

// The library's distributions differ between implementations; these do not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double exponential(double mean) { return -mean * std::log(uniform()); }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * 3.14159265358979323846 * uniform()); }

 private:
  std::mt19937_64 engine_;
};

using Draw = std::function<double(Random&)>;

double light(Random& r) { return r.uniform(1.2, 2); }
double heavy(Random& r) { return r.uniform(2, 4); }
double mixed(Random& r) {
  const double kind = r.uniform();
  return kind < 0.7 ? light(r) : kind < 0.95 ? heavy(r) : r.uniform(4, 8);
}
double log_normal_length(Random& r) { return std::exp(kMu + kSigma * r.normal()); }

// Episodes of one resource of a device, one after the other.
void renew(Interference& into, Random random, const Episode& where, const Draw& quiet, const Draw& length,
           const Draw& severity, double scale) {
  for (double now = quiet(random); now < kHorizon;) {
    Episode& e = into.episodes.emplace_back(where);
    const double end = now + length(random);
    e.start = now * scale;
    e.end = end * scale;
    e.slowdown = severity(random);
    now = end + quiet(random);
  }
}

std::vector<int> disturbed(const Request& q) {
  std::vector<int> devices;
  for (int d = 0; d < q.devices; ++d)
    if (!q.device || *q.device == d) devices.push_back(d);
  return devices;
}

Interference synthetic(const Request& q, Resource resource, double usual_busy, const Draw& severity) {
  const double busy = q.busy.value_or(usual_busy);
  const double quiet_mean = mean_of_episodes() * (1 - busy) / busy;
  Interference result;
  for (const int d : disturbed(q))
    renew(
        result, Random(q.seed * 1000003 + static_cast<std::uint64_t>(d)), {.resource = resource, .device = d},
        [=](Random& r) { return r.exponential(quiet_mean); }, log_normal_length, severity, q.scale);
  return result;
}

void add(Interference& into, int device, double start, double end, double slowdown, double scale) {
  into.episodes.push_back({.device = device, .start = start * scale, .end = end * scale, .slowdown = slowdown});
}

// The log of DynPipe's static run (VGG-16 in two stages): 0.135 s an iteration when quiet, 1.78 and 2.55 times that.
Interference dynpipe_log(const Request& q) {
  Interference result;
  add(result, q.one_device(), 176, 922, 1.78, q.scale);
  add(result, q.one_device(), 1619, 2366, 1.78, q.scale);
  add(result, q.one_device(), 2826, 4056, 2.55, q.scale);
  return result;
}

// 20 s heavy, 20 s quiet, on one device.
Interference flapping(const Request& q) {
  Interference result;
  const Draw length = [](Random& r) { return r.exponential(20); };
  renew(result, Random(q.seed), {.device = q.one_device()}, length, length, heavy, q.scale);
  return result;
}

// Two devices, one after the other and for a time both.
Interference two_stage(const Request& q) {
  Interference result;
  const int first = q.device.value_or(0);
  add(result, first, 300, 1500, 2, q.scale);
  if (q.devices > 1) add(result, (first + 1) % q.devices, 900, 2100, 2.5, q.scale);
  return result;
}

Interference departure(const Request& q) {
  Interference result;
  add(result, q.one_device(), 0, 600, 2, q.scale);
  return result;
}

// A board that heats up: its speed falls from 1 to 0.6 over ten minutes and stays there.
Interference edge_thermal(const Request& q) {
  Interference result;
  constexpr int kSteps = 40;
  for (int k = 1; k <= kSteps; ++k) {
    const double until = k == kSteps ? std::numeric_limits<double>::infinity() : 600.0 * (k + 1) / kSteps;
    add(result, q.one_device(), 600.0 * k / kSteps, until, 1 / (1 - 0.4 * k / kSteps), q.scale);
  }
  return result;
}

Interference link_jitter(const Request& q) {
  Interference result = synthetic(q, Resource::link, 0.5, [](Random& r) { return 1 / r.uniform(0.2, 0.9); });
  result.latency_jitter = 0.25;
  return result;
}

// Slowdowns of co-located training jobs as Gavel published them (CSV: gpu,victim,...,slowdown), those of one GPU.
// One victim, of which every slowdown above 8 is, is left out.
Interference gavel(const Request& q, const std::string& gpu) {
  constexpr std::size_t most = 64 << 20;
  constexpr double max_times = 1e6;
  if (q.file.empty()) throw InputError(q.where, "has no file", "give file=PATH of Gavel's co-location slowdowns");
  std::istringstream in(read_text(q.file, most, "give file=PATH of Gavel's co-location slowdowns"));
  std::vector<double> slowdowns;
  for (std::string line; std::getline(in, line);) {
    std::stringstream fields(line);
    std::string of, victim;
    std::getline(fields, of, ',');
    std::getline(fields, victim, ',');
    if (of != gpu || victim.starts_with("Recommendation")) continue;
    if (line.ends_with('\r')) line.pop_back();
    const std::size_t comma = line.rfind(',');
    const std::optional<double> slowdown =
        comma == std::string::npos ? std::nullopt : number_in(std::string_view(line).substr(comma + 1));
    if (!slowdown || *slowdown > max_times)
      throw InputError(visible(q.file), "'" + visible(line) + "' does not end in a slowdown");
    slowdowns.push_back(std::max(1.0, *slowdown));
  }
  if (slowdowns.empty()) throw InputError(q.file, "has no slowdowns of " + gpu);
  return synthetic(q, Resource::compute, 0.2, [slowdowns](Random& r) {
    return slowdowns[static_cast<std::size_t>(r.uniform() * static_cast<double>(slowdowns.size()))];
  });
}

struct Preset {
  std::string name;
  std::function<Interference(const Request&)> make;
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"dynpipe-log", dynpipe_log},
      {"light", [](const Request& q) { return synthetic(q, Resource::compute, 0.2, light); }},
      {"heavy", [](const Request& q) { return synthetic(q, Resource::compute, 0.2, heavy); }},
      {"mixed", [](const Request& q) { return synthetic(q, Resource::compute, 0.2, mixed); }},
      {"memory-light", [](const Request& q) { return synthetic(q, Resource::memory, 0.2, light); }},
      {"flapping", flapping},
      {"two-stage", two_stage},
      {"departure", departure},
      {"edge-thermal", edge_thermal},
      {"link-jitter", link_jitter},
      {"gavel-p100", [](const Request& q) { return gavel(q, "p100"); }},
      {"gavel-v100", [](const Request& q) { return gavel(q, "v100"); }},
  };
  return all;
}

double positive(const std::string& text, const std::string& key, const std::string& where) {
  constexpr double most = 1e12;
  if (const std::optional<double> value = number_in(text); value && *value > 0 && *value <= most) return *value;
  throw InputError(where, key + " must be a number greater than 0 and at most 1e12, is '" + text + "'");
}

std::int64_t from_zero(const std::string& text, const std::string& key, std::int64_t most, const std::string& where) {
  if (const std::optional<std::int64_t> value = whole_number_in(text); value && *value >= 0 && *value <= most)
    return *value;
  throw InputError(where, key + " must be a whole number from 0 to " + std::to_string(most) + ", is '" + text + "'");
}

void read_setting(Request& q, const std::string& item) {
  static const std::vector<std::string> keys = {"seed", "scale", "device", "busy", "file"};
  const std::size_t equals = std::min(item.find('='), item.size());
  const std::string key = item.substr(0, equals), value = equals < item.size() ? item.substr(equals + 1) : "";
  if (std::ranges::count(keys, key) == 0)
    throw InputError(q.where, "unknown setting '" + key + "' of a preset", suggestion(key, keys));
  if (key == "file") {
    q.file = value;
  } else if (key == "device") {
    q.device = static_cast<int>(from_zero(value, key, kMaxCount, q.where));
  } else if (key == "seed") {
    q.seed = static_cast<std::uint64_t>(from_zero(value, key, kMaxWhole, q.where));
  } else if (key == "scale") {
    q.scale = positive(value, key, q.where);
  } else {
    q.busy = positive(value, key, q.where);
    if (*q.busy >= 1) throw InputError(q.where, "busy must be less than 1");
  }
}

// Of "NAME:item,item".
std::vector<std::string> items_of(const std::string& description) {
  const std::size_t colon = std::min(description.find(':'), description.size());
  std::vector<std::string> items =
      split(std::string_view(description).substr(std::min(colon + 1, description.size())), ",");
  if (items.back().empty()) items.pop_back();
  return items;
}

}  // namespace

std::string preset_file(const std::string& description) {
  std::string file;
  for (const std::string& item : items_of(description))
    if (item.starts_with("file=")) file = item.substr(5);
  return file;
}

Interference preset_interference(const std::string& description, int devices, const std::string& where) {
  const std::size_t colon = std::min(description.find(':'), description.size());
  const std::string name = description.substr(0, colon);
  const auto preset = std::ranges::find(presets(), name, &Preset::name);
  if (preset == presets().end()) {
    std::vector<std::string> names = {"none"};
    for (const Preset& p : presets()) names.push_back(p.name);
    throw InputError(where, "unknown interference '" + name + "'", suggestion(name, names));
  }
  Request request{.devices = devices, .device = {}, .busy = {}, .file = "", .where = where};
  std::set<std::string> given;
  for (const std::string& item : items_of(description)) {
    read_setting(request, item);
    const std::string key = item.substr(0, item.find('='));
    if (!given.insert(key).second) throw InputError(where, "'" + key + "' is given twice", "give each setting once");
  }
  Interference result = preset->make(request);
  result.seed = request.seed;
  return result;
}

}  // namespace sluice
