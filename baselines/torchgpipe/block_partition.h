// Balanced cuts of a sequence of numbers into blocks, in their order.
#pragma once

#include <span>
#include <vector>

namespace sluice {

// torchgpipe's balance (torchgpipe/balance/blockpartition.py; Barany, Grinberg, arXiv 1308.2452,
// algorithm 4.2): elements per block such that block sums differ by at most the largest element.
// torchgpipe scales the values to 0..1 first, minimum and all, so values that differ little weigh
// little: 100, 101, 102, 103 in two blocks are cut 3 | 1. A block that comes out empty is filled
// from its larger neighbour, which torchgpipe does not do. Throws InputError if blocks < 1 or there
// are fewer values.
std::vector<int> block_partition(std::span<const double> values, int blocks);

}  // namespace sluice
