// A session's set-up and its runs.
#include <c10/core/InferenceMode.h>
#include <torch/headeronly/version.h>

#include <stdexcept>

#include "harness/base/error.h"
#include "harness/exec/bytes.h"
#include "harness/exec/threads.h"
#include "harness/exec/torch/session/synthetic_batch.h"
#include "harness/exec/torch/session/torch_session.h"

namespace sluice {

TorchSession::TorchSession(const SessionSpec& spec) : spec_(spec) {
  install_counting_allocator();
  const c10::InferenceMode no_autograd;
  if (spec.sharding.active() && !spec.rule.synchronous())
    throw InputError("sharding", "the system updates without a flush, which needs whole weights",
                     "use it with replicas");
  context_.spec = &spec_;
  context_.options = at::TensorOptions().dtype(spec.double_precision ? at::kDouble : at::kFloat);
  if (!spec.feed) {
    SyntheticBatch batch = make_synthetic_batch(spec.model, spec.synthetic_batch, context_.options);
    context_.synthetic_features = std::move(batch.features);
    context_.synthetic_targets = std::move(batch.targets);
  }
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
  if (spec.device == "cuda") devices_ = make_rank_devices(held.size(), processes());
  if (spec.transport == "nccl") nccl_ = make_nccl_transports(rank_devices(), processes());
  loss_stage_ = StageId(stage_of.back());
  const auto initial = starting_weights();
  for (std::size_t r = 0; r < held.size(); ++r) {
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
  if (!spec_.initial) return initial_weights(spec_.model, spec_.seed, context_.options);
  std::vector<std::vector<at::Tensor>> result;
  for (std::size_t l = 0; l < spec_.model.layers.size(); ++l) {
    auto& tensors = result.emplace_back();
    const auto specs = parameters(spec_.model.layers[l]);
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

RunResult TorchSession::run(const Program& program, const RunRequest& request) {
  check_sharding(program);
  context_.program = &program;
  context_.request = &request;
  context_.first_update = updates_;
  const std::unique_ptr<Transport> transport = make_transport(program);
  RunResult result;
  result.execution = execute(program, *transport, workers_,
                             {.iterations = request.iterations,
                              .traced_iteration = request.traced_iteration,
                              .timeout = request.timeout,
                              .cancel = request.cancel,
                              .processes = processes(),
                              .pinning = request.pinning});
  const std::int64_t all = static_cast<std::int64_t>(request.iterations) * program.updates;
  updates_ += result.execution.diverged.value_or(all);
  result.losses.assign(static_cast<std::size_t>(request.iterations * program.updates), 0);
  const std::vector<RankLosses> losses = losses_of_ranks();
  for (const RankLosses& rank : losses)
    for (std::size_t u = 0; u < result.losses.size(); ++u) result.losses[u] += rank.losses[u];
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
  while (whole < losses.size() && parts(whole) == own_worker().micros_of_update(whole)) ++whole;
  losses.resize(whole);
}

std::vector<TorchSession::RankLosses> TorchSession::losses_of_ranks() const {
  std::vector<RankLosses> all;
  if (!processes()) {
    for (std::size_t r = 0; r < workers_.size(); ++r) all.push_back({worker(r).losses(), worker(r).loss_parts()});
    return all;
  }
  const TorchWorker& own = own_worker();
  ByteWriter out;
  out.list(own.losses());
  out.list(own.loss_parts());
  for (const std::string& bytes : processes()->all_gather(out.bytes())) {
    ByteReader in(bytes);
    in.list(all.emplace_back().losses);
    in.list(all.back().parts);
  }
  return all;
}

std::vector<std::vector<double>> TorchSession::kept_weights(StageId stage) const {
  const auto& ranks = placement_.stages[stage.index()];
  std::vector<std::vector<double>> kept = kept_by(ranks.front(), stage);
  if (!sharded(stage)) return kept;
  for (std::size_t k = 1; k < ranks.size(); ++k) {
    const auto slices = kept_by(ranks[k], stage);
    for (std::size_t u = 0; u < kept.size(); ++u) kept[u].insert(kept[u].end(), slices[u].begin(), slices[u].end());
  }
  for (auto& update : kept) update.resize(static_cast<std::size_t>(size_of(stage)));
  return kept;
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
    own.value(own_worker().counters()->peak());
    for (const std::string& bytes : processes()->all_gather(own.bytes()))
      peaks.push_back(ByteReader(bytes).value<MemoryByKind>());
    return peaks;
  }
  for (std::size_t r = 0; r < workers_.size(); ++r) peaks.push_back(worker(r).counters()->peak());
  return peaks;
}

void TorchSession::reset_peak_memory() {
  for (std::size_t r = 0; r < workers_.size(); ++r)
    if (here(Rank(r))) worker(r).counters()->reset_peak();
}

std::unique_ptr<Session> make_session(const SessionSpec& spec) { return std::make_unique<TorchSession>(spec); }

std::string torch_version() { return TORCH_VERSION; }

}  // namespace sluice
