// NCCL between two processes: mpirun -n 2 cuda_test --gtest_filter='NcclProcesses.*'. With one GPU the two share it,
// which NCCL allows only if they seem to be on two hosts: bundled/run with SLUICE_SHARE_GPU=1 says so.
#include <functional>
#include <thread>

#include "harness/exec/mpi/mpi.h"
#include "harness/exec/torch/cuda/cuda_nccl.h"
#include "harness/exec/torch/cuda/cuda_test_support.h"

namespace sluice {
namespace {

class NcclProcesses : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (launch_from_environment().size == 2 && gpus() > 0) processes = join_mpi_job();
  }
  static void TearDownTestSuite() { processes.reset(); }
  void SetUp() override {
    if (!processes) GTEST_SKIP() << "needs two processes (mpirun -n 2) and a CUDA device";
  }

  static int rank() { return processes->rank(); }
  static float number() { return static_cast<float>(rank()); }

  static void run(const Program& program, const std::function<void(Transport&, NcclLinks&)>& work) {
    const auto calls = make_cuda_calls();
    const int device = rank() % gpus();
    calls->use_device(device);
    const NcclLinks::LocalRank own{Rank(rank()), device, calls->make_stream()};
    const CommunicatorPlan plan = plan_communicators(program);
    {
      NcclLinks links(plan, {own}, shared_ids(plan, *calls, *processes), *calls, /*timeout_seconds=*/30);
      FloatBuffers buffers;
      HeaderCodec headers;
      const auto transport = make_nccl_transport(program, links, processes->transport(program, headers), buffers);
      work(*transport, links);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      processes->barrier();
    }
    calls->drop_stream(own.compute);
  }

  // Both ranks are replicas of one stage.
  static Program one_group() {
    Program program;
    program.ranks.resize(2);
    program.placement.stages = {{Rank(0), Rank(1)}};
    return program;
  }

  static std::unique_ptr<ProcessGroup> processes;
};
std::unique_ptr<ProcessGroup> NcclProcesses::processes;

TEST_F(NcclProcesses, SendToEachOtherMessagesOfEverySizeBeforeTheyReceive) {
  Program program;
  program.ranks.resize(2);
  const std::vector<std::size_t> sizes = {1, 1000, 1 << 16, 1 << 20, 1 << 22};
  const int messages = static_cast<int>(sizes.size());
  program.channels = {{Rank(0), Rank(1), messages}, {Rank(1), Rank(0), messages}};
  run(program, [&](Transport& transport, NcclLinks& links) {
    // To free memory, or to read it, waits for all that the device does: for sends, too, whose receiver may then wait
    // for this rank. So both come last.
    std::vector<Message> sent, received;
    for (const std::size_t size : sizes) {
      sent.push_back({std::make_shared<DeviceFloats>(std::vector<float>(size, 1.5f + number())), {}});
      transport.send(rank(), sent.back());
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) received.push_back(transport.receive(1 - rank()));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      while (!links.calls().passed(received[i].ready)) std::this_thread::yield();
      EXPECT_EQ(FloatBuffers::of(received[i]).values(), std::vector<float>(sizes[i], 2.5f - number()));
    }
  });
}

TEST_F(NcclProcesses, AllReduceAddsBothMembers) {
  run(one_group(), [&](Transport& transport, NcclLinks&) {
    for (const std::size_t size : {2, 1 << 20}) {
      const DeviceFloats values(std::vector<float>(size, 1.0f + number()));
      transport.all_reduce(0, rank(), values.data, size, ElementType::float32);
      EXPECT_EQ(values.values(), std::vector<float>(size, 3));
    }
  });
}

TEST_F(NcclProcesses, AllGatherBringsTheOtherMembersSlice) {
  run(one_group(), [&](Transport& transport, NcclLinks&) {
    std::vector<float> own(4, -1);
    own[2 * rank()] = own[2 * rank() + 1] = 10.0f + number();
    const DeviceFloats values(own);
    transport.all_gather(0, rank(), {}, values.data, 2, ElementType::float32);
    EXPECT_EQ(values.values(), (std::vector<float>{10, 10, 11, 11}));
  });
}

TEST_F(NcclProcesses, ReduceScatterLeavesEachMemberItsSumOfTheSlices) {
  run(one_group(), [&](Transport& transport, NcclLinks&) {
    const float r = number();
    const DeviceFloats values({1 + r, 2 + r, 3 + r, 4 + r});
    transport.reduce_scatter(0, rank(), values.data, 2, ElementType::float32);
    const std::vector<float> sums = values.values();
    EXPECT_EQ(sums[2 * rank()], rank() == 0 ? 3 : 7);
    EXPECT_EQ(sums[2 * rank() + 1], rank() == 0 ? 5 : 9);
  });
}

}  // namespace
}  // namespace sluice
