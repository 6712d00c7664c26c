// What the transports cost: a message of N bytes there and back, on threads and over MPI, and for comparison, in
// the same run, what it could cost at best: a pointer handed from thread to thread and back through two atomics, and
// the same bytes by MPI_Send and MPI_Recv between the same processes.
//
//   mpirun -n 2 build/mpi_mpi_bench --benchmark_enable_random_interleaving=true
//          --benchmark_repetitions=10 --benchmark_report_aggregates_only=true
//
// Every process measures the same number of trips; the first one reports. MPI's own are `raw_mpi`, ours `mpi`.
//
// The last lines are the ratios that matter: the quickest of ours over the quickest raw and median
// over median, and whether both are over 1.10 from 64 KiB on. A transport is one entry of `Way`:
// another library's is added there with its raw calls.
#include <benchmark/benchmark.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "harness/exec/mpi/mpi.h"
#include "harness/exec/mpi/mpi_parts.h"
#include "harness/exec/threads.h"

namespace sluice {
namespace {

ProcessGroup* job = nullptr;

using Payload = std::vector<std::byte>;

class PayloadCodec : public MessageCodec {
 public:
  Encoded encode(Message& message) override {
    auto& bytes = *static_cast<Payload*>(message.payload.get());
    const std::size_t size = bytes.size();
    Encoded encoded;
    encoded.header.resize(sizeof size);
    std::memcpy(encoded.header.data(), &size, sizeof size);
    encoded.parts = {bytes};
    return encoded;
  }
  // Room is used again, as torch's allocator does with memory of the same size.
  Message make_room(std::span<const std::byte> header, std::vector<std::span<std::byte>>& parts) override {
    std::size_t size = 0;
    std::memcpy(&size, header.data(), sizeof size);
    for (const auto& room : rooms_)
      if (room.use_count() == 1 && room->size() == size) {
        parts = {*room};
        return {room};
      }
    rooms_.push_back(std::make_shared<Payload>(size));
    parts = {*rooms_.back()};
    return {rooms_.back()};
  }

