#include "harness/pipeline/theory.h"

namespace sluice {

Theory flush_theory(int ranks) {
  return {.weight_versions = std::vector<int>(ranks, 1), .staleness = std::vector<int>(ranks, 0)};
}

double fill_drain_bubble(int ranks, int forwards) { return (ranks - 1.0) / (forwards + ranks - 1); }

double data_parallel_bubble(int ranks, int microbatches) {
  const int most = (microbatches + ranks - 1) / ranks;  // micro-batches of a rank
  return 1 - static_cast<double>(microbatches) / (static_cast<double>(most) * ranks);
}

}  // namespace sluice
