// The parts of a record (record.h): what was run, planned, promised, observed and found. part_fields.h has their form
// in a line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/model/interference.h"
#include "harness/pipeline/optimizer.h"
#include "harness/pipeline/theory.h"
#include "results/record_choices.h"

namespace sluice {

class Json;

struct WorkloadFacts {
  std::string title = {};
  std::string metric = "metric";  // the evaluation metric's name
  MetricDirection metric_direction = MetricDirection::up;
  std::string dataset = {}, source = {};
  std::int64_t parameters = 0;
  std::int64_t epochs = 0, steps = 0;  // planned length of the run: one of them, the other 0
  std::optional<double> target = {};   // of the metric, for this number of epochs
  std::optional<double> single_device_value = {};
};

// The basis of tokens/s, TFLOP/s and MFU (harness/model/training_work.h).
struct ModelWork {
  std::optional<std::int64_t> tokens = {};  // per sample; none: no tokens
  double flop = 0;                          // model FLOP per sample
  int devices = 1;                          // given to the run, whether used or not
  std::optional<double> peak_flops = {};    // sum over these devices, FLOP/s at the run's precision; none: unknown
};

// The search of a learning rate.
struct Tuning {
  struct Candidate {
    double learning_rate = 0;
    std::optional<double> value = {};           // of the criterion, mean over the seeds; none: the candidate cannot win
    RecordOutcome outcome = RecordOutcome::ok;  // of the seeds, the first that is not ok
    std::string digest = {};                    // of the first seed's record
    int round = 0;
  };
  struct Round {
    std::int64_t epochs = 0, steps = 0;  // of a candidate: one of them, the other 0
    int keep = 0;                        // rates that went on to the next round
  };
  std::vector<double> grid = {};          // rates
  std::string criterion = {};             // "accuracy on the validation part"
  std::uint64_t seed = 0;                 // the first
  std::vector<std::uint64_t> seeds = {};  // all, if there are several
  std::int64_t epochs = 0, steps = 0;     // of a candidate in the last round: one of them, the other 0
  std::vector<Round> rounds = {};         // those before the last
  double chosen = 0;
  std::vector<Candidate> results = {};  // by round, in the order of the grid
};

// The case whose losses and evaluations a curve has: another case that computes the same numbers.
struct CurveOf {
  std::string digest = {}, system = {}, cluster = {};
  int ranks = 0;
};

// Bytes that every rank sends per update.
struct SentByRanks {
  std::vector<std::int64_t> messages = {};    // activations and their gradients
  std::vector<std::int64_t> gathers = {};     // weights
  std::vector<std::int64_t> reductions = {};  // gradients
};

// Interference (harness/model/interference.h) as requested, with the length of every episode.
struct RecordedInterference {
  struct Episode {
    Resource resource = Resource::compute;
    int device = 0;
    std::optional<int> to = {};          // link: the device at its other end; none: all links of the device
    double start = 0;                    // seconds of training
    std::optional<double> seconds = {};  // none: until the end
    double slowdown = 1;
  };
  std::string name = {};
  std::uint64_t seed = 0;
  std::vector<Episode> episodes = {};
  double op_noise = 0, latency_jitter = 0;
};
RecordedInterference recorded(const Interference& interference);

// Changes of a plan during a run.
struct RecordedAdaptation {
  struct Change {
    std::int64_t update = 0;                          // number of updates before it
    double decided_seconds = 0, stopped_seconds = 0;  // of the training
    double seconds = 0, bytes = 0;                    // of the move
    bool restart = false;
    std::vector<std::vector<int>> stages = {};  // the layers of each stage after it
  };
  // Reaction to a change of a device's speed.
  struct Answer {
    double at_seconds = 0;
    double seconds_to_detect = 0, seconds_to_recover = 0;  // from the change to the decision, and to the move's end
  };
  // What the system observed of its ranks, by window; written only if there are any.
  struct Window {
    int plan = 0;                      // number of changes before it
    std::vector<double> seconds = {};  // per rank: of its forwards and backwards
  };
  int window_updates = 0;
  std::vector<Window> windows = {};
  std::vector<Change> changes = {};
  std::string moves = {};  // the changes as text (pipeline/moves.h), for replay; older records have none
  double moved_bytes = 0, moving_seconds = 0;
  // Virtual clock: seconds of a run that knows the episodes and changes its plan at no cost (train/oracle.h).
  std::optional<double> oracle_seconds = {};
  std::vector<Answer> answered = {};  // written only if there are changes
};

// The changes as text.
std::string moves_of(const std::vector<RecordedAdaptation::Change>& changes);

// Simulated or measured values other than times and memory. Each is optional.
struct Observed {
  std::optional<double> bubble_ratio = {}, span_bubble = {};
  std::optional<std::vector<int>> in_flight = {}, weight_versions = {}, staleness = {};  // per rank
  std::optional<SentByRanks> sent_bytes = {};
  // For a run on the virtual clock with too few steps to show its steady state: seconds of an update in it.
  std::optional<double> steady_update_seconds = {};
  std::optional<std::vector<double>> latency_seconds = {};  // inference: per micro-batch
  std::optional<std::string> output_digest = {};            // inference: equal for equal outputs
  std::optional<std::string> weight_gradient = {};          // the choice of `auto`
  std::optional<RecordedInterference> interference = {};
  std::optional<RecordedAdaptation> adaptation = {};
};

// What a reader needs to judge a run's numbers. Nothing identifies the machine or its user.
struct Environment {
  struct Gpu {
    std::string name = {};
    std::uint64_t memory_bytes = 0;
    std::string compute_capability = {};
  };
  struct Cuda {
    std::optional<std::string> driver = {};  // versions
    std::string runtime = {};
  };
  struct Nccl {
    std::string header = {}, library = {};  // versions
  };
  // The program and the machine that ran it; versions only of libraries that it has.
  struct Machine {
    std::string commit = {}, compiler = {}, torch = {};
    std::optional<std::string> mpi = {}, hwloc = {};
    std::optional<Nccl> nccl = {};
    std::string cpu = {};
    int cores = 0;
    std::vector<Gpu> gpus = {};
    std::optional<Cuda> cuda = {};
    std::string kernel = {};
    std::optional<double> load = {};  // of the last minute before the run
  };
  // The measured profile of the costs.
  struct Profile {
    std::string machine = {}, build = {}, made = {};
    int neighbours = 0;
    std::optional<double> age_seconds = {};
  };
  struct Pinning {
    std::string library = {};
    std::vector<std::string> cpus = {};  // per rank
  };
  // The case and round of `sluice validate`.
  struct Validation {
    int number = 0;
    std::string label = {};
    int round = 0;  // -1: on the virtual clock
  };
  std::optional<Machine> machine = {};
  std::optional<Profile> profile = {};
  std::optional<Pinning> pinning = {};
  std::optional<Validation> validation = {};
};

Json to_json(const Tuning& tuning);
Json to_json(const Theory& theory);
Json to_json(const Observed& observed);
Json to_json(const Environment& environment);

}  // namespace sluice
