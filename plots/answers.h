// The first lines of a report on a comparison: which system wins, by how much and with which confidence, its quality
// and memory, and what did not finish. Systems are compared by their best rows; a system that misses the target in all
// its seeds never wins. Synchronous and asynchronous systems are ranked separately, because their numerics differ.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"

namespace sluice {

enum class Confidence {
  none,     // no other system
  sure,     // by five seeds, or beyond the model's error
  likely,   // by the steps of fewer seeds
  tie,      // on the virtual clock, within the model's error
  unsure,   // seeds or intervals overlap
  unknown,  // too few seeds or steps
};

struct Win {
  const ComparisonRow* row = nullptr;  // null: no system to rank
  std::string name;                    // "Zero bubble variant=h1"
  std::string value;                   // "1,234 samples/s"
  std::string lead;                    // "4.6 % ahead of GPipe", "tie with GPipe"; "" without a second
  Confidence confidence = Confidence::none;
  std::string why;  // reason for the confidence: "the ranges of five or more seeds do not touch"
};

// Runs with one outcome: "out of memory", with the reason of the first.
struct Unfinished {
  std::string outcome;
  std::vector<std::string> names;
  std::string reason;
};

// For the synchronous or for the asynchronous systems of a comparison.
struct Answer {
  bool asynchronous = false;
  Win fastest;  // by throughput
  // Systems that are faster, but miss the target in all their seeds: "PipeDream, 2,345 samples/s: misses the target in
  // 5 of 5 seeds". If no system reaches it: the fastest of all.
  std::vector<std::string> faster_but_missed;
  std::string quality;          // of the fastest, median: "final accuracy 0.9100"; "" if not measured
  std::string reached;          // by the fastest: "0.85 reached in 4 of 5 seeds"; "" without a target
  std::string peak_memory;      // of the fastest: "1.2 GiB on its fullest rank"; "" unknown
  std::string over_one_device;  // of the fastest: "2.03× the single device", "the single device: out of memory"
  Win soonest;                  // by the time to the target; empty without one
  Win min_memory;               // by the peak of the fullest rank
  std::vector<Unfinished> unfinished;
};

// One or two answers: the synchronous systems first, if there are both. The single device is ranked with the
// synchronous ones, and with the asynchronous ones if there are no others. `c` must outlive them.
std::vector<Answer> answers_of(const Comparison& c);

// How often each system is the fastest, in descending order: "GPipe in 3 of 7, Single device in 2; tied in 1; not sure
// in 1". For the asynchronous systems or for the others; not where there is only one of them.
std::string wins_text(std::span<const Comparison> comparisons, bool asynchronous);

}  // namespace sluice
