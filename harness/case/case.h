// RunCase: one experiment, every setting of it spelled out. Sweeps (sweep.h) and command lines become such cases, and
// every record is of one. What each setting is called, may be and means: settings.h.
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
// The same with a process for each rank, for the virtual clock; on the wall clock the transport says so.
inline const std::string kThisMachineProcesses = "this machine, processes";
// The same on this machine's GPUs; on the wall clock the device says so.
inline const std::string kThisMachineGpus = "this machine, GPUs";

// How a learning rate is searched: every rate of the grid trains with every seed, as recorded cases of their own with
// the same settings but the seed and the length (harness/train/tuning.h). With rounds this is successive halving
// (Jamieson and Talwalkar, AISTATS 2016): short trainings of all rates, then longer ones of the best.
struct TuneSpec {
  struct Round {
    int epochs = 0, steps = 0;  // of a candidate; one of them
    int keep = 1;               // rates that go on to the next round
  };
  std::vector<double> learning_rates;        // ascending, each once
  std::vector<std::uint64_t> seeds = {101};  // ascending, each once; none of the seeds that are measured
  std::vector<Round> rounds;                 // at least one, each longer than the one before; the last keeps 1
};

// The learning rate over a run, as a factor of the optimizer's. Updates are the run's.
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
  std::map<std::string, std::string> options;  // all that the system declares, resolved
  std::string workload;
  std::string workload_digest;  // of what a workload file holds; empty: the workload is no file
  Task task = Task::train;
  std::string cluster = "flat:4";  // the virtual clock's; on the wall clock kThisMachine
  Clock clock = Clock::wall;
  Precision precision = Precision::fp32;
  AttentionScores attention = AttentionScores::fused;
  std::string costs = "profile";  // of planning and the virtual clock: profile, analytic, calibrated, a file (costs.h)
  TransportKind transport = TransportKind::threads;
  DeviceKind device = DeviceKind::cpu;
  int ranks = 2;
  // Data-parallel pipelines, each on ranks / data_parallel ranks with its share of the micro-batches, and how they lie
  // over the devices (pipeline/replicas.h).
  int data_parallel = 1;
  PipelineReplicas::Layout layout = PipelineReplicas::Layout::groups;
  StageSharding sharding = StageSharding::system;
  // Bytes from which a bucket of the replicas' gradients is full and reduced, during the backward
  // (pipeline/gradient_buckets.h); 0: all are reduced after the backward, and wherever there can be no replicas.
  Bytes gradient_buckets = kDefaultGradientBucket;
  std::vector<int> first_layers;  // of the stages from the second on, where they are given; empty: the system cuts
  Cuts cuts = Cuts::messages;     // compute wherever no message has a cost that a cut could avoid
  int tensor = 1;                 // tensor-parallel degree: each pipeline is for ranks / data_parallel / tensor of them
  std::int64_t batch = 0;         // samples per update
  int microbatches = 0;           // per update (asynchronous systems: 1, a whole batch at a time)
  std::vector<std::int64_t> microbatch_sizes;  // samples of each, where they differ; empty: all have the same
  // micro_batch: `batch` is already divided, it holds what an update sees.
  UpdateAfter update = UpdateAfter::batch;
  int queue = 4;  // inference: micro-batches that may wait between two stages (RunPolicy::queue)
  std::uint64_t seed = 1;
  int epochs = 0;  // 0: `steps` updates without evaluation
  int evaluations_per_epoch = 1;
  int steps = 0;      // inference: batches
  bool train = true;  // virtual clock: false leaves the numerics out, so that there is no learning curve
  WeightGradients weight_gradient = WeightGradients::per_microbatch;
  UpdateStart step = UpdateStart::free;  // of synchronous systems
  Pin pin = Pin::none;
  std::string interference;  // model/interference.h
  InterferenceBy interference_by = InterferenceBy::pause;
  std::string file_digests;  // of what the other files hold that it reads (file_digests.h)
  std::string slowdown;      // of each rank, wall clock: parse_slowdowns()
  std::string throttle;      // of the links, wall clock: Throttle::parse()
  OptimizerSpec optimizer;
  RateSchedule rate_schedule;
  EvaluationMode evaluation = EvaluationMode::drain;
  // The micro-batches at an epoch's end that fill no update of an asynchronous system that
  // accumulates: dropped, as all systems do with the samples after the last whole batch, or one
  // more update, divided by their number. With partial it sees samples that the others do not.
  Leftover leftover = Leftover::drop;
  std::optional<TuneSpec> tune;  // "learning_rate": "tuned"; optimizer's is then the chosen one
  Purpose purpose = Purpose::measure;
  double timeout_seconds = 0;     // 0: none
  int fail_rank = -1;             // for tests and demonstrations: this rank fails ...
  std::int64_t fail_update = -1;  // ... in this update,
  int fail_move = -1;             // or while layers move for the time of this number, from 0 ...
  bool fail_killed = false;       // ... where its process is killed
};

// Whether its ranks are the processes of an MPI job: over mpi always, over nccl if a launcher
// started several.
bool runs_as_processes(const RunCase& c);

inline bool is_this_machine(const RunCase& c) {
  return c.cluster == kThisMachine || c.cluster == kThisMachineProcesses || c.cluster == kThisMachineGpus;
}
inline bool is_on_gpus(const RunCase& c) {
  return c.cluster == kThisMachineGpus || (c.cluster == kThisMachine && c.device == DeviceKind::cuda);
}

}  // namespace sluice
