#include "harness/exec/nccl/nccl_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "harness/exec/executor_test_support.h"
#include "harness/exec/nccl/fake_devices.h"

namespace sluice {
namespace {

// A message of two tensors. What is left of one that was given back is spoilt, so that a transport
// that lets go of it too early is seen.
struct Parcel {
  std::vector<double> first, second;
  ~Parcel() {
    std::ranges::fill(first, NAN);
    std::ranges::fill(second, NAN);
  }
};

class ParcelBuffers : public MessageBuffers {
 public:
  explicit ParcelBuffers(FakeDevices& devices) : devices_(devices) {}
  std::vector<std::int64_t> header(const Message& message) override {
    const Parcel& p = of(message);
    return {static_cast<std::int64_t>(p.first.size()), static_cast<std::int64_t>(p.second.size())};
  }
  // Given back behind what the stream still has to do, as a GPU's allocator does it: a receive that
  // is under way when the run stops still writes there.
  Message room_for(std::span<const std::int64_t> header, DeviceCalls::Stream stream) override {
    const std::shared_ptr<Parcel> parcel(new Parcel, [this, stream](Parcel* left) {
      devices_.launch(stream, [owned = std::shared_ptr<Parcel>(left)] {});
    });
    parcel->first.resize(header[0]);
    parcel->second.resize(header[1]);
    return {parcel};
  }
  std::vector<DeviceBuffer> buffers(const Message& message) override {
    Parcel& p = of(message);
    return {{p.first.data(), 8 * p.first.size()}, {p.second.data(), 8 * p.second.size()}};
  }
  static Parcel& of(const Message& message) { return *static_cast<Parcel*>(message.payload.get()); }

 private:
  FakeDevices& devices_;
};

// What a message of a micro-batch from one stage to another holds.
double value_of(bool gradient, StageId from, StageId to, Micro micro, int iteration) {
  return 1000 * iteration + 100 * from.value + 10 * to.value + micro.value + (gradient ? 0.5 : 0);
}

// Does everything on the rank's stream, as a GPU would, late and out of step with the host. Checks
// there what messages hold and what reductions give.
class StreamWorker : public Worker {
 public:
  StreamWorker(FakeDevices& devices, DeviceCalls::Stream stream, Rank rank)
      : devices_(devices), stream_(stream), rank_(rank), random_(static_cast<unsigned>(rank.value)) {}

  std::atomic<int> wrong{0}, checked{0};
  bool in_buckets = false;  // hands its gradients out while more is queued behind them
  int buckets = 0;

  void begin_run(const Program& program) override {
    program_ = &program;
    sums_.assign(program.placement.stages.size(), std::vector<double>(3, 0));
  }
  void begin_iteration(int iteration) override { iteration_ = iteration; }
  void compute(const Instruction& op) override {
    launch([] {});
    if (op.opcode == Opcode::backward || op.opcode == Opcode::weight_gradient) {
      double* sum = sums_[op.stage.index()].data();
      launch([sum, op] { sum[0] += op.micro.value + 1; });
    }
  }
  bool compute_in_buckets(const Instruction& op, const std::function<void(const Buffer&)>& ready) override {
    if (!in_buckets) return false;
    compute(op);
    const Buffer all = gradients(op.stage);
    ready({all.data, 1, all.type});
    launch([] {});
    ready({static_cast<double*>(all.data) + 1, 2, all.type});
    ++buckets;
    return true;
  }
  Message take(const Instruction& send) override {
    auto parcel = std::make_shared<Parcel>();
    parcel->first.resize(1 + send.micro.value);
    parcel->second.resize(2);
    const double value =
        value_of(send.opcode == Opcode::send_gradient, send.stage, send.peer_stage, send.micro, iteration_);
    // By address: whoever has the message must keep it.
    double *first = parcel->first.data(), *second = parcel->second.data();
    launch([first, second, n = parcel->first.size(), value] {
      std::fill_n(first, n, value);
      std::fill_n(second, 2, -value);
    });
    return {parcel};
  }
  void put(const Instruction& receive, Message message) override {
    devices_.wait(stream_, message.ready);
    const double value = value_of(receive.opcode == Opcode::receive_gradient, receive.peer_stage, receive.stage,
                                  receive.micro, iteration_);
    launch([this, message, value, n = 1 + static_cast<std::size_t>(receive.micro.value)] {
      const Parcel& p = ParcelBuffers::of(message);
      const bool right = p.first.size() == n && p.second.size() == 2 &&
                         std::ranges::count(p.first, value) == static_cast<std::ptrdiff_t>(n) &&
                         std::ranges::count(p.second, -value) == 2;
      right ? ++checked : ++wrong;
    });
  }
  Buffer gradients(StageId stage) override { return {sums_[stage.index()].data(), 3, ElementType::float64}; }
  void step(const Instruction& step) override {
    double* sum = sums_[step.stage.index()].data();
    const double n = program_->microbatches, all = n * (n + 1) / 2;
    launch([this, sum, all] {
      sum[0] == all ? ++checked : ++wrong;
      sum[0] = 0;
    });
  }
  void end_run() override { devices_.synchronize(devices_.record(stream_)); }

