// What the ops of a record's timeline say: their kinds, the longest chain of ops that wait for one another, and what
// waits for its backward.
#pragma once

#include <string>
#include <vector>

#include "results/record.h"

namespace sluice {

struct TimelinePart {
  std::string kind;   // F, B, I, W, R, "optimizer step", "reduction", "gather", "communication"
  std::string micro;  // "" but of compute
  int stage = -1;
};

// What an op is drawn in, and the ink on it.
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

// "5I2" is I of micro-batch 2 in stage 5; "(5F1;2B0)", two ops that overlap, are two parts.
std::vector<TimelinePart> read_parts(const std::string& op);

// A gather, a reduction, a message: overlaps the compute of its rank.
bool moves_data(const TimelinePart& part);

// From the first op to the one that ends last: each begins when the one before it lets it. What lets an op begin is the
// op of its rank before it, and what makes its input: F the F of the stages before, B and I the backward of the stages
// behind (of the plan's edges; without them, of a chain) and their own F, W its I. Of these the one that ends last.
// Messages are no part of it: what passes on the way is the time between the ops that they join.
std::vector<std::size_t> critical_path(const Record& record);

struct HeldPoint {
  double seconds = 0;
  int held = 0;  // micro-batches, counted a stage: from here on
};
// Of every rank: forwards whose activations wait for B (for W, where the backward is in two halves). Empty where the
// timeline has no backward.
std::vector<std::vector<HeldPoint>> held_over_time(const Record& record);

struct TimeSpan {
  double begin = 0, end = 0;  // seconds of the record's timeline
  double seconds() const { return end - begin; }
};
// Which part of each timeline (none is empty) a figure with one time axis shows, so that all show equal work: one step
// of a synchronous system, whole. Of asynchronous systems and of inference a record holds the first batches only; they
// are shown for as long as the longest of those steps (without one: as the shortest of themselves), at most until the
// first of their ranks has no op left.
std::vector<TimeSpan> comparable_spans(const std::vector<const Record*>& records);

}  // namespace sluice
