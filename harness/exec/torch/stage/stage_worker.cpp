// A rank's stages from the start of a session to the end of a run: set-up, the op that each instruction asks for,
// losses and steps.
#include "harness/exec/torch/stage/stage_worker.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/model/expert_spread.h"

namespace sluice {

// A rank's slice of a stage that `ranks` hold.
static Share share_of(const Sharding& sharding, const std::vector<Rank>& ranks, Rank rank) {
  if (!sharding.active() || ranks.size() < 2) return {};
  return {.members = ranks.size(),
          .member = static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin()),
          .keeps_whole = sharding.gather == Sharding::Gather::after_step};
}

TorchWorker::TorchWorker(Rank rank, const RunContext& context, std::vector<StageId> stages, const Placement& placement,
                         const std::vector<StageInterface>& interfaces,
                         const std::vector<std::vector<at::Tensor>>& initial_weights, RankDevice* device)
    : rank_(rank),
      context_(context),
      device_(device),
      options_(device ? context.options.device(device->device()) : context.options),
      counters_(new_counters(device != nullptr)),
      no_gradient_(without_gradient(context.spec->model)) {
  state_of_stage_.assign(context.spec->plan.stages.size(), 0);
  for (const StageId id : stages) {
    state_of_stage_[id.index()] = states_.size();
    add_stage(id, placement, interfaces, initial_weights);
  }
}

void TorchWorker::add_stage(StageId id, const Placement& placement, const std::vector<StageInterface>& interfaces,
                            const std::vector<std::vector<at::Tensor>>& initial_weights) {
  const SessionSpec& spec = *context_.spec;
  State& s = states_.emplace_back();
  s.id = id;
  s.interface = interfaces[id.index()];
  const std::vector<int>& layers = spec.plan.stages[id.index()].layers;
  const std::vector<Rank>& ranks = placement.stages[id.index()];
  if (std::ranges::any_of(layers, [&](int l) { return replicas_of_experts(spec.model.layers[l]) > 1; }))
    s.experts = std::make_unique<ExpertGroup>(
        id.value, static_cast<int>(std::ranges::find(ranks, rank_) - ranks.begin()), static_cast<int>(ranks.size()));
  s.module = std::make_unique<StageModule>(spec.model, layers, s.interface, options_,
                                           TensorShare{spec.tensor.get(), &tensor_group_}, s.experts.get());
  for (const int l : s.module->borrowed()) s.borrowed.push_back(place_of_weight(l));
  if (std::ranges::count(placement.stages[id.index()], rank_) == 0) {
    make_gradient_sum(s);
    return;
  }
  std::vector<at::Tensor> initial;
  {
    const MemoryScope scope(counters_, MemoryKind::weights);
    for (const int l : layers)
      for (std::size_t p = 0; p < initial_weights[l].size(); ++p) {
        const at::Tensor& w = initial_weights[l][p];
        if (spec.model.layers[l].frozen)
          s.frozen.push_back(at::empty(w.sizes(), options_).copy_(w));
        else
          initial.push_back(
              is_part_of_experts(spec.model.layers[l], p) ? w.chunk(s.experts->members())[s.experts->member()] : w);
      }
  }
  std::vector<bool> matrices;
  for (const int l : layers)
    for (const ParameterSpec& p : trained_parameters(spec.model.layers[l]))
      matrices.push_back(is_matrix(spec.optimizer, spec.model, l, p));
  s.weights = std::make_unique<StageWeights>(s.module->parameters(), initial, spec.optimizer, options_, counters_,
                                             share_of(spec.sharding, placement.stages[id.index()], rank_),
                                             !spec.inference, matrices);
  const bool may_overlap = (!device_ || spec.transport == "nccl") && !spec.batched_weight_gradients;
  const bool lends = std::ranges::any_of(spec.model.layers, [&](const LayerSpec& layer) {
    return layer.tied_to >= 0 && std::ranges::count(layers, layer.tied_to) > 0 &&
           std::ranges::count(layers, &layer - spec.model.layers.data()) == 0;
  });
  if (may_overlap && !lends && placement.stages[id.index()].size() > 1 && spec.gradient_bucket.value > 0)
    s.buckets = s.module->gradient_buckets(spec.gradient_bucket);
  s.has_loss = is_loss(spec.model.layers[layers.back()].kind);
  s.counts_loss = s.has_loss && layers.back() + 1 == static_cast<int>(spec.model.layers.size());
  for (std::size_t other = 0; other < interfaces.size(); ++other) {
    if (StageId(other) == id) continue;
    if (Edge edge = edge_between(s.interface.sends, interfaces[other].receives, true); !edge.own.empty())
      s.successors[StageId(other)] = std::move(edge);
    if (Edge edge = edge_between(interfaces[other].sends, s.interface.receives, false); !edge.own.empty())
      s.predecessors[StageId(other)] = std::move(edge);
  }
  divide_products(s, placement);
}

