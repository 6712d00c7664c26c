// The NCCL transport against raw NCCL calls, in the same run: a message there and back between two
// GPUs, waited for by the host at each end. Where there are not two GPUs every entry skips by name.
// What the transport adds: a header over the host, an event at each end, and its thread's sleep.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <thread>

#include "harness/exec/nccl/nccl_transport.h"
#include "harness/exec/threads.h"

namespace sluice {
namespace {

bool two_gpus(benchmark::State& state) {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count >= 2) return true;
  state.SkipWithError("needs two CUDA devices");
  return false;
}

// Memory of a device that is handed round and round: nothing is allocated while it is timed.
class OneBuffer : public MessageBuffers {
 public:
  explicit OneBuffer(std::size_t bytes) : bytes_(bytes) {
    for (int d = 0; d < 2; ++d) {
      cudaSetDevice(d);
      cudaMalloc(&data_[d], bytes);
    }
  }
  ~OneBuffer() override {
    for (void* data : data_) cudaFree(data);
  }
  void* on(int device) const { return data_[device]; }
  std::vector<std::int64_t> header(const Message&) override { return {0}; }
  Message room_for(std::span<const std::int64_t>, DeviceCalls::Stream) override {
    int device = 0;
    cudaGetDevice(&device);
    return {std::shared_ptr<void>(data_[device], [](void*) {}), {}};
  }
  std::vector<DeviceBuffer> buffers(const Message& message) override { return {{message.payload.get(), bytes_}}; }

 private:
  std::size_t bytes_;
  void* data_[2] = {nullptr, nullptr};
};

Program two_ways(int messages) {
  Program program;
  program.ranks.resize(2);
  program.channels = {{Rank(0), Rank(1), messages}, {Rank(1), Rank(0), messages}};
  return program;
}

// Both ends do `rounds` of: rank 0 sends and receives, rank 1 receives and sends.
constexpr int kRounds = 50;

void transport(benchmark::State& state) {
  if (!two_gpus(state)) return;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Program program = two_ways(kRounds);
  const auto calls = make_cuda_calls();
  std::vector<NcclLinks::LocalRank> ranks;
  for (int r = 0; r < 2; ++r) {
    calls->use_device(r);
    ranks.push_back({Rank(r), r, calls->make_stream()});
  }
  OneBuffer buffer(bytes);
  {
    const CommunicatorPlan plan = plan_communicators(program);
    NcclLinks links(plan, ranks, NcclLinks::make_ids(plan, *calls), *calls);
    for (auto _ : state) {
      const auto nccl = make_nccl_transport(program, links, make_thread_transport(program), buffer);
      const auto rounds = [&](int rank) {
        calls->use_device(rank);
        const auto send = [&] { nccl->send(rank, {std::shared_ptr<void>(buffer.on(rank), [](void*) {}), {}}); };
        for (int i = 0; i < kRounds; ++i) {
          if (rank == 0) send();
          const Message message = nccl->receive(1 - rank);
          cudaEventSynchronize(static_cast<cudaEvent_t>(message.ready.get()));
          if (rank == 1) send();
        }
      };
      const auto start = std::chrono::steady_clock::now();
      std::thread other([&] { rounds(1); });
      rounds(0);
      other.join();
      state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  for (const auto& rank : ranks) calls->drop_stream(rank.compute);
  state.SetBytesProcessed(state.iterations() * kRounds * 2 * state.range(0));
}

void raw_nccl(benchmark::State& state) {
  if (!two_gpus(state)) return;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  ncclComm_t comms[2][2];  // [direction][rank], as the transport has them
  for (auto& direction : comms) {
    const int devices[2] = {0, 1};
    ncclCommInitAll(direction, 2, devices);
  }
  OneBuffer buffer(bytes);
  for (auto _ : state) {
    const auto rounds = [&](int rank) {
      cudaSetDevice(rank);
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      const auto send = [&] { ncclSend(buffer.on(rank), bytes, ncclInt8, 1 - rank, comms[rank][rank], stream); };
      for (int i = 0; i < kRounds; ++i) {
        if (rank == 0) send();
        ncclRecv(buffer.on(rank), bytes, ncclInt8, 1 - rank, comms[1 - rank][rank], stream);
        cudaStreamSynchronize(stream);
        if (rank == 1) send();
      }
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    };
    const auto start = std::chrono::steady_clock::now();
    std::thread other([&] { rounds(1); });
    rounds(0);
    other.join();
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  for (auto& direction : comms)
    for (ncclComm_t comm : direction) ncclCommDestroy(comm);
  state.SetBytesProcessed(state.iterations() * kRounds * 2 * state.range(0));
}

BENCHMARK(raw_nccl)->RangeMultiplier(8)->Range(8, 64 << 20)->UseManualTime();
BENCHMARK(transport)->RangeMultiplier(8)->Range(8, 64 << 20)->UseManualTime();

}  // namespace
}  // namespace sluice
