#include "baselines/dapple/latency_model.h"

#include <algorithm>
#include <limits>

namespace sluice {

PipelineLatency pipeline_latency(std::span<const LatencyStage> stages, int microbatches) {
  const int last = static_cast<int>(stages.size()) - 1;
  const auto at = [&](int s) -> const LatencyStage& { return stages[s]; };
  const auto steady = [&](int s) { return (microbatches - 1) * (at(s).forward + at(s).backward); };
  PipelineLatency result{.pivot = last};
  double between = 0;  // F + B of the stages between s and the pivot
  for (int s = last - 1; s >= 0; --s) {
    if (steady(s) > steady(result.pivot) + between) {
      result.pivot = s;
      between = 0;
    } else {
      between += at(s).forward + at(s).backward;
    }
  }
  for (int s = 0; s <= result.pivot; ++s) result.warm_up += at(s).forward;
  result.steady = steady(result.pivot);
  result.ending = -std::numeric_limits<double>::infinity();
  double backward = 0;
  for (int s = result.pivot; s >= 0; --s) {
    backward += at(s).backward;
    result.ending = std::max(result.ending, at(s).all_reduce + backward);
  }
  backward = 0;
  for (int s = result.pivot + 1; s <= last; ++s) {
    backward += at(s - 1).backward;
    result.ending = std::max(result.ending, at(s).all_reduce - backward);
  }
  result.seconds = result.warm_up + result.steady + result.ending;
  return result;
}

}  // namespace sluice