TorchWorker::Borrowed TorchWorker::place_of_weight(int layer) const {
  const SessionSpec& spec = *context_.spec;
  for (std::size_t s = 0; s < spec.plan.stages.size(); ++s) {
    Borrowed place{StageId(s), 0};
    for (const int l : spec.plan.stages[s].layers) {
      if (l == layer) return place;
      place.parameter += trained_parameters(spec.model.layers[l]).size();
    }
  }
  throw std::logic_error("layer " + std::to_string(layer) + " is in no stage");
}

// Which part of its input gradient the stage passes to the one before it, and takes from the one after it.
void TorchWorker::divide_products(State& s, const Placement& placement) {
  const SessionSpec& spec = *context_.spec;
  const auto passed = [&](StageId id) { return spec.plan.stages[id.index()].passed_channels; };
  if (spec.inference) return;
  if (passed(s.id) > 0) {
    s.module->pass_channels(passed(s.id));
    for (const auto& [before, edge] : s.predecessors)
      if (placement.stages[before.index()].front() == rank_)
        throw std::invalid_argument("a stage passes channels on to its own rank");
  }
  for (const auto& [after, edge] : s.successors) {
    if (passed(after) == 0) continue;
    const int first = spec.plan.stages[after.index()].layers.front();
    s.divided_after = after;
    s.divided_layer = spec.model.layers[first];
    s.divided_input = spec.model.shapes()[s.divided_layer.inputs.front()];
  }
}

void TorchWorker::make_gradient_sum(State& s) {
  const MemoryScope scope(counters_, MemoryKind::gradients);
  std::int64_t n = 0;
  for (const ParameterSpec& p : s.module->parameters()) n += elements(p.shape);
  s.gradient_sum = at::zeros({n}, options_);
  n = 0;
  for (const ParameterSpec& p : s.module->parameters()) {
    s.gradient_sum_views.push_back(s.gradient_sum.narrow(0, n, elements(p.shape)).view(p.shape));
    n += elements(p.shape);
  }
  s.gradient_sum_views.resize(s.gradient_sum_views.size() + s.module->frozen_count());
}

// In the order of the sending stage's list, at both ends: it is the order of the tensors in a message.
TorchWorker::Edge TorchWorker::edge_between(const std::vector<int>& sends, const std::vector<int>& receives,
                                            bool own_is_sender) const {
  Edge edge;
  for (std::size_t i = 0; i < sends.size(); ++i)
    for (std::size_t j = 0; j < receives.size(); ++j)
      if (sends[i] == receives[j]) {
        edge.own.push_back(own_is_sender ? i : j);
        edge.other.push_back(own_is_sender ? j : i);
        edge.has_gradient.push_back(!no_gradient_[sends[i]]);
      }
  return edge;
}

void TorchWorker::begin_run(const Program& program) {
  at::set_num_threads(1);
  std::vector<Probe>* const probes = context_.request->probes;
  probe_ = probes && !device_ ? &probes->at(rank_.index()) : nullptr;
  for (State& s : states_) s.module->observe(probe_, counters_, s.id);
  if (device_) {
    device_->enter();
    device_->synchronize();  // with what was done to the weights between runs, on other streams
    pending_losses_.clear();
    steps_.clear();
  }
  for (State& s : states_) {
    prepare_messages(s, program);
    s.pending.clear();
    s.kept.clear();
    s.snapshots.clear();
    s.clear_gradient_sum = true;
    find_batch_ends(s, program);
    if (!s.weights) continue;
    s.weights->follow(program.rule, s.id);
    count_weight_uses(s, program);
  }
  losses_.assign(static_cast<std::size_t>(program.updates) * context_.request->iterations, 0);
  loss_parts_.assign(losses_.size(), 0);
  output_digests_.assign(
      program.forward_only ? static_cast<std::size_t>(program.microbatches * context_.request->iterations) : 0, 0);
}

void TorchWorker::join_expert_groups(Transport& transport) {
  for (const State& s : states_)
    if (s.experts) s.experts->join(transport);
}

TensorSums TorchWorker::group_sums() const {
  TensorSums sums = tensor_group_.sums();
  for (const State& s : states_)
    if (s.experts) sums += s.experts->exchanged();
  return sums;
}

