// Sessions whose ranks talk over NCCL, here one made of threads (exec/nccl/fake_devices.h) between devices that are the
// CPU: what workers hand it can be sent from device to device, and they train to the bits that ranks on threads do.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "harness/base/json.h"
#include "harness/exec/nccl/fake_devices.h"
#include "harness/exec/session.h"
#include "harness/exec/threads.h"
#include "harness/exec/torch/session/device_backend.h"
#include "harness/exec/torch/stage/fake_rank_device.h"
#include "harness/exec/torch/stage/tensor_message.h"
#include "harness/pipeline/tensor_members.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

FakeDevices& devices() {
  static FakeDevices all;
  return all;
}

// Computes on the rank's thread, so what a stream is to wait for the thread waits for.
class DeviceWithStream : public FakeRankDevice {
 public:
  void* stream() const override { return stream_; }
  Event record() override { return devices().record(stream_); }
  void wait(const Event& event) override {
    if (event) devices().synchronize(event);
  }
  bool passed(const Event& event) override { return devices().passed(event); }
  void wait_on_host(const Event& event) override { devices().synchronize(event); }

 private:
  DeviceCalls::Stream stream_ = devices().make_stream();
};

// Collectives go on behind the rank's stream, and so must the thread that stands for it.
class Followed : public Transport {
 public:
  Followed(std::unique_ptr<Transport> nccl, const Program& program, std::vector<RankDevice*> ranks)
      : nccl_(std::move(nccl)), groups_(collective_groups(program)), ranks_(std::move(ranks)) {}

  void send(int channel, Message message) override { nccl_->send(channel, std::move(message)); }
  Message receive(int channel) override { return nccl_->receive(channel); }
  void all_reduce(int group, int member, void* data, std::size_t count, ElementType type) override {
    nccl_->all_reduce(group, member, data, count, type);
    follow(group, member);
  }
  void all_gather(int group, int member, const Shard& own, void* data, std::size_t count, ElementType type) override {
    nccl_->all_gather(group, member, own, data, count, type);
    follow(group, member);
  }
  void reduce_scatter(int group, int member, void* data, std::size_t count, ElementType type) override {
    nccl_->reduce_scatter(group, member, data, count, type);
    follow(group, member);
  }
  void abort() override { nccl_->abort(); }

 private:
  void follow(int group, int member) {
    const auto& members = groups_[group];
    RankDevice& rank = *ranks_[members[member].index()];
    rank.wait_on_host(rank.record());
  }

  std::unique_ptr<Transport> nccl_;
  std::vector<std::vector<Rank>> groups_;
  std::vector<RankDevice*> ranks_;
};

at::Tensor block_on_cpu(std::int64_t bytes, DeviceCalls::Stream) {
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte));
}

class FakeNccl : public DeviceTransports {
 public:
  explicit FakeNccl(std::vector<RankDevice*> ranks) : ranks_(std::move(ranks)) {}

  std::unique_ptr<Transport> make(const Program& program) override {
    const CommunicatorPlan plan = plan_communicators(program);
    std::vector<NcclLinks::LocalRank> locals;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      locals.push_back({Rank(r), static_cast<int>(r), ranks_[r]->stream()});
    links_ = std::make_unique<NcclLinks>(plan, locals, NcclLinks::make_ids(plan, devices()), devices(), 60);
    return std::make_unique<Followed>(make_nccl_transport(program, *links_, make_thread_transport(program), buffers_),
                                      program, ranks_);
  }

 private:
  std::vector<RankDevice*> ranks_;
  TensorBuffers buffers_{at::kCPU, block_on_cpu};
  std::unique_ptr<NcclLinks> links_;
};

std::vector<std::unique_ptr<RankDevice>> devices_with_streams(std::size_t ranks, ProcessGroup*) {
  std::vector<std::unique_ptr<RankDevice>> all;
  for (std::size_t r = 0; r < ranks; ++r) all.push_back(std::make_unique<DeviceWithStream>());
  return all;
}

std::unique_ptr<DeviceTransports> make_transports(std::vector<RankDevice*> ranks, ProcessGroup*) {
  return std::make_unique<FakeNccl>(std::move(ranks));
}

constexpr std::int64_t kNcclBatch = 24;
constexpr int kNcclMicros = 6, kNcclUpdates = 4;

// Layers that keep different numbers of tensors, one of them integers, for their W.
ModelGraph model_of_texts() {
  return {.name = "texts",
          .inputs = {{.shape = {5}, .is_token_ids = true}},
          .layers = {{"a", Embedding{12, 6}, {-1}},
                     {"b", LayerNorm{6}, {0}},
                     {"c", Activation{Activation::Kind::tanh}, {1}},
                     {"d", Linear{6, 4}, {2}},
                     {"loss", CrossEntropyLoss{}, {3}}}};
}

