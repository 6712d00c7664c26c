// The ops of a record's timeline: their kinds, the critical path, and the activations that wait for their backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/record.h"

namespace sluice {

struct TimelinePart {
  std::string kind;   // F, B, I, W, R, "optimizer step", "reduction", "gather", "communication"
  std::string micro;  // "" except for compute
  int stage = -1;
};

// Fill and text colour of an op.
struct OpLook {
  const char *name, *title, *color, *ink;
};
inline constexpr OpLook kOpKinds[] = {{"F", "forward", "#4c78a8", "white"},
                                      {"B", "backward", "#54a24b", "white"},
                                      {"I", "input gradient", "#72b7b2", "#111"},
                                      {"W", "weight gradient", "#f2c14e", "#111"},
                                      {"R", "recomputation", "#9ecae9", "#111"},
                                      {"gather", "gather", "#e45756", "white"},
                                      {"reduction", "reduction", "#b279a2", "white"},
                                      {"communication", "communication", "#9d755d", "white"},
                                      {"optimizer step", "optimizer step", "#555555", "white"},
                                      {"idle", "idle", "#ececec", "#111"}};
const OpLook& op_kind(const std::string& name);  // a TimelinePart's kind

// "5I2" is I of micro-batch 2 in stage 5; "(5F1;2B0)", an overlapped pair, has two parts.
std::vector<TimelinePart> read_parts(const std::string& op);

struct TimelineMessage {
  bool forward = false;  // of activations
  int from = 0, to = 0;  // stages
  std::string micro;
};
// "send_gradient 1->0 2": of micro-batch 2, from stage 1 to stage 0. nullopt: not along an edge of the stages.
std::optional<TimelineMessage> read_message(const std::string& op);

// A gather, a reduction, a message: overlaps the compute of its rank.
bool moves_data(const TimelinePart& part);

// The critical path, from the first op to the one that ends last. An op depends on the previous op of its rank and on
// the ops that make its input: F on the F of the preceding stages, B and I on the backward of the following stages (by
// the plan's edges; without them, of a chain) and on their own F, W on its I. The path takes the one that ends last.
// Messages are not part of it: they are the time between the ops that they connect.
std::vector<std::size_t> critical_path(const Record& record);

struct HeldPoint {
  double seconds = 0;
  int held = 0;  // micro-batches, counted per stage: from here on
};
// Per rank: forwards whose activations wait for B (for W, if the backward is split). Empty if the timeline has no
// backward.
std::vector<std::vector<HeldPoint>> held_over_time(const Record& record);

struct TimeSpan {
  double begin = 0, end = 0;  // seconds of the record's timeline
  double seconds() const { return end - begin; }
};
// Which part of each timeline (none is empty) a figure with one time axis shows, so that all show equal work: one whole
// step of a synchronous system. For asynchronous systems and inference, a record holds only the first batches; they are
// shown for as long as the longest of those steps (without one: as the shortest of themselves), at most until the first
// of their ranks has no op left.
std::vector<TimeSpan> comparable_spans(const std::vector<const Record*>& records);

}  // namespace sluice
