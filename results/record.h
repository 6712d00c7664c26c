// A record: one run, one JSON line, self-describing. It keeps raw samples; metrics are derived when read (metrics.h),
// so a new metric needs no rerun. The fields are fixed by results/record.schema.json. Version 1 lacks diverged_at,
// purpose and tuning and is read as a measurement that has none of them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

inline constexpr const char* kRecordSchema = "sluice/record/2";
inline constexpr const char* kFirstRecordSchema = "sluice/record/1";  // is read, no longer written

// Bytes of one rank, by kind. `total` is the peak of the sum. All kinds but buffers are taken at the moment of their
// own largest sum, which is what a prediction predicts; buffers (messages, gradients of activations, kernels' scratch)
// is the rest, so that the kinds add up to the total. Predictions leave buffers at 0.
struct MemorySplit {
  std::int64_t total = 0, weights = 0, versions = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0;
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
  std::string op;             // text form, e.g. "5I2"; also "step", "reduce", "gather 5", ...
  double start = 0, end = 0;  // seconds from the timeline's begin
};

struct Record {
  std::string digest;  // of the case: same digest, same experiment
  std::string system;
  nlohmann::json options = nlohmann::json::object();
  std::string workload;
  // Metric name and direction, target, single-device value, samples, licence.
  nlohmann::json workload_facts = nlohmann::json::object();
  std::string cluster;
  std::string clock;       // "wall" | "virtual"
  std::string transport;   // "threads" | "mpi" | "none" (virtual)
  std::string device;      // "cpu" | "cuda" | the cluster's device names
  int ranks = 0;           // given to the system, used or not; single_device: 1
  std::int64_t batch = 0;  // global batch: samples per update
  int microbatches = 0;    // per update
  std::uint64_t seed = 0;
  // measure: what comparisons and charts are made of; tune: a candidate of a learning-rate search; boundary: a point of
  // a divergence boundary (stability.h).
  std::string purpose = "measure";
  // Where the learning rate was tuned: {grid, results: [{learning_rate, value, outcome, digest}], criterion, chosen,
  // seed, epochs | steps}. Empty where it was given.
  nlohmann::json tuning = nlohmann::json::object();
  // ok | diverged | failed | timed_out | unsupported | out_of_memory. "diverged" is a result like "ok": the training
  // loss stopped being a finite number, which says something about the system.
  std::string outcome = "ok";
  std::string reason;                       // for every outcome but ok
  std::optional<std::int64_t> diverged_at;  // update, from 1, whose loss was not finite
  std::optional<int> failed_rank;
  std::vector<double> step_seconds;  // every step kept, warm-up included
  int warmup_steps = 0;              // how many of them the throughput discards
  std::int64_t samples_per_step = 0;
  std::int64_t updates_per_epoch = 0;
  std::vector<CurvePoint> curve;
  std::vector<MemorySplit> peak_bytes;            // per rank: measured (wall) or predicted (virtual)
  std::vector<MemorySplit> predicted_peak_bytes;  // per rank, beside the measured one
  // Where the costs of planning, and of the virtual clock, are from: "analytic" | "profile" (measured).
  std::string cost_source;
  // What the paper promises: bubble, in_flight, weight_versions, staleness.
  nlohmann::json theory = nlohmann::json::object();
  // The same, as simulated or measured: bubble_ratio, span_bubble, ...; and sent_bytes {messages, gathers, reductions}:
  // of every rank in an update.
  nlohmann::json observed = nlohmann::json::object();
  nlohmann::json plan = nlohmann::json::object();
  double planning_seconds = 0;
  std::vector<TimelineOp> timeline;  // one steady step (synchronous) or the first 3 P batches (asynchronous)
  nlohmann::json environment = nlohmann::json::object();
};

nlohmann::json to_json(const Record& record);
// Throws InputError(where, ...) naming the field that is missing or of the wrong type.
Record record_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace sluice