void TorchWorker::prepare_messages(State& s, const Program& program) {
  const StageGraph& graph = program.graph;
  s.slots.assign(program.microbatches / graph.microbatches_per_op_of(s.id), Slot{});
  s.messages_per_output.assign(s.interface.sends.size(), 0);
  for (const auto& [successor, edge] : s.successors)
    for (const std::size_t i : edge.own) s.messages_per_output[i] += slices_per_op(graph, s.id, successor);
  s.messages_per_input_gradient.assign(s.interface.receives.size(), 0);
  for (const auto& [predecessor, edge] : s.predecessors)
    for (const std::size_t i : edge.own) s.messages_per_input_gradient[i] = slices_per_op(graph, s.id, predecessor);
}

void TorchWorker::find_batch_ends(State& s, const Program& program) const {
  s.ends_batch.clear();
  const Instruction* before = nullptr;
  for (const Instruction& i : program.ranks[rank_.index()]) {
    if (!is_compute(i.opcode)) continue;
    const bool is_own = i.opcode == Opcode::weight_gradient && i.stage == s.id;
    if (is_own && before && before->opcode == Opcode::weight_gradient && before->stage == s.id)
      s.ends_batch.back() = false;
    if (is_own) s.ends_batch.push_back(true);
    before = &i;
  }
}

void TorchWorker::count_weight_uses(State& s, const Program& program) const {
  s.uses = {};
  s.uses.predictions.assign(program.predictions[s.id.index()], 0);
  s.uses.updates = program.updates;
  std::int32_t newest = 0;
  for (const Instruction& i : program.ranks[rank_.index()]) {
    if (i.stage != s.id) continue;
    if (i.opcode == Opcode::optimizer_step) newest = i.version;
    if (!reads_weights(i.opcode)) continue;
    if (i.prediction >= 0)
      ++s.uses.predictions[i.prediction];
    else
      ++s.uses.versions[i.version];
  }
  for (int k = 1; k <= program.retained_versions[s.id.index()]; ++k) ++s.uses.versions[newest - k];
}

void TorchWorker::begin_iteration(int iteration) {
  iteration_ = iteration;
  for (State& s : states_) {
    s.next_weight_gradient = 0;
    if (s.weights) s.weights->begin(s.uses);
  }
}

// The session's update that a stage works on when its newest version is `version` of the program.
std::int64_t TorchWorker::update_of(const State& s, std::int32_t version) const {
  const Program& program = *context_.program;
  const int microbatches = version * program.microbatches_per_step[s.id.index()];
  return context_.first_update + static_cast<std::int64_t>(iteration_) * program.updates +
         microbatches / program.microbatches_per_update;
}

double TorchWorker::learning_rate(std::int64_t update) const {
  const RunRequest& request = *context_.request;
  return request.learning_rate ? request.learning_rate(update) : context_.spec->optimizer.learning_rate;
}

void TorchWorker::move_stash(const Instruction& move) {
  const c10::InferenceMode no_autograd;
  Slot& slot = state(move.stage).slots[move.micro.index()];
  if (move.opcode == Opcode::stash_out) {
    slot.moved = std::make_shared<MovedStash>(slot.stash, counters_, device_);
  } else if (move.opcode == Opcode::stash_free) {
    slot.moved->free(slot.stash);
  } else {
    slot.moved->bring_back(slot.stash);
  }
}

void TorchWorker::compute(const Instruction& op) {
  const c10::InferenceMode no_autograd;
  const ProbeScope scope(probe_, counters_, {.opcode = op.opcode, .stage = op.stage});
  State& s = state(op.stage);
  Slot& slot = s.slots[op.micro.index()];
  if (slot.moved && reads_stash(op.opcode)) {
    slot.moved->wait();
    slot.moved.reset();
  }
  switch (op.opcode) {
    case Opcode::forward:
      context_.spec->inference ? infer(s, op) : forward(s, op);
      break;
    case Opcode::backward:
      // The whole gradient of a sharded stage exists during all of its backward, as the predicted memory counts it.
      if (context_.program->sharded(op.stage) && !context_.spec->batched_weight_gradients) s.weights->gradients();
      input_gradient(s, op, slot);
      // What a batched W waits with, as I leaves it.
      if (context_.spec->batched_weight_gradients) count_stash(slot);
      slot.data.clear();
      if (context_.spec->batched_weight_gradients) {
        s.pending.push_back(std::move(slot.stash));
      } else {
        weight_gradient(s, slot.stash);
      }
      slot.stash = {};
      count_key_value_gradients(s, op);
      break;
    case Opcode::input_gradient: {
      input_gradient(s, op, slot);
      // What W needs besides the stash: the output gradients of the layers.
      count_stash(slot);
      count_key_value_gradients(s, op);
      slot.data.clear();
      break;
    }
    case Opcode::recompute:
      run_forward(s, op, true, nullptr);
      break;
    default: {
      const bool last = s.ends_batch[s.next_weight_gradient++];
      if (!context_.spec->batched_weight_gradients) {
        weight_gradient(s, slot.stash);
      } else {
        s.pending.push_back(std::move(slot.stash));
        if (last) run_pending_weight_gradients(s);
      }
      slot.stash = {};
    }
  }
}

