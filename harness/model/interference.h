// Interference: slowdowns of devices and links over time. Seeded or given episodes, the same on both clocks: the
// virtual clock integrates the resulting speeds, the wall clock produces them.
//
// Episodes of one resource of a device add their demands, like co-runners that share it by time: 1 + sum (slowdown -
// 1). Episodes of different resources multiply. A link has its own episodes and those of the devices at its ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/choice.h"
#include "harness/base/ids.h"
#include "harness/base/json.h"
#include "harness/base/work.h"

namespace sluice {

enum class Resource { compute, memory, allocation, link };  // allocation: of memory, by the operating system

template <>
struct Choices<Resource> {
  static constexpr Choice<Resource> all[] = {{Resource::compute, "compute"},
                                             {Resource::memory, "memory"},
                                             {Resource::allocation, "allocation"},
                                             {Resource::link, "link"}};
};

struct Episode {
  Resource resource = Resource::compute;
  int device = 0;             // of a link: the device at one end
  int to = -1;                // link: at the other end; -1: every link of the device
  double start = 0, end = 0;  // seconds of training; end may be infinite
  double slowdown = 1;        // at least 1: factor of the duration of an op or a transfer
  friend bool operator==(const Episode&, const Episode&) = default;
};

struct Interference {
  std::string name;  // as requested
  std::uint64_t seed = 0;
  std::vector<Episode> episodes;  // in order of their starts
  // Sigma of a log-normal factor with mean 1 for the seconds of every op, and for the latency of every message; 0:
  // none. For the virtual clock: real ops and messages vary by themselves.
  double op_noise = 0, latency_jitter = 0;

  bool empty() const { return episodes.empty() && op_noise == 0 && latency_jitter == 0; }
  PiecewiseSpeed device_speed(DeviceId device) const;
  PiecewiseSpeed link_speed(DeviceId from, DeviceId to) const;
};

// The factor of op or message `number` of a rank, from a seed: log-normal with mean 1.
double noise_factor(std::uint64_t seed, std::uint64_t rank, std::uint64_t number, double sigma);

}  // namespace sluice
