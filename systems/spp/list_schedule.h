// SPP's pipeline execution (Luo et al., INFOCOM 2022, arXiv 2204.10562): in which order every
// stage, and every channel between two stages, takes the micro-batches' blocks. With S stages a
// micro-batch passes, in turn, J = 4 S - 3 blocks:
//
//   F0, down 0, F1, down 1, ..., F(S-1) B(S-1), up S-2, B(S-2), ..., up 0, B0
//
// where the last stage's forward and backward are one block. Block j of micro-batch m has the key
// m + j. Rule strict runs each resource's blocks by key, the older micro-batch first among equals,
// and never overtakes: all that a block waits for has a key one less, so the order has no deadlock,
// and the blocks of one key take at most C, the most any resource spends on a micro-batch:
// makespan <= (M + 4 S - 4) C + the longest all-reduce.
#pragma once

#include <vector>

#include "harness/pipeline/schedule.h"

namespace sluice {

// Seconds. A channel is the connection from stage s to s + 1, in both directions.
struct PipelineTimes {
  std::vector<double> forward, backward;                  // [S], of one micro-batch
  std::vector<double> all_reduce;                         // [S], once, after the stage's last backward
  std::vector<double> forward_channel, backward_channel;  // [S - 1], of one micro-batch
};

struct ListScheduleOptions {
  enum class Rule {
    strict,  // by key, and wait for it
    ready,   // of the blocks that could run, the one of least key
  } rule = Rule::strict;
  bool duplex = false;     // a channel's two directions do not wait for each other
  bool merge_last = true;  // false: the last stage's F and B are two blocks, J = 4 S - 2
};

struct ListBlock {
  enum class Kind { forward, backward, forward_and_backward, down, up } kind;
  int place;  // stage, or channel for down and up
  int micro;
  double start, end;
};

struct ListSchedule {
  std::vector<ListBlock> blocks;  // in an order that keeps every dependency
  std::vector<double> stage_end;  // of its last backward
  double makespan = 0;            // the latest stage_end + all_reduce
};

ListSchedule list_schedule(const PipelineTimes& times, int microbatches, const ListScheduleOptions& options = {});

// Per stage, its F and B in the order of `blocks`, each of which stands for a round of `round`
// micro-batches, one after another: round 0 for the first ones, the last for those left of
// `microbatches`. Where replicas take whole micro-batches, a round is what they take side by side.
StageOrders stage_orders(const ListSchedule& schedule, int microbatches, int round = 1);

// The most that one resource spends on one micro-batch, seconds: a stage on F + B, a channel on
// both of its transfers. Without the all-reduces.
double busiest_seconds(const PipelineTimes& times);

// What the strict rule never exceeds: (M + 4 S - 4) C + the longest all-reduce.
double list_schedule_bound(const PipelineTimes& times, int microbatches);

// How many forwards of a stage precede its first backward under the strict rule, given enough
// micro-batches: 4 (S - 1 - s), one more if the last stage is not merged.
int list_schedule_depth(int stages, int stage, bool merge_last);

}  // namespace sluice
