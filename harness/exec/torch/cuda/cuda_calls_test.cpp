// NCCL itself. What needs GPUs skips by name where there are none.
#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <thread>

#include "harness/exec/threads.h"
#include "harness/exec/torch/cuda/cuda_test_support.h"
#include "harness/exec/torch/cuda/nccl_versions.h"

namespace sluice {
namespace {

TEST(Nccl, HeaderAndLibraryAreOfOneVersion) {
  const NcclVersions versions = nccl_versions();
  EXPECT_EQ(versions.header, versions.library);
  EXPECT_TRUE(versions.header.starts_with("2.")) << versions.header;
}

// Links of a program whose rank r is GPU r; work(r) on a thread of each.
void on_gpus(const Program& program, const std::function<void(int rank, Transport&, NcclLinks&)>& work) {
  const auto calls = make_cuda_calls();
  std::vector<NcclLinks::LocalRank> ranks;
  for (std::size_t r = 0; r < program.rank_count(); ++r) {
    calls->use_device(static_cast<int>(r));
    ranks.push_back({Rank(r), static_cast<int>(r), calls->make_stream()});
  }
  const CommunicatorPlan plan = plan_communicators(program);
  {
    NcclLinks links(plan, ranks, NcclLinks::make_ids(plan, *calls), *calls);
    FloatBuffers buffers;
    const auto transport = make_nccl_transport(program, links, make_thread_transport(program), buffers);
    std::vector<std::thread> threads;
    for (int r = 0; r < static_cast<int>(program.rank_count()); ++r)
      threads.emplace_back([&, r] {
        calls->use_device(r);
        work(r, *transport, links);
      });
    for (std::thread& thread : threads) thread.join();
  }
  for (const auto& rank : ranks) calls->drop_stream(rank.compute);
}

TEST(Nccl, LoopbackOnOneGpuCarriesAMessageToTheSameRank) {
  if (gpus() < 1) GTEST_SKIP() << "needs a CUDA device";
  const auto calls = make_cuda_calls();
  calls->use_device(0);
  const DeviceCalls::Comm comm = calls->connect(calls->make_id(), 1, 0);
  while (calls->state(comm).kind == DeviceCalls::State::Kind::in_progress) std::this_thread::yield();
  ASSERT_EQ(calls->state(comm).kind, DeviceCalls::State::Kind::ready) << calls->state(comm).error;
  const DeviceCalls::Stream stream = calls->make_stream();
  const DeviceFloats from({1, 2, 3}), to({0, 0, 0});
  ncclGroupStart();  // a rank that sends to itself must offer both ends at once
  calls->send(comm, 0, {{from.data, 12}}, stream);
  calls->receive(comm, 0, {{to.data, 12}}, stream);
  ncclGroupEnd();
  const auto settle = [&] {
    while (calls->state(comm).kind == DeviceCalls::State::Kind::in_progress) std::this_thread::yield();
    const DeviceCalls::Event done = calls->record(stream);
    while (!calls->passed(done)) std::this_thread::yield();
  };
  settle();
  EXPECT_EQ(to.values(), (std::vector<float>{1, 2, 3}));
  calls->collective(Reach::reduce, comm, 0, to.data, 3, ElementType::float32, stream);
  settle();
  EXPECT_EQ(to.values(), (std::vector<float>{1, 2, 3}));  // the sum over one member
  calls->abort(comm);
  calls->drop_stream(stream);
}

TEST(Nccl, TwoRanksSendToEachOtherAndNeitherWaits) {
  if (gpus() < 2) GTEST_SKIP() << "needs two CUDA devices";
  Program program;
  program.ranks.resize(2);
  program.channels = {{Rank(0), Rank(1), 8}, {Rank(1), Rank(0), 8}};
  on_gpus(program, [&](int rank, Transport& transport, NcclLinks& links) {
    for (int i = 0; i < 8; ++i) {
      const std::vector<float> values(static_cast<std::size_t>(1000 * (i + 1)), static_cast<float>(10 * rank + i));
      transport.send(rank, {std::make_shared<DeviceFloats>(values), {}});
    }
    for (int i = 0; i < 8; ++i) {
      const Message message = transport.receive(1 - rank);
      while (!links.calls().passed(message.ready)) std::this_thread::yield();
      EXPECT_EQ(FloatBuffers::of(message).values(),
                std::vector<float>(static_cast<std::size_t>(1000 * (i + 1)), static_cast<float>(10 * (1 - rank) + i)));
    }
  });
}

TEST(Nccl, TwoReplicasReduceTheirGradients) {
  if (gpus() < 2) GTEST_SKIP() << "needs two CUDA devices";
  Program program;
  program.ranks.resize(2);
  program.placement.stages = {{Rank(0), Rank(1)}};
  on_gpus(program, [&](int rank, Transport& transport, NcclLinks&) {
    const DeviceFloats values({1.0f + static_cast<float>(rank), 10});
    transport.all_reduce(0, rank, values.data, 2, ElementType::float32);
    EXPECT_EQ(values.values(), (std::vector<float>{3, 20}));
  });
}

TEST(Nccl, AnAbortEndsARankThatWaitsForItsPeer) {
  if (gpus() < 2) GTEST_SKIP() << "needs two CUDA devices";
  Program program;
  program.ranks.resize(2);
  program.placement.stages = {{Rank(0), Rank(1)}};
  on_gpus(program, [&](int rank, Transport& transport, NcclLinks&) {
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return transport.abort();
    }
    const DeviceFloats values({1});
    transport.all_reduce(0, 0, values.data, 1, ElementType::float32);  // the other never comes
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);                   // returns after the abort
  });
}

}  // namespace
}  // namespace sluice
