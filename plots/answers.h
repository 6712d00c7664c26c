// What a report says first of a comparison: which system wins, by how much, how sure that is, at what quality and
// memory, and what did not finish. Systems are compared by their best rows; a system that misses the target in all its
// seeds wins nothing. Synchronous and asynchronous systems race apart, because their numerics differ.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"

namespace sluice {

enum class Confidence {
  none,     // nothing to compare with
  sure,     // by five seeds, or beyond the model's error
  likely,   // by the steps of fewer seeds
  tie,      // on the virtual clock, within the model's error
  unsure,   // seeds or intervals overlap
  unknown,  // too few seeds or steps
};

struct Win {
  const ComparisonRow* row = nullptr;  // null: nothing to rank
  std::string name;                    // "Zero bubble variant=h1"
  std::string value;                   // "1,234 samples/s"
  std::string lead;                    // "4.6 % ahead of GPipe", "tie with GPipe"; "" without a second
  Confidence confidence = Confidence::none;
  std::string why;  // of the confidence: "the ranges of five or more seeds do not touch"
};

// Runs of one outcome: "out of memory", of the first the reason.
struct Unfinished {
  std::string outcome;
  std::vector<std::string> names;
  std::string reason;
};

// Of the synchronous or of the asynchronous systems of a comparison.
struct Answer {
  bool asynchronous = false;
  Win fastest;  // by throughput
  // Systems that are faster, but miss the target in all their seeds: "PipeDream, 2,345 samples/s: misses the target in
  // 5 of 5 seeds". Where no system reaches it: the fastest of all.
  std::vector<std::string> faster_but_missed;
  std::string quality;          // of the fastest, median: "final accuracy 0.9100"; "" unmeasured
  std::string reached;          // by the fastest: "0.85 reached in 4 of 5 seeds"; "" without a target
  std::string peak_memory;      // of the fastest: "1.2 GiB on its fullest rank"; "" unknown
  std::string over_one_device;  // of the fastest: "2.03× the single device", "the single device: out of memory"
  Win soonest;                  // by the time to the target; empty without one
  Win min_memory;               // by the peak of the fullest rank
  std::vector<Unfinished> unfinished;
};

// One answer, or two: the synchronous systems first, where there are both. The single device races with the
// synchronous ones, and with the asynchronous ones where it is the only other. `c` must outlive them.
std::vector<Answer> answers_of(const Comparison& c);

// How often each system is the fastest, most often first: "GPipe in 3 of 7, Single device in 2; tied in 1; not sure in
// 1". Of the asynchronous systems or of the others.
std::string wins_text(std::span<const Comparison> comparisons, bool asynchronous);

}  // namespace sluice
