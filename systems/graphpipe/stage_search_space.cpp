#include "systems/graphpipe/stage_search_space.h"

#include <algorithm>

namespace sluice {

std::vector<int> StageSearchSpace::microbatches_per_op() const {
  std::vector<int> result;
  for (const StageConfig& config : configs)
    for (const int degree : degrees) {
      if (micro_batch_is_degree ? config.micro_batch != degree : config.micro_batch % degree != 0) continue;
      const int microbatches_per_op = config.micro_batch / degree;
      if (microbatches % microbatches_per_op == 0 && degree <= microbatches / microbatches_per_op)
        result.push_back(microbatches_per_op);
    }
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace sluice
