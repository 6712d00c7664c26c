// What a report says first of a comparison: which system wins, by how much, how sure that is, and what did not finish.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"

namespace sluice {

struct Win {
  const ComparisonRow* row = nullptr;  // null: nothing to rank
  std::string value;                   // "1,234 samples/s"
  std::string lead;                    // "4.6 % ahead of gpipe"; "" without a second
  std::string sure;                    // "sure: the ranges of 5 and 5 seeds do not touch"
};

// Runs of one outcome: "out of memory", of the first the reason.
struct Unfinished {
  std::string outcome;
  std::vector<std::string> labels;
  std::string reason;
};

struct Answer {
  Win fastest;  // by throughput
  Win soonest;  // by the time to the target; empty without one
  Win leanest;  // by the peak of the fullest rank
  std::vector<Unfinished> unfinished;
};

// `c` must outlive it.
Answer answer_of(const Comparison& c);

// How often each system alone is the fastest, most often first: "gpipe in 3 of 7, single_device in 2; as fast as one
// another are systems in 1; not sure in 1".
std::string wins_text(std::span<const Comparison> comparisons);

}  // namespace sluice
