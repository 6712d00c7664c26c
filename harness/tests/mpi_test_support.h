// What the tests share that every member of an MPI job runs together: one training on threads, by
// each member for itself, and over MPI, by all of them, and what comes out of both.
#pragma once

#include <gtest/gtest.h>

#include "harness/exec/mpi/mpi.h"
#include "harness/tests/test_support.h"

namespace sluice {

inline ProcessGroup* job = nullptr;

constexpr std::int64_t kBatch = 24;
constexpr int kUpdates = 4;

struct Variant {
  std::string system;
  std::map<std::string, std::string> options = {};
  PipelineReplicas replicas = {};
  std::string sharding = "system";  // as RunCase
  int tensor = 1;
  double clip_norm = 0;
  bool spread = false;  // the experts, over the replicas
};

inline std::string to_text(const Variant& v) {
  std::string text = v.system;
  for (const auto& [key, value] : v.options) text += " " + key + "=" + value;
  if (v.replicas.count > 1)
    text += v.replicas.layout == PipelineReplicas::Layout::groups ? " in groups" : " in pipelines";
  if (v.tensor > 1) text += " tensor " + std::to_string(v.tensor);
  if (v.clip_norm > 0) text += " clipped";
  if (v.spread) text += " spread";
  return v.sharding == "system" ? text : text + " sharding " + v.sharding;
}

// A system's program with as many ranks as the job has members, or as many of them as it takes.
struct Planned {
  TestSetup setup;
  Program program;
  double clip_norm = 0;

  Planned(const Variant& v, const ModelGraph& model)
      : setup(clipping(spreading(divided(TestSetup(v.system, v.options, model, job->size(), kBatch,
                                                   microbatches(v.system), v.replicas, v.sharding, v.tensor)),
                                 v.spread),
                       v.clip_norm > 0)),
        program(make_program(setup.prepared, synchronous() ? setup.microbatches : kUpdates * setup.microbatches)),
        clip_norm(v.clip_norm) {}

  Planned(TestSetup s, Program p) : setup(std::move(s)), program(std::move(p)) {}

  bool synchronous() const { return setup.prepared.system->synchronous; }
  int ranks() const { return static_cast<int>(setup.prepared.ranks.devices.size()); }
  std::unique_ptr<Session> session(const DataFeed& feed, ProcessGroup* processes) const {
    SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9, .clip_norm = clip_norm});
    spec.feed = feed;
    spec.processes = processes;
    spec.rule = program.rule;
    spec.sharding = program.sharding;
    return make_session(spec);
  }

 private:
  static TestSetup clipping(TestSetup setup, bool clips) {
    setup.prepared.clip_norm = clips;
    return setup;
  }
  static TestSetup spreading(TestSetup setup, bool spreads) {
    return spreads ? with_spread_experts(std::move(setup)) : setup;
  }
  static int microbatches(const std::string& system) {
    const System& s = find_system(system, "test");
    if (system == "stp") return 12;  // at least 3 P - 1
    return s.synchronous ? 8 : s.accumulates ? 4 : 1;
  }
  // A micro-batch for every replica, where a system takes whole batches (as prepare() does).
  static TestSetup divided(TestSetup setup) {
    Prepared& p = setup.prepared;
    if (p.system->synchronous || p.system->accumulates) return setup;
    int most = 1;
    for (const PlanStage& stage : p.plan.stages) most = std::max(most, static_cast<int>(stage.devices.size()));
    setup.microbatches = p.microbatches_per_update = most;
    p.micro_batch = kBatch / most;
    Plan plan = p.pipeline;
    plan.micro_batch = p.micro_batch;
    adopt_pipeline(p, plan);
    return setup;
  }
};

// None: the system rejects this model on this many ranks, on threads as well.
inline std::optional<Planned> plan(const Variant& variant, const ModelGraph& model) {
  try {
    return Planned(variant, model);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

struct Numbers {
  std::vector<std::vector<double>> weights, gradients;
  std::vector<std::vector<std::vector<double>>> after_each_update;  // [stage][update]
  std::vector<double> losses, evaluations;
  std::vector<TensorSums> sums;
  std::vector<MemoryByKind> peaks;
};

inline Numbers train(const Planned& planned, const DataFeed& feed, ProcessGroup* processes) {
  const auto session = planned.session(feed, processes);
  session->reset_peak_memory();
  RunRequest request;
  request.order = samples_from(0, kUpdates * kBatch);
  request.iterations = planned.synchronous() ? kUpdates : 1;
  request.timeout = Seconds(60);
  request.snapshots = {kUpdates / 2};
  request.keep_weights = true;
  RunResult result = session->run(planned.program, request);
  Numbers numbers{.after_each_update = std::move(result.weights), .losses = result.losses, .sums = result.group_sums};
  numbers.peaks = session->peak_memory();
  const Evaluation before = session->evaluate_snapshot(0), after = session->evaluate();
  numbers.evaluations = {before.loss, before.accuracy, after.loss, after.accuracy};
  for (const auto& [name, value] : after.extra) numbers.evaluations.push_back(value);
  const std::size_t layers = planned.setup.workload->model.layers.size();
  for (int l = 0; l < static_cast<int>(layers); ++l) {
    numbers.weights.push_back(session->weights(l));
    numbers.gradients.push_back(session->gradients(l));
  }
  return numbers;
}

inline void expect_same_memory(const std::vector<MemoryByKind>& processes, const std::vector<MemoryByKind>& threads) {
  ASSERT_EQ(processes.size(), threads.size());
  for (std::size_t r = 0; r < threads.size(); ++r) {
    SCOPED_TRACE(testing::Message() << "rank " << r);
    // Buffers are another matter: when a message is let go of depends on the transport.
    EXPECT_EQ(processes[r].weights, threads[r].weights);
    EXPECT_EQ(processes[r].versions, threads[r].versions);
    EXPECT_EQ(processes[r].gradients, threads[r].gradients);
    EXPECT_EQ(processes[r].optimizer, threads[r].optimizer);
    EXPECT_EQ(processes[r].activations, threads[r].activations);
  }
}

inline void expect_same_bits(const Planned& planned, const DataFeed& feed) {
  const auto processes = job->first(planned.ranks());
  if (!processes) return;
  const ModelGraph& model = planned.setup.workload->model;
  const Numbers got = train(planned, feed, processes.get());
  const Numbers threads = train(planned, feed, nullptr);
  EXPECT_EQ(got.losses, threads.losses);
  EXPECT_EQ(got.sums, threads.sums);
  EXPECT_EQ(got.evaluations, threads.evaluations);
  EXPECT_TRUE(got.after_each_update == threads.after_each_update);
  for (std::size_t l = 0; l < threads.weights.size(); ++l) {
    EXPECT_TRUE(got.weights[l] == threads.weights[l]) << model.layers[l].name;
    EXPECT_TRUE(got.gradients[l] == threads.gradients[l]) << model.layers[l].name;
  }
  expect_same_memory(got.peaks, threads.peaks);
}

// False: the system rejects.
inline bool expect_same_bits(const Variant& variant, const ModelGraph& model, const DataFeed& feed) {
  SCOPED_TRACE(to_text(variant) + ", " + model.name);
  const std::optional<Planned> planned = plan(variant, model);
  if (planned) expect_same_bits(*planned, feed);
  return planned.has_value();
}

}  // namespace sluice
