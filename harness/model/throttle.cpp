#include "harness/model/throttle.h"

#include <limits>
#include <set>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "harness/base/split.h"

namespace sluice {

namespace {

int device_in(const std::string& text, int devices, const std::string& where) {
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos)
    throw InputError(where, "'" + text + "' is not a device's number", "write 0-1:rate=100Mbit/s");
  const int device = std::stoi(text);
  if (device >= devices)
    throw InputError(where, "device " + text + " does not exist", "there are " + std::to_string(devices) + ", from 0");
  return device;
}

LinkThrottle link_in(const std::string& text, const std::string& where) {
  LinkThrottle link{.rate = std::numeric_limits<double>::infinity()};
  std::set<std::string> given;
  for (const std::string& item : split(text, ",")) {
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string key = item.substr(0, equals), value = equals < item.size() ? item.substr(equals + 1) : "";
    if (key == "rate") {
      link.rate = parse_rate(value, where);
    } else if (key == "latency") {
      link.latency = parse_seconds(value, where);
    } else if (key == "burst") {
      link.burst = static_cast<double>(parse_bytes(value, where).value);
    } else {
      const std::vector<std::string> known = {"rate", "latency", "burst"};
      throw InputError(where, "unknown key '" + key + "'", suggestion(key, known));
    }
    if (!given.insert(key).second) throw InputError(where, "'" + key + "' is given twice", "give each key once");
  }
  return link;
}

}  // namespace

Throttle Throttle::parse(const std::string& description, int devices, const std::string& where) {
  Throttle throttle;
  if (description.empty() || description == "none") return throttle;
  for (const std::string& text : split(description, ";")) {
    Rule rule;
    const std::size_t colon = text.find(':');
    if (colon != std::string::npos) {
      const std::vector<std::string> ends = split(text.substr(0, colon), "-");
      if (ends.size() != 2) throw InputError(where, "'" + text.substr(0, colon) + "' is not a link", "write 0-1");
      rule.a = device_in(ends[0], devices, where);
      rule.b = device_in(ends[1], devices, where);
    }
    rule.link = link_in(colon == std::string::npos ? text : text.substr(colon + 1), where);
    throttle.rules_.push_back(rule);
  }
  return throttle;
}

LinkThrottle Throttle::between(DeviceId a, DeviceId b) const {
  LinkThrottle link{.rate = std::numeric_limits<double>::infinity()};
  for (const Rule& rule : rules_) {
    const bool fits =
        rule.a < 0 || (rule.a == a.value && rule.b == b.value) || (rule.a == b.value && rule.b == a.value);
    if (fits) link = rule.link;
  }
  return link;
}

std::vector<double> parse_slowdowns(const std::string& description, int ranks, const std::string& where) {
  if (description.empty() || description == "none") return {};
  std::vector<double> slowdowns;
  for (const std::string& text : split(description, ",")) {
    const double value = number_in(text).value_or(0);
    if (value < 1)
      throw InputError(where, "'" + text + "' is not a slowdown of at least 1", "write one per rank, like 1,2,1,4");
    slowdowns.push_back(value);
  }
  if (slowdowns.size() == 1) slowdowns.assign(ranks, slowdowns[0]);
  if (slowdowns.size() != static_cast<std::size_t>(ranks))
    throw InputError(where, std::to_string(slowdowns.size()) + " slowdowns for " + std::to_string(ranks) + " ranks",
                     "give one per rank, or one for all");
  return slowdowns;
}

}  // namespace sluice
