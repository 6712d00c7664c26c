// A record: one run, one JSON line, self-describing. It keeps raw samples; metrics are derived when read (metrics.h),
// so a new metric needs no rerun. fields.h lists the fields, and results/record.schema.json is made from its table.
// Version 1 lacks diverged_at, purpose and tuning and is read as a measurement that has none of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/pipeline/plan_description.h"
#include "results/record_parts.h"

namespace sluice {

class Json;

// Bytes of one rank, by kind. `total` is the peak of the sum. All kinds but buffers are taken at the moment of their
// own largest sum, which is what a prediction predicts; buffers (messages, gradients of activations, kernels' scratch)
// is the rest, so that the kinds add up to the total. Predictions leave buffers at 0. `host` is no part of the total:
// activations that wait in the host's memory, at their own peak; left out of a line where there are none.
struct MemorySplit {
  std::int64_t total = 0, weights = 0, versions = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0;
  std::int64_t host = 0;
};

struct CurvePoint {
  std::int64_t step = 0;                // updates done
  double seconds = 0;                   // training time so far: evaluation excluded, drain included
  std::optional<double> loss;           // mean training loss since the previous point
  std::optional<double> metric;         // evaluation metric; absent where only the loss was taken
  std::map<std::string, double> extra;  // further ones by name ("bleu"); may be left out of a line
};

struct TimelineOp {
  int rank = 0;
  std::string op;             // text form, e.g. "5I2"; also "step", "reduce", "gather 5", "send_gradient 1->0 2", ...
  double start = 0, end = 0;  // seconds from the timeline's begin
  // The weight version that it reads, counted from the begin of the program that the timeline is of (negative: made
  // before it). Left out of a line where all ops of a stage read the same one.
  std::optional<std::int64_t> version = std::nullopt;
  std::optional<int> to = std::nullopt;  // of a message: the rank that it goes to; `rank` is its sender
};

struct Record {
  Record();
  Record(const Record& other);
  Record(Record&& other) noexcept;
  Record& operator=(const Record& other);
  Record& operator=(Record&& other) noexcept;
  ~Record();

  std::string digest;  // of the case: same digest, same experiment
  std::string system;
  std::map<std::string, std::string> options;  // the system's own, and the run's settings that tell it from others
  std::optional<OptimizerSpec> optimizer;      // stands among the options
  std::string workload;
  std::optional<WorkloadFacts> workload_facts;
  std::optional<ModelWork> work;  // none: the workload has no layers, or the record is from before there was this
  std::string cluster;
  Clock clock = Clock::wall;
  std::string transport;   // "threads" | "mpi" | "none" (virtual)
  std::string device;      // "cpu" | "cuda" | the cluster's device names
  int ranks = 0;           // given to the system, used or not; single_device: 1
  std::int64_t batch = 0;  // global batch: samples per update
  int microbatches = 0;    // per update
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::measure;
  std::optional<Tuning> tuning;  // where the learning rate was tuned
  RecordOutcome outcome = RecordOutcome::ok;
  std::string reason;                       // for every outcome but ok
  std::optional<std::int64_t> diverged_at;  // update, from 1, whose loss was not finite
  std::optional<int> failed_rank;
  std::vector<double> step_seconds;  // every step kept, warm-up included
  int warmup_steps = 0;              // how many of them the throughput discards
  std::int64_t samples_per_step = 0;
  std::int64_t updates_per_epoch = 0;
  std::vector<CurvePoint> curve;
  std::optional<CurveOf> curve_of;                // none: the case trained by itself
  std::vector<MemorySplit> peak_bytes;            // per rank: measured (wall) or predicted (virtual)
  std::vector<MemorySplit> predicted_peak_bytes;  // per rank, of a run on the wall clock; virtual: peak_bytes is it
  // Where the costs of planning and of the virtual clock are from: "analytic", "calibrated ...", "profile" (measured);
  // behind it what they are counted in, where that is not what the executor computes in: "analytic (mixed, scores
  // kept)".
  std::string cost_source;
  // Theory, observed and plan are there as far as the run came.
  std::optional<Theory> theory;  // what the paper promises
  Observed observed;             // the same, and more, as simulated or measured
  std::optional<PlanDescription> plan;
  double planning_seconds = 0;
  // One steady step (synchronous) or the first 3 P batches (asynchronous); empty where it was left out.
  std::vector<TimelineOp> timeline;
  Environment environment;
};

Json to_json(const Record& record);
// The options with the optimizer among them, as to_json writes them.
Json options_json(const Record& record);
// Throws InputError(where, ...) naming the field that is missing or of the wrong type.
Record record_from_json(const Json& json, const std::string& where);

}  // namespace sluice
