#include "harness/exec/torch/stage/rank_device.h"

namespace sluice {

int device_of_rank(std::size_t rank, std::size_t ranks, int devices) {
  const auto n = static_cast<std::size_t>(devices);
  return static_cast<int>(n >= ranks ? rank : rank * n / ranks);
}

}  // namespace sluice