 private:
  std::vector<std::shared_ptr<Payload>> rooms_;
};

Program two_ranks() {
  Program program;
  program.ranks.resize(2);
  program.channels = {{Rank(0), Rank(1), 1}, {Rank(1), Rank(0), 1}};
  return program;
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Seconds of `trips` there and back, of `bytes` each. Over processes: called by both at once.
double over_threads(std::size_t bytes, int trips) {
  const Program program = two_ranks();
  const auto transport = make_thread_transport(program);
  std::thread echo([&] {
    for (int k = 0; k < trips; ++k) transport->send(1, transport->receive(0));
  });
  Message message{std::make_shared<Payload>(bytes)};
  const auto start = Clock::now();
  for (int k = 0; k < trips; ++k) {
    transport->send(0, std::move(message));
    message = transport->receive(1);
  }
  const double seconds = seconds_since(start);
  echo.join();
  return seconds;
}

double raw_threads(std::size_t bytes, int trips) {
  std::atomic<Payload*> there{nullptr}, back{nullptr};
  // mpirun may have bound this process to a core, which both threads share then.
  cpu_set_t cores;
  const bool crowded = sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) < 2;
  const auto take = [&](std::atomic<Payload*>& from) {
    for (Backoff backoff(crowded);; backoff.pause())
      if (from.load(std::memory_order_relaxed))
        if (Payload* p = from.exchange(nullptr)) return p;
  };
  std::thread echo([&] {
    for (int k = 0; k < trips; ++k) back.store(take(there));
  });
  Payload payload(bytes);
  Payload* p = &payload;
  const auto start = Clock::now();
  for (int k = 0; k < trips; ++k) {
    there.store(p);
    p = take(back);
  }
  const double seconds = seconds_since(start);
  echo.join();
  return seconds;
}

double over_mpi(std::size_t bytes, int trips) {
  const Program program = two_ranks();
  PayloadCodec codec;
  const auto transport = job->transport(program, codec);
  Message message{std::make_shared<Payload>(bytes)};
  const bool first = job->rank() == 0;
  const auto trip = [&] {
    if (first) transport->send(0, std::move(message));
    message = transport->receive(first ? 1 : 0);
    if (!first) transport->send(1, std::move(message));
  };
  trip();  // the header goes, and the room is made that is used again
  job->barrier();
  const auto start = Clock::now();
  for (int k = 0; k < trips; ++k) trip();
  return seconds_since(start);
}

double raw_mpi(std::size_t bytes, int trips) {
  Payload payload(bytes);
  const int size = static_cast<int>(bytes), other = 1 - job->rank();
  job->barrier();
  const auto start = Clock::now();
  for (int k = 0; k < trips; ++k) {
    const auto send = [&] { MPI_Send(payload.data(), size, MPI_BYTE, other, 0, MPI_COMM_WORLD); };
    if (job->rank() == 0) send();
    MPI_Recv(payload.data(), size, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (job->rank() == 1) send();
  }
  return seconds_since(start);
}

struct Way {
  const char* name;
  double (*trips)(std::size_t bytes, int trips);
  const char* raw;         // the way that is its lower bound; none: is one
  bool processes = false;  // measured by both processes at once
};
const std::vector<Way> kWays = {{"raw_threads", raw_threads, nullptr},
                                {"threads", over_threads, "raw_threads"},
                                {"raw_mpi", raw_mpi, nullptr, true},
                                {"mpi", over_mpi, "raw_mpi", true}};

// Enough that a run's beginning, in memory that no cache holds yet, does not count.
int trips_of(std::size_t bytes) { return bytes >= (1 << 20) ? 20 : 50; }
std::map<std::pair<std::string, std::int64_t>, std::vector<double>> measured;  // seconds, one way

void one_way(benchmark::State& state, const Way& way) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const int trips = trips_of(bytes);
  for (auto _ : state) {
    // The first process reports and so decides how often; the second follows.
    if (way.processes) job->broadcast(std::string(way.name) + " " + std::to_string(bytes), 0);
    way.trips(bytes, 1);
    const double seconds = way.trips(bytes, trips);
    state.SetIterationTime(seconds);
    measured[{way.name, state.range(0)}].push_back(seconds / trips / 2);
  }
  state.counters["one_way"] = benchmark::Counter(static_cast<double>(state.iterations()) * trips * 2,
                                                 benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetBytesProcessed(state.iterations() * trips * 2 * state.range(0));
}

void follow() {
  for (;;) {
    const std::string word = job->broadcast("", 0);
    if (word.empty()) return;
    const std::size_t space = word.find(' ');
    const auto bytes = static_cast<std::size_t>(std::stoll(word.substr(space)));
    for (const Way& way : kWays)
      if (word.substr(0, space) == way.name) {
        way.trips(bytes, 1);
        way.trips(bytes, trips_of(bytes));
      }
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void print_ratios() {
  for (const Way& way : kWays) {
    if (!way.raw) continue;
    for (const auto& [key, seconds] : measured) {
      if (key.first != way.name || !measured.contains({way.raw, key.second})) continue;
      // The quickest, because what else runs on the machine only ever adds; the medians, because
      // the machine may be quick for a moment that only one of the two meets.
      const std::vector<double>& bare = measured.at({way.raw, key.second});
      const double own = std::ranges::min(seconds), raw = std::ranges::min(bare);
      const double middle = median(seconds) / median(bare);
      std::printf("%-8s %9lld bytes: one way %9.2f us, %s %9.2f us, ratio %.3f (of medians %.3f)%s\n", way.name,
                  static_cast<long long>(key.second), own * 1e6, way.raw, raw * 1e6, own / raw, middle,
                  way.processes && key.second >= 65536 && std::min(own / raw, middle) > 1.10 ? "  over 1.10" : "");
    }
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  using namespace sluice;
  const auto processes = join_mpi_job();
  job = processes.get();
  if (processes->size() != 2) {
    if (processes->rank() == 0) std::fprintf(stderr, "error: start it as: mpirun -n 2 %s\n", argv[0]);
    return 2;
  }
  if (processes->rank() == 1) {
    follow();
    return 0;
  }
  // Ways side by side at each size, so that what else the machine does meets both alike.
  for (const std::int64_t bytes : {8, 4096, 65536, 1 << 20, 8 << 20})
    for (const Way& way : kWays)
      benchmark::RegisterBenchmark(way.name, [&way](benchmark::State& s) { one_way(s, way); })
          ->Arg(bytes)
          ->UseManualTime()
          ->Iterations(40)
          ->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  processes->broadcast("", 0);
  print_ratios();
}
