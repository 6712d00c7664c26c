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
  // One plan for all: of the pipelines that the search without it finds, that on which 1F1B is fastest.
  bool same_plan = false;
  double seconds = 30;  // after which no further candidate is begun
};

// Where the time of an update goes, seconds: their sum is the update.
struct TimeSplit {
  double computing = 0;  // mean over the devices that the system was given; with tensor-parallel sums
  double idle = 0;       // how much less that would be on more devices: those that the plan leaves out
  double uneven = 0;     // how much more the busiest rank computes than the mean of those that the plan uses
  double waiting = 0;    // of the busiest rank for others: the pipe fills, drains, and orders bind; without messages
  double messages = 0;   // what messages and collectives add
  double update() const { return computing + idle + uneven + waiting + messages; }
};

// What a table of the advice holds: systems of different kinds compute different numbers. Asynchronous ones update
// after as many samples as synchronous ones, or after every micro-batch, as in the papers.
enum class AdviceKind { synchronous, after_the_batch, after_every_micro_batch };

struct Candidate {
  const System* system = nullptr;
  Entry entry;  // with all of the request's ranks
  int count(const char* key) const { return entry.values.value(key, 1); }
  double samples_per_second = 0;  // 0: it has no plan or does not fit
  double update_seconds = 0, bubble = 0;
  std::optional<ModelRates> rates;  // none: a published profile, or samples_per_second is 0
  Bytes peak;                       // of the fullest rank
  Bytes needed, available;          // where it does not fit: of the rank that lacks most
  std::int64_t micro_batch = 0;
  int ranks_used = 0, stages = 0;
  std::string cost_source;          // CostGraph::source
  Bytes gradient_buckets;           // RunCase::gradient_buckets; 0 also where no stage has replicas
  std::vector<int> first_layers;    // of the stages from the second on; empty: no chain of a stage per device
  bool replicated = false;          // some stage has
  bool recomputes = false;          // some stage recomputes its activations
  int updates = 1;                  // of the simulation
  int staleness = 0, versions = 1;  // of the rank that has most; updates, and weight tensors
  TimeSplit split;
  std::string rejected;  // why it has no plan, or does not fit; "" if it has one that fits
  AdviceKind kind() const;
  bool fits() const { return rejected.empty(); }
};

struct Advice {
  std::vector<Candidate> candidates;  // all that were tried, the fastest first, then those that were rejected
  // Systems of which the time was over before any candidate was tried, and before all of them were.
  std::vector<std::string> untried, searched_in_part;
  // With same_plan: "2 pipelines of 4 stages, which begin with layers 0,7,15,22: the cut of gpipe, one_f_one_b".
  std::string plan;
};
// Throws InputError where the request itself is wrong, and with same_plan where there is none. Systems that only infer
// have no candidates.
Advice advise(const AdviceRequest& request, ProfileStore& profiles);

// The candidates with default options, in the order in which they are begun: the most promising one of every system
// first, so that a search that runs out of time has compared all systems.
std::vector<Candidate> first_candidates(const AdviceRequest& request);

// The best candidate of a system.
struct AdviceRow {
  const Candidate* best = nullptr;
  int place = 1;  // among the synchronous systems, or the asynchronous ones (shared_places())
  bool shared = false;
  std::string place_text() const { return std::to_string(place) + (shared ? "=" : ""); }
};
// Of the systems of a kind that have a candidate which fits: the fastest first, except the first row, whose plan is
// advised: of those that share the first place the simplest, one device before data parallelism before anything else.
std::vector<AdviceRow> rows_of(const Advice& advice, AdviceKind kind);
// "data_parallel and dapple share the first place; the plan below is data_parallel's, the simplest: data parallelism
// without a pipeline". Empty: one row has the first place.
std::string shared_first_place(const std::vector<AdviceRow>& rows);

// "its plan is data parallelism": where a system for pipelines has made one stage. Empty: it has made a pipeline, or
// its name says it.
std::string plan_kind(const Candidate& candidate);

// "out of time after 30 s (--seconds): 2 systems not searched (piper, spp); 5 systems searched in part" and a line
// break. Empty: all was searched.
std::string out_of_time(const Advice& advice, double seconds);

// The options that differ from the system's defaults: "variant=v". Empty: all are the default.
std::string options_text(const Candidate& candidate);

// What costs `loser` most of what it takes longer than `winner` for the same samples: "waits for others 31 % of its
// time (12 %)", "uses 1 of 16 devices". Within the model's error of it: "tie". Of one that does not fit: why not.
std::string why_slower(const Candidate& loser, const Candidate& winner);

// The commands that show its plan, and run it without training: "sluice run -s zero_bubble -O variant=v -w vgg16
// --clock virtual -c flat:4 -n 4 -b 128 -m 16 --steps 12 --no-train". The run is as long as its pipe takes to fill.
std::string plan_line(const Candidate& candidate);
std::string run_line(const Candidate& candidate);

}  // namespace sluice
