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

// Bytes of one rank, by kind. `total` is the peak of the sum. All kinds but buffers are taken when their own sum is
// largest, which is what predictions predict. buffers (messages, gradients of activations, kernels' scratch) is the
// rest, so that the kinds add up to the total; predictions leave it at 0. `host` is not in the total: activations in
// the host's memory, at their own peak; absent from a line if there are none.
struct MemorySplit {
  std::int64_t total = 0, weights = 0, versions = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0;
  std::int64_t host = 0;
};

struct CurvePoint {
  std::int64_t step = 0;                // updates done
  double seconds = 0;                   // training time so far: evaluation excluded, drain included
  std::optional<double> loss;           // mean training loss since the previous point
  std::optional<double> metric;         // evaluation metric; absent if only the loss was taken
  std::map<std::string, double> extra;  // further ones by name ("bleu"); may be absent from a line
};

struct TimelineOp {
  int rank = 0;
  std::string op;             // text form, e.g. "5I2"; also "step", "reduce", "gather 5", "send_gradient 1->0 2", ...
  double start = 0, end = 0;  // seconds from the start of the timeline
  // The weight version that it reads, counted from the start of the timeline's program (negative: made before it).
  // Absent from a line if all ops of a stage read the same one.
  std::optional<std::int64_t> version = std::nullopt;
  std::optional<int> to = std::nullopt;              // for a message: the receiving rank; `rank` is its sender
  std::optional<std::int64_t> bytes = std::nullopt;  // of a message; older records have none
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
  std::map<std::string, std::string> options;  // the system's, and the settings that separate this run from others
  std::optional<OptimizerSpec> optimizer;      // written among the options
  std::string workload;
  std::optional<WorkloadFacts> workload_facts;
  std::optional<ModelWork> work;  // none: the workload has no layers, or the record is older than this field
  std::string cluster;
  Clock clock = Clock::wall;
  std::string transport;   // "threads" | "mpi" | "none" (virtual)
  std::string device;      // "cpu" | "cuda" | the cluster's device names
  int ranks = 0;           // given to the system, used or not; single_device: 1
  std::int64_t batch = 0;  // global batch: samples per update
  int microbatches = 0;    // per update
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::measure;
  std::optional<Tuning> tuning;  // if the learning rate was tuned
  RecordOutcome outcome = RecordOutcome::ok;
  std::string reason;                       // for every outcome except ok
  std::optional<std::int64_t> diverged_at;  // update, from 1, whose loss was not finite
  std::optional<int> failed_rank;
  std::vector<double> step_seconds;  // all steps, including the warm-up
  int warmup_steps = 0;              // the throughput discards them
  std::int64_t samples_per_step = 0;
  std::int64_t updates_per_epoch = 0;
  std::vector<CurvePoint> curve;
  std::optional<CurveOf> curve_of;                // none: the case trained by itself
  std::vector<MemorySplit> peak_bytes;            // per rank: measured (wall) or predicted (virtual)
  std::vector<MemorySplit> predicted_peak_bytes;  // per rank, on the wall clock; virtual: peak_bytes
  // Source of the costs of planning and of the virtual clock: "analytic", "calibrated ...", "profile" (measured); then,
  // if they differ from the executor's, precision and attention: "analytic (mixed, scores kept)".
  std::string cost_source;
  // Theory, observed and plan are present if the run got that far.
  std::optional<Theory> theory;  // what the paper promises
  Observed observed;             // the same figures, and more, as simulated or measured
  std::optional<PlanDescription> plan;
  double planning_seconds = 0;
  // one steady step (synchronous) or the first 3 P batches (asynchronous); empty if not kept
  std::vector<TimelineOp> timeline;
  Environment environment;
};

Json to_json(const Record& record);
// The options including the optimizer, as to_json writes them.
Json options_json(const Record& record);
// Throws InputError(where, ...) naming the field that is missing or of the wrong type.
Record record_from_json(const Json& json, const std::string& where);

}  // namespace sluice
