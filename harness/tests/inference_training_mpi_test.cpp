// Inference gives the same outputs, to the last bit, on one device, on ranks that are threads and on ranks that are
// processes. Every member of the MPI job runs this file: each on threads by itself, and all of them together over MPI.
#include <gtest/gtest.h>

#include "harness/tests/mpi_test_support.h"

namespace sluice {
namespace {

constexpr int kMicros = 4, kBatches = 3;

ModelGraph small_vit() {
  return vision_transformer("vit", {.channels = 1,
                                    .image = 12,
                                    .patch = 4,
                                    .blocks = 3,
                                    .width = 16,
                                    .heads = 2,
                                    .feed_forward = 32,
                                    .classes = 10});
}

TestSetup setup_of(const std::string& system, const ModelGraph& model, int ranks) {
  TestSetup setup(system, {}, model, ranks, kBatch, kMicros);
  setup.prepared.inference = true;
  setup.prepared.queue = 2;
  return setup;
}

RunResult infer(const TestSetup& setup, const DataFeed& feed, ProcessGroup* processes) {
  SessionSpec spec = setup.spec({.learning_rate = 0.1, .momentum = 0.9});
  spec.inference = true;
  spec.feed = feed;
  spec.processes = processes;
  const auto session = make_session(spec);
  session->reset_peak_memory();
  RunRequest request;
  request.timeout = Seconds(60);
  const RunResult result = session->run(make_program(setup.prepared, kMicros * kBatches), request);
  for (const MemoryByKind& peak : session->peak_memory()) {
    EXPECT_EQ(peak.gradients, Bytes(0));
    EXPECT_EQ(peak.optimizer, Bytes(0));
  }
  return result;
}

TEST(Inference, outputs_are_the_same_bits_on_one_device_on_threads_and_over_mpi) {
  for (const ModelGraph& model : {small_vit(), test_cnn()}) {
    const DataFeed feed = random_feed(model, kBatch);
    const RunResult one = infer(setup_of("single_device", model, 1), feed, nullptr);
    ASSERT_EQ(one.output_digests.size(), static_cast<std::size_t>(kMicros * kBatches));
    // Three batches over the same test samples.
    EXPECT_EQ(one.output_digests[0], one.output_digests[kMicros]);
    EXPECT_NE(one.output_digests[0], one.output_digests[1]);
    for (const char* system : {"edgepipe", "gpipe", "pipedream", "interleaved_1f1b", "data_parallel", "chimera"}) {
      SCOPED_TRACE(std::string(system) + ", " + model.name);
      std::optional<TestSetup> setup;
      try {
        setup.emplace(setup_of(system, model, job->size()));
      } catch (const InputError&) {
        continue;  // the system does not take this many ranks
      }
      EXPECT_EQ(infer(*setup, feed, nullptr).output_digests, one.output_digests);
      const auto processes = job->first(static_cast<int>(setup->prepared.ranks.devices.size()));
      if (!processes) continue;
      const RunResult over_mpi = infer(*setup, feed, processes.get());
      EXPECT_EQ(over_mpi.output_digests, one.output_digests);
      // No latencies: the processes have no common clock.
      EXPECT_TRUE(over_mpi.execution.micro_batches.left.empty());
    }
  }
}

}  // namespace
}  // namespace sluice
