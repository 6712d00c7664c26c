#include "harness/exec/torch/session/device_transport.h"

#include <gtest/gtest.h>

#include <thread>

#include "harness/exec/torch/stage/fake_rank_device.h"
#include "harness/exec/torch/stage/memory_counter.h"

namespace sluice {
namespace {

// One stage on `ranks` ranks, and a channel from the first to the second.
struct Replicas {
  Program program;
  std::vector<FakeRankDevice> devices;
  std::unique_ptr<Transport> transport;

  explicit Replicas(std::size_t n) : devices(n) {
    program.ranks.resize(n);
    program.placement.stages.resize(1);
    std::vector<RankDevice*> all;
    for (std::size_t r = 0; r < n; ++r) {
      program.placement.stages[0].emplace_back(r);
      all.push_back(&devices[r]);
    }
    if (n > 1) program.channels = {{Rank(0), Rank(1), 1}};
    transport = make_device_thread_transport(program, all);
  }
  void on_all_ranks(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int k = 0; k < static_cast<int>(devices.size()); ++k) threads.emplace_back(work, k);
    for (std::thread& thread : threads) thread.join();
  }
};

TEST(DeviceThreadTransport, ReducesToTheSameBitsAsTheThreadsOfTheCpu) {
  for (const std::size_t n : {2u, 3u, 5u})
    for (const std::int64_t count : {1, 2, 7, 1000}) {
      Replicas r(n);
      std::vector<at::Tensor> values;
      for (std::size_t k = 0; k < n; ++k) values.push_back(at::randn({count}, at::kFloat));
      at::Tensor sum = values[0].clone();
      for (std::size_t k = 1; k < n; ++k) sum.add_(values[k]);
      for (int round = 0; round < 3; ++round) {
        std::vector<at::Tensor> mine;
        for (const at::Tensor& v : values) mine.push_back(v.clone());
        r.on_all_ranks([&](int k) {
          r.transport->all_reduce(0, k, mine[k].data_ptr(), static_cast<std::size_t>(count), ElementType::float32);
        });
        for (const at::Tensor& m : mine) EXPECT_TRUE(at::equal(m, sum));
      }
    }
}

TEST(DeviceThreadTransport, EveryMemberWaitsForAllOthersBeforeItReadsAndBeforeItGoesOn) {
  Replicas r(3);
  std::vector<at::Tensor> values(3, at::Tensor());
  for (at::Tensor& v : values) v = at::ones({4}, at::kDouble);
  r.on_all_ranks([&](int k) { r.transport->all_reduce(0, k, values[k].data_ptr(), 4, ElementType::float64); });
  for (const FakeRankDevice& device : r.devices) {
    EXPECT_EQ(device.events, 2);  // ready, done
    EXPECT_EQ(device.waits, 6);   // both of all three
  }
}

TEST(DeviceThreadTransport, HandsMessagesOnWithTheirEvent) {
  Replicas r(2);
  const auto event = std::make_shared<int>(7);
  r.transport->send(0, {std::make_shared<int>(3), event});
  const Message message = r.transport->receive(0);
  EXPECT_EQ(*static_cast<int*>(message.payload.get()), 3);
  EXPECT_EQ(message.ready, event);
}

TEST(DeviceThreadTransport, AnAbortWakesAMemberThatWaitsForTheOthers) {
  Replicas r(2);
  float value = 1;
  std::thread waiting(
      [&] { EXPECT_THROW(r.transport->all_reduce(0, 0, &value, 1, ElementType::float32), TransportAborted); });
  r.transport->abort();
  waiting.join();
}

TEST(RankDevices, NeighboursShareWhereThereAreFewerGpusThanRanks) {
  const auto of = [](std::size_t ranks, int devices) {
    std::vector<int> all;
    for (std::size_t r = 0; r < ranks; ++r) all.push_back(device_of_rank(r, ranks, devices));
    return all;
  };
  EXPECT_EQ(of(4, 1), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(of(4, 2), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(of(4, 8), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(of(5, 3), (std::vector<int>{0, 0, 1, 1, 2}));
}

TEST(GpuMemory, CountsWhatTheAllocatorTellsUnderTheScopeOfTheThread) {
  MemoryCounters* counters = new_counters(/*of_gpu=*/true);
  int a = 0, b = 0;  // addresses stand for blocks
  {
    const MemoryScope scope(counters, MemoryKind::weights);
    note_gpu_allocation(&a, 100);
    const at::Tensor staging = at::zeros({1000});  // on the host: not the rank's
  }
  {
    const MemoryScope scope(counters, MemoryKind::buffers);
    note_gpu_allocation(&b, 30);
  }
  EXPECT_EQ(counters->peak().weights, Bytes(100));
  EXPECT_EQ(counters->peak().total(), Bytes(130));
  note_gpu_release(&b);
  counters->reset_peak();
  EXPECT_EQ(counters->peak().total(), Bytes(100));
  note_gpu_release(&a);
  note_gpu_release(&a);  // unknown by now: nothing happens
  counters->reset_peak();
  EXPECT_EQ(counters->peak().total(), Bytes(0));
}

TEST(GpuMemory, IsNotCountedByARankOfTheCpu) {
  MemoryCounters* counters = new_counters();
  int block = 0;
  const MemoryScope scope(counters, MemoryKind::weights);
  note_gpu_allocation(&block, 100);
  EXPECT_EQ(counters->peak().total(), Bytes(0));
  note_gpu_release(&block);
}

}  // namespace
}  // namespace sluice
