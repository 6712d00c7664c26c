// A session's set-up and its runs.
#include <c10/core/InferenceMode.h>
#include <torch/headeronly/version.h>

#include <climits>
#include <stdexcept>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "harness/exec/bytes.h"
#include "harness/exec/threads.h"
#include "harness/exec/throttled_transport.h"
#include "harness/exec/torch/session/libtorch.h"
#include "harness/exec/torch/session/synthetic_batch.h"
#include "harness/exec/torch/session/tensor_groups.h"
#include "harness/exec/torch/session/torch_session.h"
#include "harness/exec/torch/session/torch_words.h"
#include "harness/model/expert_spread.h"

namespace sluice {

namespace {

// The process keeps the memory that tensors free. The C library otherwise gives large tensors back to the system one by
// one, and every page of the next tensor is mapped and zeroed again.
void keep_freed_memory() {
#ifdef __GLIBC__
  static const bool kept = mallopt(M_MMAP_THRESHOLD, 1 << 30) == 1 && mallopt(M_TRIM_THRESHOLD, INT_MAX) == 1;
  static_cast<void>(kept);
#endif
}

}  // namespace

TorchSession::TorchSession(const SessionSpec& spec) : spec_(spec) {
  keep_freed_memory();
  install_counting_allocator();
  know_torch_errors();
  const c10::InferenceMode no_autograd;
  const NoStopScope together(processes() != nullptr);
  if (spec.sharding.active() && !spec.rule.synchronous())
    throw InputError("sharding", "the system updates without a flush, which needs whole weights",
                     "use it with replicas");
  if (spec.inference && spec.sharding.active())
    throw InputError("sharding", "inference runs with whole weights", "leave sharding out");
  if (spec.tensor && (spec.inference || spec.sharding.active() || spec.optimizer.treats_matrices()))
    throw InputError("tensor", "tensor parallelism trains, unsharded, with an optimizer of single elements",
                     "leave tensor out");
  if (replicas_of_experts(spec.model) > 1) {
    if (spec.inference || spec.sharding.active() || spec.tensor || spec.optimizer.treats_matrices() ||
        spec.device != "cpu")
      throw InputError("experts",
                       "experts are spread in training on the CPU, unsharded, without tensor parallelism and with an "
                       "optimizer of single elements",
                       "use replicated experts");
    whole_experts_ = with_whole_experts(spec.model);
  }
  context_.spec = &spec_;
  context_.options = at::TensorOptions().dtype(spec.double_precision ? at::kDouble : at::kFloat);
  if (!spec.feed) {
    const ModelGraph& model = spec.tensor ? spec.tensor->whole : spec.model;
    SyntheticBatch batch = make_synthetic_batch(model, spec.synthetic_batch, context_.options);
    context_.synthetic_features = std::move(batch.features);
    context_.synthetic_targets = std::move(batch.targets);
  }
  if (spec.device == "cuda") devices_ = make_rank_devices(ranks_of(spec.plan).devices.size(), processes());
  if (spec.transport == "nccl") nccl_ = make_nccl_transports(rank_devices(), processes());
  make_workers(starting_weights());
}

void TorchSession::make_workers(const std::vector<std::vector<at::Tensor>>& initial) {
  const SessionSpec& spec = spec_;
  workers_.clear();
  const std::vector<int> stage_of = stage_of_layers(spec.plan, spec.model.layers.size());
  interfaces_ = interfaces(spec_.model, stage_of, static_cast<int>(spec.plan.stages.size()));
  const RankMap ranks = ranks_of(spec.plan);
  placement_ = ranks.placement;
  std::vector<std::vector<StageId>> held(ranks.devices.size());
  for (std::size_t s = 0; s < placement_.stages.size(); ++s)
    for (const Rank r : placement_.stages[s]) held[r.index()].push_back(StageId(s));
  for (std::size_t s = 0; s < placement_.weight_gradient_ranks.size(); ++s)
    if (const Rank weight_gradient_rank = placement_.weight_gradient_ranks[s]; weight_gradient_rank.value >= 0)
      held[weight_gradient_rank.index()].push_back(StageId(s));
  loss_stage_ = StageId(stage_of.back());
  for (std::size_t r = 0; r < held.size(); ++r) {
    stop_now();
    workers_.emplace_back();
    if (!here(Rank(r))) continue;
    workers_.back() =
        std::make_unique<TorchWorker>(Rank(r), context_, held[r], placement_, interfaces_, initial, device_of(r));
    codec_.receiver = worker(r).counters();
  }
  for (std::size_t s = 0; s < placement_.stages.size(); ++s)
    for (const Rank r : placement_.stages[s])
      if (here(r)) worker(r.index()).weights(StageId(s)).follow(spec.rule, StageId(s));
}

std::vector<std::vector<at::Tensor>> TorchSession::starting_weights() const {
  if (!spec_.initial && spec_.tensor) return member_weights(*spec_.tensor, spec_.seed, context_.options);
  const ModelGraph& model = model_of_all_replicas();
  if (!spec_.initial) return initial_weights(model, spec_.seed, context_.options);
  std::vector<std::vector<at::Tensor>> result;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    auto& tensors = result.emplace_back();
    const auto specs = parameters(model.layers[l]);
    for (std::size_t p = 0; p < specs.size(); ++p)
      tensors.push_back(
          at::tensor((*spec_.initial)[l][p], at::kDouble).view(specs[p].shape).to(context_.options.dtype()));
  }
  return result;
}

