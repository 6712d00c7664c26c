// AutoPipe's planner (Liu et al., CLUSTER 2022), as its authors released it in Merak. A cut is timed as 1F1B with two
// micro-batches for every stage, without messages. Its critical stage is the last one that never waits in the steady
// phase: from its first backward to its last forward. The search begins with the cut whose slowest stage (F + B) is
// fastest and goes on breadth-first from every cut to two more:
//   front  the critical stage gives its first block to the stages before it, which are cut anew
//   back   it gives its last block to the next stage; it and those before it are cut anew. Taken where the critical
//          stage is not a later one then
// Stages are cut anew by the dynamic program of the first cut. A cut whose first stage is critical leads to no other.
//
// Where it departs: the released code also moves blocks between the stages behind the critical one, by a rule of its
// own, which is left out; its times of the warm-up are without waiting, ours are those of the order. Where every stage
// waits, the one that waits least is critical.
//
// It finds the best cut of 295 of 300 random chains of 6 to 10 blocks on 2 to 5 devices (the test's), and is at worst
// 4 % slower than it; the first cut is the best one of 193, and at worst 11 % slower.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/plan/search.h"

namespace sluice {

struct BlockSeconds {  // of one micro-batch at speed 1
  double forward = 0, backward = 0;
};

struct AutoPipeCut {
  std::vector<int> starts;  // the first block of every stage, then the number of blocks
  double seconds = 0;       // of 1F1B with two micro-batches for every stage
  int critical = 0;         // stage
};

struct AutoPipeResult {
  std::vector<AutoPipeCut> kept;  // the first cut, then the fastest one of every critical stage that was come across
  std::int64_t states = 0;        // cuts that were timed
  bool complete = true;
};

AutoPipeCut timed_cut(std::span<const BlockSeconds> blocks, std::span<const double> speeds, std::vector<int> starts);

// speeds: of every stage's device. Throws InputError where there are more stages than blocks. Limits: seconds.
AutoPipeResult autopipe_search(std::span<const BlockSeconds> blocks, std::span<const double> speeds,
                               const SearchLimits& limits = {});

}  // namespace sluice
