// An order of the devices in which those joined by fast links stand together, so that the stages of
// a pipeline laid along it meet at slow links: SPP's recursive device ordering (Luo et al., INFOCOM
// 2022, arXiv 2204.10562).
#pragma once

#include <vector>

#include "harness/model/cluster.h"
#include "systems/spp/min_cut.h"

namespace sluice {

// Bytes/s between every two of the first `devices` devices: the slowest link of the path, the
// slower direction where they differ; infinity on the diagonal. Sharing and latency are left out.
// Throws InputError if two have no path.
SquareMatrix pair_bandwidths(const Cluster& cluster, int devices);

// Cuts the devices in two at the global minimum cut, then each half, down to single devices; the
// half with the smallest id first. Flat bandwidths give 0, 1, 2, ... O(n^4) at worst.
std::vector<int> recursive_min_cut_order(const SquareMatrix& bandwidths);

}  // namespace sluice