std::vector<RankDevice*> TorchSession::rank_devices() const {
  std::vector<RankDevice*> all;
  for (const auto& device : devices_) all.push_back(device.get());
  return all;
}

std::unique_ptr<Transport> TorchSession::make_transport(const Program& program) {
  if (nccl_) return nccl_->make(program);
  if (processes()) return processes()->transport(program, codec_);
  if (!devices_.empty()) return make_device_thread_transport(program, rank_devices());
  return make_thread_transport(program);
}

// Whether every member keeps the whole weights all the time, as with ZeRO-1.
static bool keeps_whole(const Sharding& s) { return s.gather == Sharding::Gather::after_step; }

void TorchSession::check_sharding(const Program& program) const {
  for (std::size_t s = 0; s < placement_.stages.size(); ++s)
    if (program.sharded(StageId(s)) != sharded(StageId(s)) ||
        (sharded(StageId(s)) && keeps_whole(program.sharding) != keeps_whole(spec_.sharding)))
      throw std::logic_error("a program of other sharding than its session's");
}

static double bytes_of_message(const Message& message) {
  double bytes = 0;
  for (const at::Tensor& tensor : static_cast<const TensorMessage*>(message.payload.get())->tensors)
    if (tensor.defined()) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

RunResult TorchSession::run(const Program& program, const RunRequest& request) {
  if (program.forward_only != spec_.inference)
    throw std::logic_error("a session of inference runs forward-only programs, and only it does");
  check_sharding(program);
  context_.program = &program;
  context_.request = &request;
  context_.first_update = updates_;
  std::unique_ptr<Transport> transport = make_transport(program);
  if (request.disturbance && request.disturbance->throttles())
    transport = make_throttled_transport(std::move(transport), program, *request.disturbance, bytes_of_message);
  join_groups(program, *transport);
  RunResult result;
  ExecuteOptions options = request;
  options.processes = processes();
  result.execution = execute(program, *transport, workers_, options);
  const std::int64_t all = static_cast<std::int64_t>(request.iterations) * program.updates;
  const std::int64_t done = result.execution.ended.value_or(all);
  updates_ += result.execution.diverged.value_or(done);
  result.losses.assign(done, 0);
  const std::vector<RankLosses> losses = losses_of_ranks();
  for (const RankLosses& rank : losses)
    for (std::size_t u = 0; u < result.losses.size(); ++u) result.losses[u] += rank.losses[u];
  if (spec_.tensor || whole_experts_)
    for (const RankLosses& rank : losses) result.group_sums.push_back(rank.sums);
  for (const RankLosses& rank : losses) {
    result.output_digests.resize(rank.output_digests.size(), 0);
    for (std::size_t m = 0; m < rank.output_digests.size(); ++m) result.output_digests[m] += rank.output_digests[m];
  }
  if (result.execution.diverged) drop_unfinished_losses(losses, result.losses);
  if (request.keep_weights) {
    result.weights.resize(placement_.stages.size());
    for (std::size_t s = 0; s < placement_.stages.size(); ++s) result.weights[s] = kept_weights(StageId(s));
  }
  return result;
}

void TorchSession::drop_unfinished_losses(const std::vector<RankLosses>& ranks, std::vector<double>& losses) const {
  std::size_t whole = 0;
  const auto parts = [&](std::size_t u) {
    int sum = 0;
    for (const RankLosses& rank : ranks) sum += rank.parts[u];
    return sum;
  };
  while (whole < losses.size() && parts(whole) == own_worker().microbatches_of_update(whole)) ++whole;
  losses.resize(whole);
}

std::vector<TorchSession::RankLosses> TorchSession::losses_of_ranks() const {
  std::vector<RankLosses> all;
  if (!processes()) {
    for (std::size_t r = 0; r < workers_.size(); ++r)
      all.push_back({worker(r).losses(), worker(r).loss_parts(), worker(r).output_digests(), worker(r).group_sums()});
    return all;
  }
  const TorchWorker& own = own_worker();
  ByteWriter out;
  out.list(own.losses());
  out.list(own.loss_parts());
  out.list(own.output_digests());
  out.value(own.group_sums());
  for (const std::string& bytes : processes()->all_gather(out.bytes())) {
    ByteReader in(bytes);
    in.list(all.emplace_back().losses);
    in.list(all.back().parts);
    in.list(all.back().output_digests);
    in.value(all.back().sums);
  }
  return all;
}

std::vector<std::vector<double>> TorchSession::kept_weights(StageId stage) const {
  const auto& ranks = placement_.stages[stage.index()];
  std::vector<std::vector<double>> kept = kept_by(ranks.front(), stage);
  if (spreads_experts(stage)) return merged(stage, kept);
  if (!sharded(stage)) return kept;
  for (std::size_t k = 1; k < ranks.size(); ++k) {
    const auto slices = kept_by(ranks[k], stage);
    for (std::size_t u = 0; u < kept.size(); ++u) kept[u].insert(kept[u].end(), slices[u].begin(), slices[u].end());
  }
  for (auto& update : kept) update.resize(size_of(stage));
  return kept;
}

std::vector<std::vector<double>> TorchSession::merged(StageId stage,
                                                      const std::vector<std::vector<double>>& first) const {
  const auto& ranks = placement_.stages[stage.index()];
  std::vector<std::vector<at::Tensor>> replicas(first.size());  // by update
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    const auto kept = k == 0 ? first : kept_by(ranks[k], stage);
    for (std::size_t u = 0; u < kept.size(); ++u) replicas[u].push_back(at::tensor(kept[u], at::kDouble));
  }
  std::vector<std::vector<double>> result;
  for (const auto& update : replicas) {
    const at::Tensor all = merged(stage, update);
    result.emplace_back(all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel());
  }
  return result;
}