struct NcclOutcome {
  std::vector<std::vector<double>> weights;
  std::vector<double> losses;
  bool operator==(const NcclOutcome&) const = default;
};

NcclOutcome train_by(const std::vector<PlanStage>& stages, const Program& program, bool nccl) {
  register_device_backend({.rejection = [] { return ""; },
                           .describe = [] { return nullptr; },
                           .make_devices = devices_with_streams,
                           .make_nccl_transports = make_transports});
  SessionSpec spec{.model = model_of_texts()};
  if (program.tensor > 1) {
    spec.tensor = std::make_shared<const TensorModel>(split_tensors(model_of_texts(), program.tensor));
    spec.model = spec.tensor->all;
  }
  spec.plan.stages = stages;
  spec.plan.micro_batch = spec.micro_batch = kNcclBatch / kNcclMicros;
  spec.optimizer = {.learning_rate = 0.1, .momentum = 0.9};
  spec.synthetic_batch = kNcclBatch;
  spec.sharding = program.sharding;
  if (nccl) spec.device = "cuda", spec.transport = "nccl";
  const auto session = make_session(spec);
  RunRequest request;
  request.iterations = kNcclUpdates;
  request.timeout = Seconds(60);
  NcclOutcome outcome{{}, session->run(program, request).losses};
  for (int l = 0; l < static_cast<int>(model_of_texts().layers.size()); ++l)
    outcome.weights.push_back(session->weights(l));
  return outcome;
}

void expect_same_bits(const std::vector<PlanStage>& stages, const Program& program) {
  const NcclOutcome threads = train_by(stages, program, false);
  EXPECT_EQ(threads.losses.size(), static_cast<std::size_t>(kNcclUpdates));
  EXPECT_TRUE(train_by(stages, program, true) == threads);
}

TEST(RanksOverNccl, TrainAPipelineToTheSameBitsAsRanksOnThreads) {
  expect_same_bits({{.layers = {0, 1}, .devices = {DeviceId(0)}}, {.layers = {2, 3, 4}, .devices = {DeviceId(1)}}},
                   lower(example_1f1b(2, kNcclMicros), chain(2), one_stage_per_rank(2), WeightRule{}));
}

TEST(RanksOverNccl, SumInsideTheOpsOfLayersThatTheyShare) {
  Plan groups;
  groups.stages = {{.layers = {0, 1}, .devices = {DeviceId(0)}}, {.layers = {2, 3, 4}, .devices = {DeviceId(1)}}};
  const Plan plan = members_of(groups, 2);
  const StageGraph graph = stage_graph(4, {{StageId(0), StageId(2)}, {StageId(1), StageId(3)}}, "test");
  Program program = lower(members_of(example_1f1b(2, kNcclMicros), 2), graph, ranks_of(plan).placement, WeightRule{});
  program.tensor = 2;
  expect_same_bits(plan.stages, program);
}

// Stage s on ranks 2 s (F and I) and 2 s + 1 (W): what a W reads crosses, and how much that is.
TEST(RanksOverNccl, HandOverWhatAWeightGradientReads) {
  const std::vector<PlanStage> stages{
      {.layers = {0, 1, 2}, .devices = {DeviceId(0)}, .weight_gradient_device = DeviceId(1)},
      {.layers = {3, 4}, .devices = {DeviceId(2)}, .weight_gradient_device = DeviceId(3)}};
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(4), .microbatches = kNcclMicros};
  for (int s = 0; s < 2; ++s) {
    auto& ops = schedule.ranks[2 * s];
    for (int i = 0; i < kNcclMicros; ++i) ops.push_back(forward_op(s, i));
    for (int i = 0; i < kNcclMicros; ++i) {
      ops.push_back({OpKind::input_gradient, StageId(s), Micro(i)});
      schedule.ranks[2 * s + 1].push_back({OpKind::weight_gradient, StageId(s), Micro(i)});
    }
  }
  const Placement placement{.stages = {{Rank(0)}, {Rank(2)}}, .weight_gradient_ranks = {Rank(1), Rank(3)}};
  expect_same_bits(stages, lower(schedule, chain(2), placement, WeightRule{}));
}

