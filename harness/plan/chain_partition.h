// Cutting a chain of layers into contiguous stages: the exact dynamic program that minimises the
// time of the slowest stage (compute and, where asked, the message it receives). O(stages *
// layers^2).
#pragma once

#include <functional>
#include <vector>

#include "harness/core/system.h"

namespace sluice {

// stage_seconds(first, last, stage): time of layers [first, last) as stage number `stage`.
// Returns the first layer of every stage, plus `layers` at the end: size stages + 1. Every stage
// gets at least one layer; ties keep the earliest cut. Throws InputError if stages > layers or
// every cut takes for ever (an infinite stage_seconds: does not fit).
std::vector<int> partition_chain(int layers, int stages,
                                 const std::function<double(int, int, int)>& stage_seconds,
                                 double* slowest = nullptr);

// One stage per device, in device order, balanced by F + I + W on each device's speed. Losses stay
// with the layer before them. `where` is for errors.
Plan balanced_chain(const Problem& problem, int stages, const std::string& where);

}  // namespace sluice
