// RunCase: one experiment with the value of every setting. Sweeps (sweep.h) and command lines are resolved into cases,
// and every record is of one case. settings.h has the name, values and meaning of each setting.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/case/choices.h"
#include "harness/exec/session.h"
#include "harness/pipeline/gradient_buckets.h"

namespace sluice {

// The cluster of a case on the wall clock.
inline const std::string kThisMachine = "this machine";
// The same with one process per rank, for the virtual clock; on the wall clock `transport` decides.
inline const std::string kThisMachineProcesses = "this machine, processes";
// The same on this machine's GPUs; on the wall clock `device` decides.
inline const std::string kThisMachineGpus = "this machine, GPUs";

// Search of a learning rate: every rate of the grid trains with every seed, as separate recorded cases with the same
// settings except seed and length (harness/train/tuning.h). With rounds this is successive halving (Jamieson and
// Talwalkar, AISTATS 2016): short trainings of all rates, then longer ones of the best.
struct TuneSpec {
  struct Round {
    int epochs = 0, steps = 0;  // of a candidate; one of the two is given
    int keep = 1;               // rates that go on to the next round
  };
  std::vector<double> learning_rates;        // ascending, each once
  std::vector<std::uint64_t> seeds = {101};  // ascending, each once; never a measured seed
  std::vector<Round> rounds;                 // at least one, each longer than the one before; the last keeps 1
};

// The learning rate over a run, as a factor of the optimizer's. Updates are counted over the run.
struct RateSchedule {
  RateScheduleKind kind = RateScheduleKind::constant;
  int every_epochs = 1;  // step: after this many epochs ...
  double factor = 0.1;   // ... times this
  double power = 1;      // polynomial: (1 - update / all updates)^power
};

// The initialisers are the settings' defaults; some follow from the workload or the system instead (settings.cpp).
struct RunCase {
  RunCase();
  RunCase(const RunCase& other);
  RunCase(RunCase&& other) noexcept;
  RunCase& operator=(const RunCase& other);
  RunCase& operator=(RunCase&& other) noexcept;
  ~RunCase();

  std::string system;                          // full name, aliases resolved
  std::map<std::string, std::string> options;  // all declared options of the system, resolved
  std::string workload;
  std::string workload_digest;  // of the workload file's content; empty: the workload is not a file
  Task task = Task::train;
  std::string cluster = "flat:4";  // the virtual clock's; on the wall clock kThisMachine
  Clock clock = Clock::wall;
  Precision precision = Precision::fp32;
  AttentionScores attention = AttentionScores::fused;
  std::string costs = "profile";  // for planning and the virtual clock: profile, analytic, calibrated, a file (costs.h)
  TransportKind transport = TransportKind::threads;
  DeviceKind device = DeviceKind::cpu;
  int ranks = 2;
  // Data-parallel pipelines, each on ranks / data_parallel ranks with its share of the micro-batches, and their layout
  // over the devices (pipeline/replicas.h).
  int data_parallel = 1;
  PipelineReplicas::Layout layout = PipelineReplicas::Layout::groups;
  StageSharding sharding = StageSharding::system;
  ExpertPlacement experts = ExpertPlacement::replicated;
  // Bytes at which a bucket of the replicas' gradients is full and reduced, during the backward
  // (pipeline/gradient_buckets.h). 0: all are reduced after the backward; also if there can be no replicas.
  Bytes gradient_buckets = kDefaultGradientBucket;
  std::vector<int> first_layers;  // of given stages, from the second on; empty: the system cuts the model
  Cuts cuts = Cuts::messages;     // compute if no cut can avoid the cost of a message
  int tensor = 1;                 // tensor-parallel degree: each pipeline is for ranks / data_parallel / tensor of them
  std::int64_t batch = 0;         // samples per update
  int microbatches = 0;           // per update (asynchronous systems: 1, the whole batch)
  std::vector<std::int64_t> microbatch_sizes;  // samples of each, if they differ; empty: all have the same
  // micro_batch: `batch` is already divided and has the samples of one update.
  UpdateAfter update = UpdateAfter::batch;
  int queue = 4;  // inference: limit on the micro-batches that wait between two stages (RunPolicy::queue)
  std::uint64_t seed = 1;
  int epochs = 0;  // 0: `steps` updates without evaluation
  int evaluations_per_epoch = 1;
  int steps = 0;      // inference: batches
  bool train = true;  // virtual clock: false skips the numerics, so there is no learning curve
  WeightGradients weight_gradient = WeightGradients::per_microbatch;
  UpdateStart step = UpdateStart::free;  // for synchronous systems
  Pin pin = Pin::none;
  std::string interference;  // model/interference.h
  InterferenceBy interference_by = InterferenceBy::pause;
  std::string file_digests;  // of the other files that it reads (file_digests.h)
  std::string slowdown;      // of each rank, wall clock: parse_slowdowns()
  std::string throttle;      // of the links, wall clock: Throttle::parse()
  OptimizerSpec optimizer;
  RateSchedule rate_schedule;
  EvaluationMode evaluation = EvaluationMode::drain;
  // The micro-batches at an epoch's end that are too few for an update of an asynchronous system that accumulates.
  // drop: discard, as all systems do with samples after the last whole batch; partial: one more update, divided by
  // their number, which sees samples that other systems do not.
  Leftover leftover = Leftover::drop;
  std::optional<TuneSpec> tune;  // "learning_rate": "tuned"; `optimizer` then has the chosen rate
  Purpose purpose = Purpose::measure;
  double timeout_seconds = 0;     // 0: none
  int fail_rank = -1;             // for tests and demonstrations: this rank fails ...
  std::int64_t fail_update = -1;  // ... in this update,
  int fail_move = -1;             // or during the move of layers with this number, from 0 ...
  bool fail_killed = false;       // ... and its process is killed
};

// Whether its ranks are the processes of an MPI job: always over mpi; over nccl if a launcher started several.
bool runs_as_processes(const RunCase& c);

inline bool is_this_machine(const RunCase& c) {
  return c.cluster == kThisMachine || c.cluster == kThisMachineProcesses || c.cluster == kThisMachineGpus;
}
inline bool is_on_gpus(const RunCase& c) {
  return c.cluster == kThisMachineGpus || (c.cluster == kThisMachine && c.device == DeviceKind::cuda);
}

}  // namespace sluice
