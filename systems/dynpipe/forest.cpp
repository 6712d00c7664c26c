#include "systems/dynpipe/forest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>

#include "harness/base/splitmix64.h"

namespace sluice {

namespace {

std::size_t below(std::uint64_t& state, std::size_t n) { return static_cast<std::size_t>(next_splitmix64(state) % n); }

struct Split {
  int feature = -1;
  double threshold = 0, error = std::numeric_limits<double>::infinity();
};

// The best threshold of one feature: the sum of squared errors on both sides, from running sums.
void look_at(int feature, const ForestRows& rows, std::span<std::size_t> sample, int min_leaf, Split& best) {
  const auto f = static_cast<std::size_t>(feature);
  std::ranges::sort(sample, [&](std::size_t a, std::size_t b) {
    return rows.x[a][f] != rows.x[b][f] ? rows.x[a][f] < rows.x[b][f] : a < b;
  });
  double right = 0, right_squares = 0, left = 0, left_squares = 0;
  for (const std::size_t r : sample) right += rows.y[r], right_squares += rows.y[r] * rows.y[r];
  const auto n = static_cast<int>(sample.size());
  for (int k = 1; k < n; ++k) {
    const std::size_t r = sample[k - 1];
    const double y = rows.y[r], a = rows.x[r][f], b = rows.x[sample[k]][f];
    left += y, left_squares += y * y, right -= y, right_squares -= y * y;
    if (a == b || k < min_leaf || n - k < min_leaf) continue;
    const double error = left_squares - left * left / k + right_squares - right * right / (n - k);
    // Sums in another order differ in their last bits: only a real gain replaces a lower feature or threshold.
    if (error < best.error - 1e-12 * (1 + std::abs(best.error)) || best.feature < 0)
      best = {feature, (a + b) / 2 < b ? (a + b) / 2 : a, error};
  }
}

}  // namespace

Forest::Forest(const ForestRows& rows, const ForestOptions& options) : features_(rows.features) {
  if (rows.x.empty() || rows.x.size() != rows.y.size()) throw std::logic_error("a forest needs rows");
  for (const auto& row : rows.x)
    if (row.size() != features_.size()) throw std::logic_error("a row of other features than the forest's");
  std::uint64_t random = options.seed;
  for (int t = 0; t < options.trees; ++t) {
    std::vector<std::size_t> sample(rows.x.size());
    if (options.bootstrap)
      for (std::size_t& r : sample) r = below(random, rows.x.size());
    else
      std::iota(sample.begin(), sample.end(), std::size_t{0});
    grow(trees_.emplace_back(), rows, sample, 0, sample.size(), 0, options, random);
  }
}

int Forest::grow(Tree& tree, const ForestRows& rows, std::vector<std::size_t>& sample, std::size_t begin,
                 std::size_t end, int depth, const ForestOptions& options, std::uint64_t& random) {
  const int at = static_cast<int>(tree.size());
  tree.emplace_back();
  const std::span part(sample.data() + begin, end - begin);
  double sum = 0;
  bool equal = true;
  for (const std::size_t r : part) {
    sum += rows.y[r];
    equal = equal && rows.y[r] == rows.y[part.front()];
  }
  tree.back().value = sum / static_cast<double>(part.size());
  const bool deep = options.max_depth > 0 && depth >= options.max_depth;
  if (deep || equal || part.size() < 2 * static_cast<std::size_t>(options.min_leaf)) return at;
  std::vector<int> features(features_.size());
  std::iota(features.begin(), features.end(), 0);
  if (options.max_features > 0 && options.max_features < static_cast<int>(features.size())) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(options.max_features); ++k)
      std::swap(features[k], features[k + below(random, features.size() - k)]);
    features.resize(options.max_features);
    std::ranges::sort(features);
  }
  Split best;
  for (const int feature : features) look_at(feature, rows, part, options.min_leaf, best);
  if (best.feature < 0) return at;
  const auto f = static_cast<std::size_t>(best.feature);
  const auto middle =
      std::ranges::stable_partition(part, [&](std::size_t r) { return rows.x[r][f] <= best.threshold; });
  const std::size_t cut = begin + static_cast<std::size_t>(middle.begin() - part.begin());
  const int left = grow(tree, rows, sample, begin, cut, depth + 1, options, random);
  const int right = grow(tree, rows, sample, cut, end, depth + 1, options, random);
  Node& node = tree[at];
  node = {best.feature, best.threshold, node.value, left, right};
  return at;
}

double Forest::predict(const std::vector<double>& x) const {
  double sum = 0;
  for (const Tree& tree : trees_) {
    const Node* node = &tree.front();
    while (node->feature >= 0)
      node = &tree[static_cast<std::size_t>(x[node->feature] <= node->threshold ? node->left : node->right)];
    sum += node->value;
  }
  return sum / static_cast<double>(trees_.size());
}

double Forest::predict(const std::map<std::string, double>& x) const {
  std::vector<double> row;
  for (const std::string& name : features_) {
    const auto found = x.find(name);
    row.push_back(found == x.end() ? 0.0 : found->second);
  }
  return predict(row);
}

ForestRows joined_rows(const ForestRows& a, const ForestRows& b) {
  ForestRows all = a;
  std::vector<std::size_t> place;
  for (const std::string& name : b.features) {
    const auto found = std::ranges::find(all.features, name);
    place.push_back(static_cast<std::size_t>(found - all.features.begin()));
    if (found == all.features.end()) all.features.push_back(name);
  }
  for (std::vector<double>& row : all.x) row.resize(all.features.size(), 0.0);
  for (const std::vector<double>& row : b.x) {
    std::vector<double>& x = all.x.emplace_back(all.features.size(), 0.0);
    for (std::size_t f = 0; f < row.size(); ++f) x[place[f]] = row[f];
  }
  all.y.insert(all.y.end(), b.y.begin(), b.y.end());
  return all;
}

ForestError error_on(const Forest& forest, const ForestSplit& split) {
  ForestError error;
  const auto n = static_cast<double>(split.held_out.y.size());
  const double mean = std::accumulate(split.train.y.begin(), split.train.y.end(), 0.0) /
                      static_cast<double>(std::max<std::size_t>(1, split.train.y.size()));
  for (std::size_t k = 0; k < split.held_out.y.size(); ++k) {
    const double off = forest.predict(split.held_out.x[k]) - split.held_out.y[k], of_mean = mean - split.held_out.y[k];
    error.mean_squared += off * off / n;
    error.mean_absolute += std::abs(off) / n;
    error.mean_squared_of_mean += of_mean * of_mean / n;
  }
  return error;
}

}  // namespace sluice
