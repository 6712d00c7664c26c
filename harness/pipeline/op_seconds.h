#pragma once

#include "harness/pipeline/plan.h"
#include "harness/pipeline/schedule.h"

namespace sluice {

// Seconds of a single op of this kind on a stage.
inline Seconds seconds_of(const StageCost& cost, OpKind kind) {
  switch (kind) {
    case OpKind::forward:
      return cost.forward;
    case OpKind::input_gradient:
      return cost.input_gradient;
    case OpKind::weight_gradient:
      return cost.weight_gradient;
    case OpKind::backward:
      break;
  }
  return cost.input_gradient + cost.weight_gradient;
}

}  // namespace sluice