// Micro-batches of step or update `index`, which has `per` of them: fewer where the end of a run cuts it short.
static int microbatches_of(const Program& program, int index, int per) {
  return std::min(per, program.microbatches - index * per);
}

void TorchWorker::add_loss(const State& s, int iteration, Micro op, double value) {
  const Program& program = *context_.program;
  const int in_run = op.value * microbatches_per_op_of(s) / program.microbatches_per_update;
  const std::size_t update = static_cast<std::size_t>(iteration) * program.updates + in_run;
  if (!std::isfinite(value)) throw Diverged{static_cast<std::int64_t>(update)};
  if (!s.counts_loss) return;
  if (in_run == program.updates) return;  // the incomplete update at the end of the run, which is dropped
  losses_[update] += program.sizes.differ() ? value * program.sizes.weight(op)
                                            : value * microbatches_per_op_of(s) /
                                                  microbatches_of(program, in_run, program.microbatches_per_update);
  loss_parts_[update] += microbatches_per_op_of(s);
}

// Adds up the losses that have arrived from the GPU; all: waits for the others too.
void TorchWorker::read_losses(bool all) {
  while (!pending_losses_.empty()) {
    const PendingLoss& first = pending_losses_.front();
    if (all) device_->wait_on_host(first.arrived);
    if (!all && !device_->passed(first.arrived)) return;
    const PendingLoss loss = first;
    pending_losses_.pop_front();
    add_loss(*loss.stage, loss.iteration, loss.op, loss.value.item<double>() * context_.spec->loss_scale);
  }
}

void TorchWorker::end_run() {
  if (!device_) return;
  read_losses(true);
  device_->wait_on_host(device_->record());
  copied_.clear();
}

int TorchWorker::microbatches_of_update(std::size_t update) const {
  const Program& program = *context_.program;
  return microbatches_of(program, static_cast<int>(update) % program.updates, program.microbatches_per_update);
}

void TorchWorker::step(const Instruction& step) {
  const c10::InferenceMode no_autograd;
  State& s = state(step.stage);
  finish_gradients(s);
  const MemoryScope scope(counters_, MemoryKind::buffers);
  const ProbeScope probed(probe_, counters_,
                          {.kind = ProbeSample::Kind::step, .opcode = step.opcode, .stage = step.stage});
  const RunRequest& request = *context_.request;
  const Program& program = *context_.program;
  const std::int64_t in_run = static_cast<std::int64_t>(iteration_) * program.updates + step.micro.value;
  const std::int64_t update = context_.first_update + in_run;
  if (rank_.value == context_.spec->fail_rank && update == context_.spec->fail_update)
    throw std::runtime_error("failed on purpose in update " + std::to_string(update));
  // Gradients are scaled for an update of the whole program. A stage with fewer replicas than another steps more often,
  // on fewer samples each: their mean, at a rate in proportion (PipeDream's get_adjusted_learning_rate).
  const int per_step = program.microbatches_per_step[step.stage.index()];
  const double per_update = program.microbatches_per_update;
  s.weights->step(learning_rate(update) * per_step / per_update,
                  per_update / microbatches_of(program, step.version - 1, per_step) * clip_scale_);
  const at::Tensor& newest = s.weights->newest_flat();
  if (request.keep_weights) {
    const at::Tensor flat = newest.to(at::kDouble).cpu().contiguous();
    s.kept.emplace_back(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  }
  if (std::ranges::binary_search(request.snapshots, in_run + 1) &&
      step.version * per_step % program.microbatches_per_update == 0) {
    StageSnapshot& snapshot = s.snapshots.emplace_back();
    snapshot.weights = newest.clone();
    for (const at::Tensor& b : s.module->buffers()) snapshot.buffers.push_back(b.clone());
  }
  // Of several processes the first one shows the progress, whatever stage it holds.
  const bool shows = context_.spec->processes ? rank_.value == 0 : s.counts_loss;
  if (shows && request.progress) request.progress(in_run + 1);
  if (device_) {
    // The host queues work ahead of the GPU, but of no more than two updates: memory that a message uses on two streams
    // is free only when the GPU has got there.
    steps_.push_back(device_->record());
    if (steps_.size() > 2 * states_.size()) {
      device_->wait_on_host(steps_.front());
      steps_.pop_front();
    }
  }
}

}  // namespace sluice
