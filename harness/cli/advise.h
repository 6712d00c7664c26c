// Advice on systems: every system with its sensible options, micro-batches, and degrees of data and tensor parallelism,
// ranked by the virtual clock.
#pragma once

#include <string>
#include <vector>

#include "harness/case/settings.h"
#include "harness/cli/evaluated_plan.h"

namespace sluice {

struct AdviceRequest {
  Entry entry;                    // shared by all candidates, without the varied settings
  std::vector<int> microbatches;  // to try; empty: the workload's, and numbers from the number of ranks up
  std::vector<int> tensor;        // tensor-parallel degrees to try; empty: 1, 2, 4 and 8 as far as possible
  std::vector<const System*> systems;
  // One plan for all systems: of the pipelines that the search without it finds, the one on which 1F1B is fastest.
  bool same_plan = false;
  double seconds = 30;  // after which no further candidate begins
};

// The parts of an update's time, seconds: their sum is the update.
struct TimeSplit {
  double computing = 0;  // mean over the devices that the system was given; includes tensor-parallel sums
  double idle = 0;       // additional compute because the plan leaves devices out
  double uneven = 0;     // additional compute of the busiest rank over the mean of the used ones
  double waiting = 0;    // of the busiest rank for others, without messages: the pipe fills, drains, or orders wait
  double messages = 0;   // added by messages and collectives
  double update() const { return computing + idle + uneven + waiting + messages; }
};

// The tables of the advice, one for each kind of system, whose numerics differ. Asynchronous ones update after the same
// number of samples as synchronous ones, or after every micro-batch, as in the papers.
enum class AdviceKind { synchronous, after_the_batch, after_every_micro_batch };

struct Candidate {
  const System* system = nullptr;
  Entry entry;  // with all of the request's ranks
  int count(const char* key) const { return entry.values.value(key, 1); }
  double samples_per_second = 0;  // 0: it has no plan or does not fit
  double update_seconds = 0, bubble = 0;
  std::optional<ModelRates> rates;  // none: a published profile, or samples_per_second is 0
  Bytes peak;                       // of the fullest rank
  Bytes needed, available;          // if it does not fit: of the rank that lacks most
  std::int64_t micro_batch = 0;
  int ranks_used = 0, stages = 0;
  std::string cost_source;          // CostGraph::source
  Bytes gradient_buckets;           // RunCase::gradient_buckets; 0 if no stage has replicas
  std::vector<int> first_layers;    // of the stages from the second on; empty: not a chain with one stage per device
  bool replicated = false;          // some stage has
  bool recomputes = false;          // some stage recomputes its activations
  int updates = 1;                  // of the simulation
  int staleness = 0, versions = 1;  // max over the ranks; updates, and weight tensors
  TimeSplit split;
  std::string rejected;  // why it has no plan, or does not fit; "" if it fits
  AdviceKind kind() const;
  bool fits() const { return rejected.empty(); }
};

struct Advice {
  std::vector<Candidate> candidates;  // all that were tried, the fastest first, then the rejected ones
  // Systems without a tried candidate when the time was over, and systems with untried candidates.
  std::vector<std::string> untried, searched_in_part;
  // With same_plan: "2 pipelines of 4 stages, which begin with layers 0,7,15,22: the cut of gpipe, one_f_one_b".
  std::string plan;
};
// Throws InputError if the request is wrong, and with same_plan if there is no such plan. Systems that only infer have
// no candidates.
Advice advise(const AdviceRequest& request, ProfileStore& profiles);

// The candidates with default options, in the order in which they begin: first the most promising one of every system,
// so that a search that runs out of time has compared all systems.
std::vector<Candidate> first_candidates(const AdviceRequest& request);

// The best candidate of a system.
struct AdviceRow {
  const Candidate* best = nullptr;
  int place = 1;  // among the synchronous systems, or the asynchronous ones (shared_places())
  bool shared = false;
  std::string place_text() const { return std::to_string(place) + (shared ? "=" : ""); }
};
// The rows of a kind of system, for systems with a candidate that fits: the fastest first, except the first row, whose
// plan is advised: the simplest that shares the first place (one device, then data parallelism, then others).
std::vector<AdviceRow> rows_of(const Advice& advice, AdviceKind kind);
// "data_parallel and dapple share the first place; the plan below is data_parallel's, the simplest: data parallelism
// without a pipeline". Empty: one row has the first place.
std::string shared_first_place(const std::vector<AdviceRow>& rows);

// "its plan is data parallelism": if a pipeline system has made one stage. Empty: it has made a pipeline, or its name
// says it.
std::string plan_kind(const Candidate& candidate);

// "out of time after 30 s (--seconds): 2 systems not searched (piper, spp); 5 systems searched in part" and a line
// break. Empty: the search was complete.
std::string out_of_time(const Advice& advice, double seconds);

// The options that differ from the system's defaults: "variant=v". Empty: none.
std::string options_text(const Candidate& candidate);

// The largest cause of `loser`'s additional time over `winner` for the same samples: "waits for others 31 % of its time
// (12 %)", "uses 1 of 16 devices". Within the model's error: "tie". If it does not fit: why not.
std::string why_slower(const Candidate& loser, const Candidate& winner);

// The commands that show its plan, and run it without training: "sluice run -s zero_bubble -O variant=v -w vgg16
// --clock virtual -c flat:4 -n 4 -b 128 -m 16 --steps 12 --no-train". The run is long enough to fill its pipe.
std::string plan_line(const Candidate& candidate);
std::string run_line(const Candidate& candidate);

}  // namespace sluice