std::vector<std::vector<double>> TorchSession::kept_by(Rank rank, StageId stage) const {
  if (!processes()) return worker(rank.index()).kept_weights(stage);
  ByteWriter out;
  if (here(rank)) {
    const auto& own = worker(rank.index()).kept_weights(stage);
    out.value(own.size());
    for (const auto& update : own) out.list(update);
  }
  const std::string bytes = processes()->broadcast(out.bytes(), rank.value);
  ByteReader in(bytes);
  std::vector<std::vector<double>> kept(in.value<std::size_t>());
  for (auto& update : kept) in.list(update);
  return kept;
}

std::vector<MemoryByKind> TorchSession::peak_memory() const {
  std::vector<MemoryByKind> peaks;
  if (processes()) {
    ByteWriter own;
    own.value(peak_of(Rank(processes()->rank())));
    for (const std::string& bytes : processes()->all_gather(own.bytes()))
      peaks.push_back(ByteReader(bytes).value<MemoryByKind>());
    return peaks;
  }
  for (std::size_t r = 0; r < workers_.size(); ++r) peaks.push_back(peak_of(Rank(r)));
  return peaks;
}

void TorchSession::reset_peak_memory() {
  earlier_peaks_.clear();
  for (std::size_t r = 0; r < workers_.size(); ++r)
    if (here(Rank(r))) worker(r).counters()->reset_peak();
}

std::unique_ptr<Session> libtorch::make_session(const SessionSpec& spec) {
  return std::make_unique<TorchSession>(spec);
}

}  // namespace sluice
