// Throttle: links of this machine limited to a rate and a latency, so that plans for unequal links run for real. A
// token bucket: a message takes one token per byte; tokens return at the rate, and up to `burst` of them are saved.
#pragma once

#include <string>
#include <vector>

#include "harness/base/ids.h"
#include "harness/base/quantities.h"

namespace sluice {

struct LinkThrottle {
  double rate = 0;  // bytes per second; infinite: no limit
  Seconds latency{};
  double burst = 0;  // bytes
};

class Throttle {
 public:
  // "rate=100Mbit/s,latency=20ms,burst=32KiB" for all links, "0-1:rate=1Gbit/s" for those between two devices (both
  // directions, each with its own bucket); several, separated by ";", of which the last match counts. Throws
  // InputError(where, ...).
  static Throttle parse(const std::string& description, int devices, const std::string& where);

  bool empty() const { return rules_.empty(); }
  LinkThrottle between(DeviceId a, DeviceId b) const;

 private:
  struct Rule {
    int a = -1, b = -1;  // -1: all links
    LinkThrottle link;
  };
  std::vector<Rule> rules_;
};

// Slowdown factor per rank: "1,2,1,4", or one number for all. Throws InputError(where, ...): another number of values
// than ranks, or a value below 1.
std::vector<double> parse_slowdowns(const std::string& description, int ranks, const std::string& where);

}  // namespace sluice
