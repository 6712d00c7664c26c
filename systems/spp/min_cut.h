// Global minimum cut of a weighted graph (Stoer and Wagner, Journal of the ACM 44(4), 1997), with
// ties decided, so that planners that use it are deterministic.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice {

// Square and dense; weights[a][b] as at(a, b).
class SquareMatrix {
 public:
  explicit SquareMatrix(std::size_t size, double value = 0) : size_(size), values_(size * size, value) {}
  std::size_t size() const { return size_; }
  double& at(std::size_t row, std::size_t column) { return values_[row * size_ + column]; }
  double at(std::size_t row, std::size_t column) const { return values_[row * size_ + column]; }

 private:
  std::size_t size_;
  std::vector<double> values_;
};

struct Cut {
  double weight = 0;           // of the edges between the sides
  std::vector<int> near_side;  // ascending; holds vertex 0
  std::vector<int> far_side;   // ascending
};

// The cut of least weight into two non-empty sides. `weights` is symmetric, at least 2 x 2, not
// negative (infinity is allowed); its diagonal is ignored. Ties: every phase starts at vertex 0 and
// adds the vertex most tightly attached, the smallest id among equals (a merged vertex has its
// smallest member's); of equal cuts the one of the earliest phase stays. O(n^3).
Cut min_cut(const SquareMatrix& weights);

}  // namespace sluice