TEST(RanksOverNccl, ReduceGatherAndScatter) {
  const std::vector<PlanStage> stages{{.layers = {0, 1, 2, 3, 4}, .devices = {DeviceId(0), DeviceId(1)}}};
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(2), .microbatches = kNcclMicros};
  for (int i = 0; i < kNcclMicros; ++i) {
    auto& ops = schedule.ranks[i % 2];
    ops.push_back(forward_op(0, i));
    ops.push_back(backward_op(0, i));
  }
  const Placement placement{.stages = {{Rank(0), Rank(1)}}};
  using Gather = Sharding::Gather;
  using Reduce = Sharding::Reduce;
  for (const Sharding& sharding : {Sharding{}, Sharding{.gather = Gather::on_use, .reduce = Reduce::per_microbatch},
                                   Sharding{.gather = Gather::after_step, .reduce = Reduce::accumulated}})
    expect_same_bits(stages, lower(schedule, chain(1), placement, WeightRule{}, sharding));
}

// What arrives of a message on the other side.
TensorMessage sent_over(TensorBuffers& buffers, const TensorMessage& message) {
  const Message sent{std::make_shared<TensorMessage>(message)};
  const std::vector<std::int64_t> header = buffers.header(sent);
  const Message room = buffers.room_for(header, nullptr);
  const auto from = buffers.buffers(sent), to = buffers.buffers(room);
  EXPECT_EQ(from.size(), to.size());
  for (std::size_t k = 0; k < from.size(); ++k) {
    EXPECT_EQ(from[k].bytes, to[k].bytes);
    if (from[k].bytes > 0) std::memcpy(to[k].data, from[k].data, from[k].bytes);
  }
  return *static_cast<TensorMessage*>(room.payload.get());
}

TEST(TensorBuffers, NumbersAndTensorsArriveAsTheyWereSent) {
  TensorBuffers buffers(at::kCPU, block_on_cpu);
  const at::Tensor transposed = at::randn({3, 2}).t(), ids = at::arange(4), none = at::empty({0, 3}),
                   gaps = at::randn({4, 6}).slice(1, 1, 4), mask = at::randn({5}).gt(0),
                   scalar = at::tensor(2.5, at::kDouble);
  const std::vector<at::Tensor> tensors{transposed, {}, ids, none, gaps, mask, scalar};
  const TensorMessage got = sent_over(buffers, {tensors, {2, 0, 5}});
  EXPECT_EQ(got.numbers, (std::vector<std::int64_t>{2, 0, 5}));
  ASSERT_EQ(got.tensors.size(), tensors.size());
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    ASSERT_EQ(got.tensors[k].defined(), tensors[k].defined());
    if (!tensors[k].defined()) continue;
    EXPECT_EQ(got.tensors[k].scalar_type(), tensors[k].scalar_type());
    EXPECT_TRUE(at::equal(got.tensors[k], tensors[k])) << k;
  }
  EXPECT_EQ(got.tensors[0].strides(), transposed.strides());
}

TEST(TensorBuffers, TensorsThatShareMemoryTravelOnceAndShareIt) {
  TensorBuffers buffers(at::kCPU, block_on_cpu);
  const at::Tensor all = at::randn({4, 8});
  // Columns 2-3 and 4-7, and the latter once more; columns 0 and 1 are nobody's.
  const at::Tensor left = all.slice(1, 2, 4), right = all.slice(1, 4, 8), other = at::randn({3});
  const Message sent{std::make_shared<TensorMessage>(TensorMessage{{left, other, right, right}, {}})};
  std::size_t bytes = 0;
  for (const DeviceBuffer& buffer : buffers.buffers(sent)) bytes += buffer.bytes;
  EXPECT_EQ(bytes, (4 * 8 - 2 + 3) * sizeof(float));
  const TensorMessage got = sent_over(buffers, {{left, other, right, right}, {}});
  EXPECT_TRUE(at::equal(got.tensors[0], left));
  EXPECT_TRUE(at::equal(got.tensors[1], other));
  EXPECT_TRUE(at::equal(got.tensors[2], right));
  EXPECT_EQ(got.tensors[2].data_ptr(), got.tensors[3].data_ptr());
  EXPECT_TRUE(got.tensors[0].is_alias_of(got.tensors[2]));
  EXPECT_FALSE(got.tensors[0].is_alias_of(got.tensors[1]));
}

TEST(TensorBuffers, ATensorThatIsNotOnTheDeviceIsNotSent) {
  TensorBuffers buffers(at::kCPU, block_on_cpu);
  const at::Tensor elsewhere = at::empty({2}, at::TensorOptions().device(at::kMeta));
  EXPECT_THROW(buffers.header({std::make_shared<TensorMessage>(TensorMessage{{elsewhere}, {}})}), std::logic_error);
}

}  // namespace
}  // namespace sluice
