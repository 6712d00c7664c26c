#include "baselines/torchgpipe/block_partition.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/stop.h"

namespace sluice {

namespace {

using Blocks = std::vector<std::deque<double>>;

double sum(const std::deque<double>& block) { return std::accumulate(block.begin(), block.end(), 0.0); }

// Index of the largest block (of equal ones the last) or of the smallest (the first).
std::pair<double, std::size_t> largest(const Blocks& blocks) {
  std::pair<double, std::size_t> result{sum(blocks[0]), 0};
  for (std::size_t b = 1; b < blocks.size(); ++b) result = std::max(result, {sum(blocks[b]), b});
  return result;
}

std::pair<double, std::size_t> smallest(const Blocks& blocks) {
  std::pair<double, std::size_t> result{sum(blocks[0]), 0};
  for (std::size_t b = 1; b < blocks.size(); ++b) result = std::min(result, {sum(blocks[b]), b});
  return result;
}

void fill_empty(std::vector<int>& sizes) {
  for (auto empty = std::ranges::find(sizes, 0); empty != sizes.end(); empty = std::ranges::find(sizes, 0)) {
    // The nearest block with something to spare; everything between moves over by one element.
    const auto from = static_cast<std::size_t>(empty - sizes.begin());
    for (std::size_t away = 1;; ++away) {
      if (from >= away && sizes[from - away] > 1) {
        --sizes[from - away];
        break;
      }
      if (from + away < sizes.size() && sizes[from + away] > 1) {
        --sizes[from + away];
        break;
      }
    }
    *empty = 1;
  }
}

}  // namespace

std::vector<int> block_partition(std::span<const double> values, int blocks) {
  const int n = static_cast<int>(values.size());
  if (blocks < 1 || n < blocks)
    throw InputError("balance", std::to_string(blocks) + " blocks of " + std::to_string(n) + " values",
                     "use at most as many blocks as values, and at least one");
  const auto [least, most] = std::ranges::minmax(values);
  Blocks parts(static_cast<std::size_t>(blocks));
  for (int i = 0; i < n; ++i) {
    const auto block = static_cast<std::size_t>(std::min(i / (n / blocks), blocks - 1));
    const double value = values[i];
    parts[block].push_back(most > least ? (value - least) / (most - least) : 0);
  }
  while (true) {
    const auto [max_sum, p] = largest(parts);
    while (true) {
      check_stop();
      const auto [min_sum, q] = smallest(parts);
      if (max_sum <= min_sum + 1) {
        std::vector<int> sizes;
        for (const auto& part : parts) sizes.push_back(static_cast<int>(part.size()));
        fill_empty(sizes);
        return sizes;
      }
      // One element moves into the smallest block, from its neighbour on the largest one's side;
      // an empty neighbour has none to give, so from the next one.
      std::size_t from = p < q ? q - 1 : q + 1;
      while (parts[from].empty()) p < q ? --from : ++from;
      if (p < q) {
        parts[q].push_front(parts[from].back());
        parts[from].pop_back();
      } else {
        parts[q].push_back(parts[from].front());
        parts[from].pop_front();
      }
      if (from == p) break;
    }
  }
}

}  // namespace sluice
