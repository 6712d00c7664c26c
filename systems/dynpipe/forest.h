// A regression forest: how many times as long a workload takes with others on its device, from features of both.
// CART trees that minimise the squared error, on bootstrap samples; the prediction is the trees' mean.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice {

// Rows of named features with what was measured.
struct ForestRows {
  std::vector<std::string> features;
  std::vector<std::vector<double>> x;  // per row, a value a feature
  std::vector<double> y;
};

struct ForestOptions {
  int trees = 500;
  int max_depth = 0;  // 0: no limit
  int min_leaf = 1;
  int max_features = 0;  // looked at for a split; 0: all
  bool bootstrap = true;
  std::uint64_t seed = 42;
};

class Forest {
 public:
  // Throws std::logic_error: no rows, or rows of unequal lengths.
  Forest(const ForestRows& rows, const ForestOptions& options);

  double predict(const std::vector<double>& x) const;
  // Features that the forest has and the map has not are 0.
  double predict(const std::map<std::string, double>& x) const;

 private:
  struct Node {
    int feature = -1;  // -1: a leaf
    double threshold = 0, value = 0;
    int left = -1, right = -1;  // x <= threshold: left
  };
  using Tree = std::vector<Node>;
  int grow(Tree& tree, const ForestRows& rows, std::vector<std::size_t>& sample, std::size_t begin, std::size_t end,
           int depth, const ForestOptions& options, std::uint64_t& random);

  std::vector<std::string> features_;
  std::vector<Tree> trees_;
};

// Rows of a JSON file of `sluice profile --co-run`, or of a CSV file of Gavel's published co-location slowdowns, whose
// rows are made to say the same: a job was seen to be this much slower with a third one, how much slower is another job
// with that one? Rows in which a job is more than 8 times slower are left out: it is starved there. Throws
// InputError.
ForestRows read_forest_rows(const std::string& file);

// The rows of both, with the features of both; a feature that a row does not have is 0. The features of `a` are first.
ForestRows joined_rows(const ForestRows& a, const ForestRows& b);

struct ForestSplit {
  ForestRows train, held_out;
};
struct ForestError {
  double mean_squared = 0, mean_absolute = 0;
  double mean_squared_of_mean = 0;  // of predicting the mean of the training rows
};
ForestError error_on(const Forest& forest, const ForestSplit& split);

}  // namespace sluice
