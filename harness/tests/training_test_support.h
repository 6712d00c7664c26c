// A few updates of one system on random data, and what comes out of them, to be compared with
// another one's.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "harness/tests/test_support.h"

namespace sluice {

constexpr std::int64_t kBatch = 24;
constexpr int kUpdates = 3;

struct Numbers {
  std::vector<std::vector<double>> gradients;  // per layer, of the first update
  std::vector<std::vector<double>> weights;    // per layer, after all updates
  std::vector<double> losses;
};

struct Training {
  bool double_precision = false;
  bool batched = false;
  std::uint64_t seed = 1;
  OptimizerSpec optimizer = {.learning_rate = 0.05, .momentum = 0.9};
  Bytes gradient_bucket{64};  // small, so that replicas reduce in several
};

// Trains kUpdates updates by a program of one (asynchronous systems: of all, as one drained run).
// peaks: what was counted.
inline Numbers train_by(const Program& program, const TestSetup& setup, const DataFeed& feed, const Training& training,
                        std::vector<MemoryByKind>* peaks = nullptr) {
  SessionSpec spec = setup.spec(training.optimizer);
  spec.seed = training.seed;
  spec.double_precision = training.double_precision;
  spec.batched_weight_gradients = training.batched;
  spec.gradient_bucket = training.gradient_bucket;
  spec.feed = feed;
  spec.sharding = program.sharding;
  const auto session = make_session(spec);
  session->reset_peak_memory();
  const auto layers = static_cast<int>(setup.workload->model.layers.size());
  const bool synchronous = program.rule.synchronous();
  const std::int64_t batch = samples_per_update(setup.prepared);
  Numbers numbers;
  const auto run = [&](std::int64_t first, int updates) {
    RunRequest request;
    request.order = samples_from(first * batch, updates * batch);
    request.iterations = synchronous ? updates : 1;
    request.timeout = Seconds(120);
    const RunResult result = session->run(program, request);
    numbers.losses.insert(numbers.losses.end(), result.losses.begin(), result.losses.end());
  };
  run(0, synchronous ? 1 : kUpdates);
  for (int l = 0; l < layers; ++l) numbers.gradients.push_back(session->gradients(l));
  if (synchronous) run(1, kUpdates - 1);
  for (int l = 0; l < layers; ++l) numbers.weights.push_back(session->weights(l));
  if (peaks) *peaks = session->peak_memory();
  return numbers;
}

inline Numbers train(const TestSetup& setup, const DataFeed& feed, const Training& training = {}) {
  const bool synchronous = setup.prepared.system->synchronous;
  return train_by(make_program(setup.prepared, synchronous ? setup.microbatches : kUpdates), setup, feed, training);
}

// A plan, and its program where the plan's system orders it.
struct PlannedSetup : TestSetup {
  Program program;
  PlannedSetup(const Prepared& p, const ModelGraph& model, std::int64_t batch)
      : TestSetup("single_device", {}, model, 1, batch, p.microbatches_per_update),
        program(make_program(p, p.microbatches_per_update)) {
    prepared = p;
  }
  PlannedSetup(const ModelGraph& model, int count, const Plan& plan)
      : TestSetup("single_device", {}, model, 1, kBatch, count) {
    int devices = 0;
    for (const PlanStage& stage : plan.stages)
      for (const DeviceId device : stage.devices) devices = std::max(devices, device.value + 1);
    prepared.cluster = load_cluster("flat:" + std::to_string(devices), "");
    Plan pipeline = plan;
    pipeline.micro_batch = prepared.micro_batch;
    adopt_pipeline(prepared, pipeline);
  }
};

inline Numbers train(const PlannedSetup& setup, const DataFeed& feed, const Training& training,
                     std::vector<MemoryByKind>* peaks = nullptr) {
  return train_by(setup.program, setup, feed, training, peaks);
}

inline bool as_predicted(const std::vector<MemoryByKind>& measured, const std::vector<RankMemory>& predicted) {
  if (measured.size() != predicted.size()) return false;
  for (std::size_t r = 0; r < measured.size(); ++r) {
    const MemoryPoint& p = predicted[r].peak;
    if (measured[r].weights != p.weights || measured[r].gradients != p.gradients ||
        measured[r].optimizer != p.optimizer ||
        std::abs((measured[r].activations - p.activations).value) > p.activations.value / 100)
      return false;
  }
  return true;
}

inline void expect_close(const Numbers& ours, const Numbers& reference, const ModelGraph& model, double tolerance) {
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    EXPECT_LE(relative_error(ours.gradients[l], reference.gradients[l]), tolerance)
        << "gradient of " << model.layers[l].name;
    EXPECT_LE(relative_error(ours.weights[l], reference.weights[l]), tolerance)
        << "weights of " << model.layers[l].name;
  }
  EXPECT_LE(relative_error(ours.losses, reference.losses), tolerance);
}

inline void expect_same_bits(const Numbers& ours, const Numbers& reference, const ModelGraph& model) {
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    EXPECT_EQ(ours.gradients[l], reference.gradients[l]) << "gradient of " << model.layers[l].name;
    EXPECT_EQ(ours.weights[l], reference.weights[l]) << "weights of " << model.layers[l].name;
  }
  EXPECT_EQ(ours.losses, reference.losses);
}

}  // namespace sluice
