// Cutting a chain of layers into contiguous stages: the exact dynamic program that minimises the time of the slowest
// stage (compute and, optionally, the message it receives). O(stages * layers^2).
#pragma once

#include <functional>
#include <vector>

#include "harness/pipeline/system.h"

namespace sluice {

// stage_seconds(first, last, stage): time of layers [first, last) as stage number `stage`; infinite: does not fit.
// Returns the first layer of every stage, plus `layers` at the end: size stages + 1. Every stage gets at least one
// layer; ties keep the earliest cut. Throws InputError if stages > layers or every cut is infinite.
std::vector<int> partition_chain(int layers, int stages, const std::function<double(int, int, int)>& stage_seconds,
                                 double* slowest = nullptr);

// The same for 1, 2, ..., max_stages <= layers stages, from one table. seconds: finite, whatever the stage.
std::vector<std::vector<int>> partitions_of_chain(int layers, int max_stages,
                                                  const std::function<double(int first, int last)>& seconds);

// One contiguous stage for every entry of `stage_devices`, with minimal time of the slowest stage. A stage takes F + I
// + W on the slowest of its devices and, with Problem::cuts_count_messages, its messages from the previous stage: a
// micro-batch's tensors that cross the cut, and their gradients on the way back, over the slowest path between the two.
// Without messages a cut may split a residual block, so that two tensors cross instead of one. Losses stay with the
// layer before them. Cuts are only where Problem::cut_before allows them. Given stages (Problem::first_layers) replace
// all this. Throws InputError at `where` if the model has too few layers or the cluster too few devices, and at
// "stages" if the number of given stages is wrong, or one begins with a layer that belongs to the previous one
// (layer_groups.h).
Plan chain_on(const Problem& problem, const std::vector<std::vector<DeviceId>>& stage_devices,
              const std::string& where);

// One stage per device, in device order.
Plan balanced_chain(const Problem& problem, int stages, const std::string& where);

// `chunks` stages per device (virtual stages): problem.devices * chunks stages.
Plan chunked_chain(const Problem& problem, int chunks, ChunkPlacement placement, const std::string& where);

// Two pipelines in opposite directions, each with `chunks` stages per device in waves: a stage on device d (replica 0)
// is also on p - 1 - d (replica 1). replica_of[i]: the one that runs micro-batch i.
Plan bidirectional_chain(const Problem& problem, const std::vector<std::size_t>& replica_of, const std::string& where,
                         int chunks = 1);

}  // namespace sluice
