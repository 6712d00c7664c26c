// DynaPipe's micro-batches of samples of different lengths: sorted by length, cut into groups that follow one another,
// a group being padded to its longest sample. Of all such cuts, that of the least
//
//   (p - 1) max t + sum t,   t: what a micro-batch takes on a stage
//
// which is what p equal stages take (generate_microbatches in data_opt/optimizer.py, and dp_helper.cpp, of the released
// code: one chunk a device, no data parallelism, no packing of several samples into one sequence). For every time that
// a micro-batch may take at most, a dynamic program finds the least sum. The released code leaves out times that are
// within 5 us of the one before; here all are tried, so that the result is the best cut there is. Its limit is a p-th
// of a device's memory and, where no cut keeps to that, all of it; here the caller gives one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

struct SampleGroups {
  std::vector<int> samples;  // of every micro-batch, the longest samples first
  double objective = 0;
};

// Seconds of a micro-batch: `samples` of them, padded to `longest`. Neither more samples nor a longer one takes less.
using GroupSeconds = std::function<double(int samples, std::int64_t longest)>;

// lengths: descending, at least one. limit: on samples times the longest, the memory of a micro-batch. nullopt: the
// longest sample alone is over it.
std::optional<SampleGroups> group_samples(std::span<const std::int64_t> lengths, int ranks, const GroupSeconds& seconds,
                                          std::int64_t limit);

}  // namespace sluice
