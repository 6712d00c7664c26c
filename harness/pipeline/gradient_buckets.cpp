#include "harness/pipeline/gradient_buckets.h"

namespace sluice {

std::vector<std::size_t> gradient_bucket_ends(std::span<const Bytes> gradients, Bytes least) {
  std::vector<std::size_t> ends;
  Bytes open;
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    open += gradients[k];
    if (open < least && k + 1 < gradients.size()) continue;
    ends.push_back(k + 1);
    open = Bytes(0);
  }
  return ends;
}

}  // namespace sluice
