// Which system to use: every system with its sensible options, micro-batches, and degrees of data and tensor
// parallelism, scored by the virtual clock.
#pragma once

#include <string>
#include <vector>

#include "harness/case/settings.h"
#include "harness/cli/evaluated_plan.h"

namespace sluice {

struct AdviceRequest {
  Entry entry;                    // of every candidate, without what is tried
  std::vector<int> microbatches;  // to try; empty: the workload's, and from one for every rank up
  std::vector<int> tensor;        // tensor-parallel degrees to try; empty: 1, 2, 4 and 8 as far as possible
  std::vector<const System*> systems;
  double seconds = 30;  // after which no further candidate is begun
};

// Where the time of an update goes, seconds: their sum is the update.
struct TimeSplit {
  double computing = 0;  // of the ranks that the system was given, on average; with the sums of shared layers
  double uneven = 0;     // how much more the busiest rank computes
  double waiting = 0;    // of the busiest rank for others: the pipe fills, drains, and orders bind; without messages
  double messages = 0;   // what messages and collectives add
  double update() const { return computing + uneven + waiting + messages; }
};

struct Candidate {
  const System* system = nullptr;
  Entry entry;  // with all of the request's ranks
  int count(const char* key) const { return entry.values.value(key, 1); }
  double samples_per_second = 0;  // 0: it has no plan or does not fit
  double update_seconds = 0, bubble = 0;
  Bytes peak;  // of the fullest rank
  std::int64_t micro_batch = 0;
  int ranks_used = 0, stages = 0;
  int updates = 1;                  // of the simulation
  int staleness = 0, versions = 1;  // of the rank that has most; updates, and weight tensors
  TimeSplit split;
  std::string refused;  // why it has no plan, or does not fit; "" if it has one that fits
  bool fits() const { return refused.empty(); }
};

struct Advice {
  std::vector<Candidate> candidates;  // all that were tried, the fastest first, then those that were refused
  std::vector<std::string> untried;   // systems of which some were not, because the time was over
};
// Throws InputError where the request itself is wrong.
Advice advise(const AdviceRequest& request);

// The options that differ from the system's defaults: "variant=v". Empty: all are the default.
std::string options_text(const Candidate& candidate);

// What costs `loser` most of what it takes longer than `winner` for the same samples: "waits for others 31 % of its
// time (12 %)".
std::string why_slower(const Candidate& loser, const Candidate& winner);

// The commands that show its plan, and run it without training: "sluice run -s zero_bubble -O variant=v -w vgg16
// --clock virtual -c flat:4 -n 4 -b 128 -m 16 --steps 12 --no-train". The run is as long as its pipe takes to fill.
std::string plan_line(const Candidate& candidate);
std::string run_line(const Candidate& candidate);

}  // namespace sluice