 private:
  void launch(std::function<void()> work) {
    const int late = static_cast<int>(random_() % 40);
    devices_.launch(stream_, [late, work = std::move(work)] {
      if (late < 10) std::this_thread::sleep_for(std::chrono::microseconds(10 * late));
      work();
    });
  }

  FakeDevices& devices_;
  DeviceCalls::Stream stream_;
  Rank rank_;
  std::mt19937 random_;
  const Program* program_ = nullptr;
  int iteration_ = 0;
  std::vector<std::vector<double>> sums_;
};

// A program, its ranks on devices, connected.
struct Connected {
  const Program program;
  FakeDevices devices;
  ParcelBuffers parcels{devices};
  std::vector<NcclLinks::LocalRank> ranks;
  std::vector<NcclId> ids;
  std::unique_ptr<NcclLinks> links;

  explicit Connected(Program p, double timeout = 60) : program(std::move(p)) {
    for (std::size_t r = 0; r < program.rank_count(); ++r)
      ranks.push_back({Rank(r), static_cast<int>(r), devices.make_stream()});
    const CommunicatorPlan plan = plan_communicators(program);
    ids = NcclLinks::make_ids(plan, devices);
    links = std::make_unique<NcclLinks>(plan, ranks, ids, devices, timeout);
  }
  std::unique_ptr<Transport> transport() {
    return make_nccl_transport(program, *links, make_thread_transport(program), parcels);
  }
  // Until the ranks' streams have done what they were given.
  void drain() {
    for (const auto& r : ranks) devices.synchronize(devices.record(r.compute));
  }
  std::vector<std::unique_ptr<Worker>> workers() {
    std::vector<std::unique_ptr<Worker>> all;
    for (const auto& r : ranks) all.push_back(std::make_unique<StreamWorker>(devices, r.compute, r.rank));
    return all;
  }
};

StreamWorker& stream_worker(const std::unique_ptr<Worker>& worker) { return static_cast<StreamWorker&>(*worker); }

void expect_right(const std::vector<std::unique_ptr<Worker>>& workers) {
  int checked = 0;
  for (const auto& worker : workers) {
    EXPECT_EQ(stream_worker(worker).wrong, 0);
    checked += stream_worker(worker).checked;
  }
  EXPECT_GT(checked, 0);
}

TEST(NcclTransport, CarriesEveryMessageOf1F1BWithItsContent) {
  Connected s(one_f_one_b(4, 9));
  const auto workers = s.workers();
  execute(s.program, *s.transport(), workers, {.iterations = 3});
  expect_right(workers);
}

TEST(NcclTransport, RunsAnyProgramThatTheCheckerPasses) {
  std::mt19937 random(11);
  int ran = 0;
  while (ran < 40) {
    std::optional<Program> program = random_program(random);
    if (!program) continue;
    SCOPED_TRACE(ran++);
    Connected s(std::move(*program));
    const auto workers = s.workers();
    execute(s.program, *s.transport(), workers, {.iterations = 2});
    expect_right(workers);
  }
}

TEST(NcclTransport, ReducesOverReplicasBehindWhatTheyCompute) {
  Connected s(data_parallel(3, 7));
  const auto workers = s.workers();
  execute(s.program, *s.transport(), workers, {.iterations = 5});
  expect_right(workers);
}

TEST(NcclTransport, ReducesInBucketsBehindWhatIsQueuedAndStepsBehindThem) {
  Connected s(data_parallel(3, 7));
  const auto workers = s.workers();
  for (const auto& worker : workers) stream_worker(worker).in_buckets = true;
  execute(s.program, *s.transport(), workers, {.iterations = 5});
  expect_right(workers);
  for (const auto& worker : workers) EXPECT_EQ(stream_worker(worker).buckets, 5);
}

TEST(NcclTransport, TheLinksServeOneRunAfterAnother) {
  Connected s(one_f_one_b(2, 4));
  for (int run = 0; run < 3; ++run) {
    const auto workers = s.workers();
    execute(s.program, *s.transport(), workers, {});
    expect_right(workers);
  }
}

TEST(NcclTransport, ASendWaitsForNobody) {
  // The receiver comes only after all were sent; on its stream the first of them waits for it.
  Connected s(one_f_one_b(2, 50));
  const auto transport = s.transport();
  const auto sent = [&](int i) {
    auto parcel = std::make_shared<Parcel>();
    parcel->first.assign(3, i);
    return Message{parcel};
  };
  for (int i = 0; i < 50; ++i) transport->send(0, sent(i));
  for (int i = 0; i < 50; ++i) {
    const Message message = transport->receive(0);
    s.devices.synchronize(message.ready);
    EXPECT_EQ(ParcelBuffers::of(message).first, std::vector<double>(3, i));
  }
}

TEST(NcclTransport, OneDirectionDoesNotHoldUpTheOther) {
  // Both send before either receives.
  Connected s(one_f_one_b(2, 8));
  const auto transport = s.transport();
  std::vector<std::thread> ranks;
  std::atomic<int> right{0};
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      auto parcel = std::make_shared<Parcel>();
      parcel->first = {r + 1.0};
      transport->send(r, {parcel});
      const Message message = transport->receive(1 - r);
      s.devices.synchronize(message.ready);
      if (ParcelBuffers::of(message).first[0] == 2.0 - r) ++right;
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(right, 2);
}

TEST(NcclTransport, GathersAndScatters) {
  // Slice k of three elements a member; what the transport's interface says of each.
  Connected s(data_parallel(3, 3));
  NcclLinks& links = *s.links;
  std::vector<std::vector<float>> gathered(3, std::vector<float>(6, -1)), scattered;
  for (int m = 0; m < 3; ++m) {
    gathered[m][2UL * m] = static_cast<float>(m);
    gathered[m][2UL * m + 1] = 10;
    scattered.emplace_back(6, static_cast<float>(m + 1));
  }
  for (int m = 0; m < 3; ++m) {
    NcclLinks::End& end = links.end(links.plan().of_group[0], m);
    links.ask(end, [&](DeviceCalls::Comm comm) {
      s.devices.collective(Reach::gather, comm, m, gathered[m].data(), 2, ElementType::float32, end.stream);
      s.devices.collective(Reach::scatter, comm, m, scattered[m].data(), 2, ElementType::float32, end.stream);
    });
  }
  for (int m = 0; m < 3; ++m) s.devices.synchronize(s.devices.record(links.end(links.plan().of_group[0], m).stream));
  for (std::size_t m = 0; m < 3; ++m) {
    EXPECT_EQ(gathered[m], (std::vector<float>{0, 10, 1, 10, 2, 10}));
    EXPECT_EQ(scattered[m][2 * m], 6);
    EXPECT_EQ(scattered[m][2 * m + 1], 6);
  }
}

TEST(NcclTransport, AnAbortWakesWhoeverWaits) {
  Connected s(one_f_one_b(2, 2));
  const auto transport = s.transport();
  std::thread waiting([&] { EXPECT_THROW(transport->receive(0), TransportAborted); });
  transport->abort();
  waiting.join();
  EXPECT_THROW(transport->send(1, {}), TransportAborted);
}

TEST(NcclTransport, ARankThatThrowsEndsTheRunOfAll) {
  Connected s(one_f_one_b(3, 6));
  auto workers = s.workers();
  class Throws : public StreamWorker {
   public:
    using StreamWorker::StreamWorker;
    void step(const Instruction&) override { throw std::runtime_error("no step today"); }
  };
  workers[1] = std::make_unique<Throws>(s.devices, s.ranks[1].compute, Rank(1));
  const auto transport = s.transport();
  try {
    execute(s.program, *transport, workers, {.iterations = 3});
    ADD_FAILURE() << "must throw";
  } catch (const RunStopped& stopped) {
    EXPECT_STREQ(stopped.what(), "no step today");
    EXPECT_EQ(stopped.rank, Rank(1));
  }
  EXPECT_TRUE(s.links->broken());
  s.drain();  // what the streams still write to is the transport's and the workers'
}

TEST(NcclTransport, AnErrorThatNcclFindsByItselfEndsTheRunWithItsReason) {
  Connected s(one_f_one_b(2, 4));
  const auto transport = s.transport();
  std::thread waiting([&] {
    try {
      transport->receive(0);
      ADD_FAILURE() << "must throw";
    } catch (const RunError& e) {
      EXPECT_STREQ(e.what(), "rank 0: NCCL: a link is down");
    }
  });
  s.devices.break_member(s.ids[0], 0, "a link is down");
  waiting.join();
}

TEST(NcclLinks, AMemberThatNeverComesIsAnErrorAndNoHang) {
  const Program program = one_f_one_b(2, 2);
  FakeDevices devices;
  const CommunicatorPlan plan = plan_communicators(program);
  const std::vector<NcclLinks::LocalRank> only_one{{Rank(1), 0, devices.make_stream()}};
  try {
    const NcclLinks links(plan, only_one, NcclLinks::make_ids(plan, devices), devices, 0.05);
    FAIL() << "must throw";
  } catch (const RunError& e) {
    EXPECT_STREQ(e.what(), "NCCL could not connect the ranks: rank 1: the other ranks did not come within 0 s");
  }
}

TEST(NcclLinks, MoreStreamsThanAGpuRunsAreRejected) {
  // One rank that hears from 40 others.
  Program program;
  program.ranks.resize(41);
  for (int r = 1; r <= 40; ++r) program.channels.push_back({Rank(r), Rank(0), 1});
  FakeDevices devices;
  const CommunicatorPlan plan = plan_communicators(program);
  EXPECT_THROW(NcclLinks(plan, {}, NcclLinks::make_ids(plan, devices), devices), RunError);
}

}  // namespace
}  // namespace sluice
