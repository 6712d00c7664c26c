// DynaPipe's order of the ops of a chain with a stage on every rank.
//
// Time goes in cycles. Every stage has a queue of micro-batches whose forward can run and one of those whose backward
// can. In a cycle it runs the head of its queue of backwards, then the head of its queue of forwards; what it has run
// enters the next queue at the end of the cycle. Messages take cycles of their own in between, so that they cost none.
// Only the order is kept: ranks run it without waiting for cycles. p = 2, equal micro-batches, a column for a cycle:
//
//   stage 0  F0  F1  F2     B0 F3  B1     B2     B3
//   stage 1      F0  B0 F1  B1 F2  B2 F3  B3
//
// Without a limit stage s runs 2 (p - 1 - s) + 1 forwards before its first backward and holds 2 (p - s) - 1
// micro-batches.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "harness/pipeline/schedule.h"

namespace sluice {

// What stages hold between the F and the B of a micro-batch, and how much a stage may hold: bytes or samples. A forward
// that would pass the limit is put off.
struct HoldingLimit {
  std::vector<std::vector<double>> held;  // [stage][micro-batch]
  std::vector<double> limit;              // per stage
};

// entering: all micro-batches, in the order in which they enter stage 0. limit: may be null. nullopt: a micro-batch by
// itself passes a limit.
std::optional<StageOrders> cyclic_order(int stages, std::span<const int> entering, const HoldingLimit* limit = nullptr);

// Whether no stage holds more than the limit at a time.
bool keeps(const StageOrders& orders, const HoldingLimit& limit);

}  // namespace sluice
