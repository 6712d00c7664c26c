// What a rank does for every kind of instruction, a function each; there are many, hence the
// length.
#include "harness/exec/torch/stage/stage_worker.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace sluice {

at::Tensor load_input(const RunContext& context, bool train, std::size_t number,
                      std::span<const std::int64_t> indices) {
  if (!context.spec->feed)
    return context.synthetic_features.index_select(
        0, at::tensor(std::vector<std::int64_t>(indices.begin(), indices.end())));
  const ModelInput& input = context.spec->model.inputs[number];
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(indices.size())};
  shape.insert(shape.end(), input.shape.begin(), input.shape.end());
  const DataFeed& feed = *context.spec->feed;
  if (input.is_token_ids) {
    at::Tensor ids = at::empty(shape, at::kLong);
    feed.tokens(train, number, indices, ids.data_ptr<std::int64_t>());
    return ids;
  }
  at::Tensor features = at::empty(shape, context.options);
  if (context.spec->double_precision) {
    feed.features_double(train, indices, features.data_ptr<double>());
  } else {
    feed.features(train, indices, features.data_ptr<float>());
  }
  return features;
}

at::Tensor load_targets(const RunContext& context, bool train, std::span<const std::int64_t> indices) {
  const auto n = static_cast<std::int64_t>(indices.size());
  if (!context.spec->feed)
    return context.synthetic_targets.index_select(
        0, at::tensor(std::vector<std::int64_t>(indices.begin(), indices.end())));
  const DataFeed& feed = *context.spec->feed;
  const Shape out = context.spec->model.shapes()[context.spec->model.layers.size() - 2];
  if (feed.classes) {
    std::vector<std::int64_t> positions{n};
    positions.insert(positions.end(), out.begin(), out.end() - 1);
    at::Tensor classes = at::empty(positions, at::kLong);
    feed.classes(train, indices, classes.data_ptr<std::int64_t>());
    return classes;
  }
  std::vector<std::int64_t> shape{n};
  shape.insert(shape.end(), out.begin(), out.end());
  at::Tensor values = at::empty(shape, at::kDouble);
  feed.values(train, indices, values.data_ptr<double>());
  return values.to(context.options.dtype());
}

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
      counters_(new_counters(device != nullptr)) {
  const SessionSpec& spec = *context.spec;
  place_.assign(spec.plan.stages.size(), 0);
  for (const StageId id : stages) {
    place_[id.index()] = states_.size();
    State& s = states_.emplace_back();
    s.id = id;
    s.interface = interfaces[id.index()];
    const std::vector<int>& layers = spec.plan.stages[id.index()].layers;
    s.module = std::make_unique<StageModule>(spec.model, layers, s.interface, options_);
    std::vector<at::Tensor> initial;
    for (const int l : layers)
      for (const at::Tensor& w : initial_weights[static_cast<std::size_t>(l)]) initial.push_back(w);
    if (std::ranges::count(placement.stages[id.index()], rank) == 0) {  // its W only
      const MemoryScope scope(counters_, MemoryKind::gradients);
      std::int64_t n = 0;
      for (const ParameterSpec& p : s.module->parameters()) n += elements(p.shape);
      s.sum = at::zeros({n}, options_);
      n = 0;
      for (const ParameterSpec& p : s.module->parameters()) {
        s.sum_views.push_back(s.sum.narrow(0, n, elements(p.shape)).view(p.shape));
        n += elements(p.shape);
      }
      continue;
    }
    s.weights = std::make_unique<StageWeights>(s.module->parameters(), initial, spec.optimizer, options_, counters_,
                                               share_of(spec.sharding, placement.stages[id.index()], rank));
    s.has_loss = is_loss(spec.model.layers[static_cast<std::size_t>(layers.back())].kind);
    // The tensors that cross from stage a to stage b: those of a's sends that b receives.
    const auto crossing = [&](StageId a, StageId b, bool own_is_a) {
      Edge edge;
      const auto& sends = interfaces[a.index()].sends;
      const auto& receives = interfaces[b.index()].receives;
      for (std::size_t i = 0; i < sends.size(); ++i)
        for (std::size_t j = 0; j < receives.size(); ++j)
          if (sends[i] == receives[j]) {
            edge.own.push_back(own_is_a ? i : j);
            edge.other.push_back(own_is_a ? j : i);
          }
      return edge;
    };
    for (std::size_t other = 0; other < interfaces.size(); ++other) {
      if (StageId(other) == id) continue;
      if (Edge edge = crossing(id, StageId(other), true); !edge.own.empty()) s.to[StageId(other)] = std::move(edge);
      if (Edge edge = crossing(StageId(other), id, false); !edge.own.empty()) s.from[StageId(other)] = std::move(edge);
    }
  }
}

void TorchWorker::begin_run(const Program& program) {
  at::set_num_threads(1);
  if (device_) {
    device_->enter();
    device_->synchronize();  // with what was done to the weights between runs, on other streams
    pending_losses_.clear();
    steps_.clear();
  }
  for (State& s : states_) {
    const StageGraph& graph = program.graph;
    s.slots.assign(static_cast<std::size_t>(program.microbatches / graph.micros_per_op_of(s.id)), Slot{});
    s.readers.assign(s.interface.sends.size(), 0);
    for (const auto& [successor, edge] : s.to)
      for (const std::size_t i : edge.own) s.readers[i] += slices_per_op(graph, s.id, successor);
    s.givers.assign(s.interface.receives.size(), 0);
    for (const auto& [predecessor, edge] : s.from)
      for (const std::size_t i : edge.own) s.givers[i] = slices_per_op(graph, s.id, predecessor);
    s.pending.clear();
    s.kept.clear();
    s.snapshots.clear();
    s.clear_sum = true;
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
    if (!s.weights) continue;
    s.weights->follow(program.rule, s.id);
    s.uses = {};
    s.uses.predictions.assign(static_cast<std::size_t>(program.predictions[s.id.index()]), 0);
    std::int32_t newest = 0;
    for (const Instruction& i : program.ranks[rank_.index()]) {
      if (i.stage != s.id) continue;
      if (i.opcode == Opcode::optimizer_step) newest = i.version;
      if (!reads_weights(i.opcode)) continue;
      if (i.prediction >= 0)
        ++s.uses.predictions[static_cast<std::size_t>(i.prediction)];
      else
        ++s.uses.versions[i.version];
    }
    for (int k = 1; k <= program.retained_versions[s.id.index()]; ++k) ++s.uses.versions[newest - k];
  }
  losses_.assign(static_cast<std::size_t>(program.updates * context_.request->iterations), 0);
  loss_parts_.assign(losses_.size(), 0);
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
  const int micros = version * program.micros_per_step[s.id.index()];
  return context_.first_update + static_cast<std::int64_t>(iteration_) * program.updates +
         micros / program.micros_per_update;
}

double TorchWorker::learning_rate(std::int64_t update) const {
  const RunRequest& request = *context_.request;
  return request.learning_rate ? request.learning_rate(update) : context_.spec->optimizer.learning_rate;
}

std::span<const at::Tensor> TorchWorker::read_weights(State& s, const Instruction& op) {
  const double rate = op.prediction >= 0 ? learning_rate(update_of(s, op.version)) : 0;
  return s.weights->read(op, rate);
}

bool TorchWorker::holds(StageId stage, Micro micro) const {
  return context_.program->placement.rank_of(stage, micro) == rank_;
}

std::vector<std::int64_t> TorchWorker::samples_of(const State& s, Micro op) const {
  const std::int64_t n = context_.spec->micro_batch * micros_per_op_of(s);
  const std::int64_t first =
      static_cast<std::int64_t>(iteration_) * context_.program->microbatches * context_.spec->micro_batch +
      op.value * n;
  std::vector<std::int64_t> samples(static_cast<std::size_t>(n));
  const auto& order = context_.request->order;
  for (std::int64_t k = 0; k < n; ++k)
    samples[static_cast<std::size_t>(k)] =
        order.empty() ? (first + k) % context_.spec->synthetic_batch : order.at(static_cast<std::size_t>(first + k));
  return samples;
}

// All that the stash keeps are activations, but for the feed's data and targets.
void TorchWorker::count_stash(const Slot& slot) {
  for (const LayerStash& layer : slot.stash.layers)
    for (const at::Tensor& kept : layer.kept)
      if (kept.defined() &&
          std::ranges::none_of(slot.data, [&](const at::Tensor& data) { return kept.is_alias_of(data); }))
        recount(kept, counters_, MemoryKind::activations);
}

void TorchWorker::compute(const Instruction& op) {
  const c10::InferenceMode no_autograd;
  State& s = state(op.stage);
  Slot& slot = s.slots[op.micro.index()];
  switch (op.opcode) {
    case Opcode::forward:
      forward(s, op);
      break;
    case Opcode::backward:
      // A sharded stage's whole gradient is there for all of its backward, as memory() counts it.
      if (context_.program->sharded(op.stage) && !context_.spec->batched_weight_gradients) s.weights->gradients();
      slot.data.clear();
      input_gradient(s, op, slot);
      if (context_.spec->batched_weight_gradients) {
        s.pending.push_back(std::move(slot.stash));
      } else {
        weight_gradient(s, slot.stash);
      }
      slot.stash = {};
      break;
    case Opcode::input_gradient: {
      input_gradient(s, op, slot);
      // What W waits for besides: the layers' output gradients.
      count_stash(slot);
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
        if (last) run_pending(s);
      }
      slot.stash = {};
    }
  }
}

std::vector<at::Tensor> TorchWorker::run_forward(State& s, const Instruction& op, bool keep_stash, at::Tensor* loss) {
  Slot& slot = s.slots[op.micro.index()];
  slot.received.resize(s.interface.receives.size());
  // Model inputs come first among what a stage receives, and from the feed.
  const auto& receives = s.interface.receives;
  const auto inputs =
      static_cast<std::size_t>(std::ranges::find_if(receives, [](int r) { return r >= 0; }) - receives.begin());
  if (op.opcode == Opcode::recompute)  // again what it was when it came: kept only where a layer keeps it
    for (const at::Tensor& kept : slot.received)
      if (kept.defined()) recount(kept, counters_, MemoryKind::buffers);
  const auto on_device = [&](const at::Tensor& t) { return device_ ? device_->from_host(t) : t; };
  std::vector<std::int64_t> samples;
  if (inputs > 0 || s.has_loss) samples = samples_of(s, op.micro);
  at::Tensor target;
  {
    const MemoryScope scope(counters_, MemoryKind::buffers);
    for (std::size_t k = 0; k < inputs; ++k)
      slot.received[k] = on_device(load_input(context_, true, static_cast<std::size_t>(-1 - receives[k]), samples));
    if (s.has_loss) target = on_device(load_targets(context_, true, samples));
  }
  // Kernels take scratch memory too, so everything starts as a buffer; what the stash keeps is
  // recounted.
  const MemoryScope scope(counters_, MemoryKind::buffers);
  const Program& program = *context_.program;
  const std::int64_t run_micro =
      static_cast<std::int64_t>(iteration_) * program.microbatches + op.micro.value * micros_per_op_of(s);
  const ForwardMode mode{.training = true,
                         .seed = context_.spec->seed,
                         .sequence = context_.first_update * program.micros_per_update + run_micro,
                         .micro_batches = micros_per_op_of(s),
                         .recomputing = op.opcode == Opcode::recompute};
  at::Tensor unread_loss;
  std::vector<at::Tensor> outputs = s.module->forward(slot.received, read_weights(s, op), target, mode,
                                                      keep_stash ? &slot.stash : nullptr, loss ? loss : &unread_loss);
  s.weights->used(op);
  // Input data and targets are the feed's, as in the prediction (stage_stash).
  slot.data.assign(slot.received.begin(), slot.received.begin() + std::ptrdiff_t(inputs));
  if (target.defined()) slot.data.push_back(target);
  count_stash(slot);
  std::erase_if(slot.data, [&](const at::Tensor& data) {
    return std::ranges::none_of(slot.stash.layers, [&](const LayerStash& layer) {
      return std::ranges::any_of(layer.kept,
                                 [&](const at::Tensor& kept) { return kept.defined() && kept.is_alias_of(data); });
    });
  });
  if (keep_stash) {
    slot.received.assign(slot.received.size(), at::Tensor());
  } else {  // the input stays for the recomputation; the data can be had again
    for (std::size_t k = 0; k < inputs; ++k) slot.received[k].reset();
    for (const at::Tensor& kept : slot.received)
      if (kept.defined()) recount(kept, counters_, MemoryKind::activations);
  }
  return outputs;
}

// Micro-batches of one step (per: micros_per_step) or update: fewer where a run's end cuts it
// short.
static int micros_of(const Program& program, int index, int per) {
  return std::min(per, program.microbatches - index * per);
}

void TorchWorker::note_loss(const State& s, int iteration, Micro op, double value) {
  const Program& program = *context_.program;
  const int in_run = op.value * micros_per_op_of(s) / program.micros_per_update;
  const auto update = static_cast<std::size_t>(iteration * program.updates + in_run);
  if (!std::isfinite(value)) throw Diverged{static_cast<std::int64_t>(update)};
  if (in_run == program.updates) return;  // of a run's end that is dropped
  losses_[update] += value * micros_per_op_of(s) / micros_of(program, in_run, program.micros_per_update);
  loss_parts_[update] += micros_per_op_of(s);
}

// Takes in the losses that have arrived; all: waits for the others too.
void TorchWorker::read_losses(bool all) {
  while (!pending_losses_.empty()) {
    const PendingLoss& first = pending_losses_.front();
    if (all) device_->wait_on_host(first.arrived);
    if (!all && !device_->passed(first.arrived)) return;
    const PendingLoss loss = first;
    pending_losses_.pop_front();
    note_loss(*loss.stage, loss.iteration, loss.op, loss.value.item<double>() * context_.spec->loss_scale);
  }
}

void TorchWorker::end_run() {
  if (!device_) return;
  read_losses(true);
  device_->wait_on_host(device_->record());
  copied_.clear();
}

int TorchWorker::micros_of_update(std::size_t update) const {
  const Program& program = *context_.program;
  return micros_of(program, static_cast<int>(update) % program.updates, program.micros_per_update);
}

void TorchWorker::forward(State& s, const Instruction& op) {
  Slot& slot = s.slots[op.micro.index()];
  at::Tensor loss;
  std::vector<at::Tensor> outputs = run_forward(s, op, !op.checkpoint, &loss);
  const MemoryScope scope(counters_, MemoryKind::buffers);
  if (s.has_loss && device_) {
    const at::Tensor value = device_->to_host(loss);
    pending_losses_.push_back({&s, iteration_, op.micro, value, device_->record()});
    read_losses(false);
  } else if (s.has_loss) {
    note_loss(s, iteration_, op.micro, loss.item<double>() * context_.spec->loss_scale);
  }
  slot.outputs = std::move(outputs);
  slot.outputs_left = s.readers;
  for (auto& [successor, edge] : s.to)
    for_each_message_here(s, op.micro, successor, [&](const Piece& made, const Piece& taken) {
      Slot& next = state(successor).slots[taken.op.index()];
      next.received.resize(state(successor).interface.receives.size());
      for (std::size_t k = 0; k < edge.own.size(); ++k) {
        at::Tensor part = rows_of(slot.outputs[edge.own[k]], made);
        if (!made.whole() && taken.whole()) part = part.clone();
        put_rows(next.received[edge.other[k]], std::move(part), taken);
        if (--slot.outputs_left[edge.own[k]] == 0) slot.outputs[edge.own[k]].reset();
      }
    });
}

void TorchWorker::input_gradient(State& s, const Instruction& op, Slot& slot) {
  const MemoryScope scope(counters_, MemoryKind::buffers);
  const double scale = context_.spec->loss_scale * micros_per_op_of(s) / context_.program->micros_per_update;
  slot.input_gradients = s.module->input_gradient(slot.output_gradients, scale, read_weights(s, op), slot.stash);
  s.weights->used(op);
  slot.output_gradients.clear();
  slot.input_gradients_left = s.givers;
  for (auto& [predecessor, edge] : s.from)
    for_each_message_here(s, op.micro, predecessor, [&](const Piece& made, const Piece& taken) {
      State& before = state(predecessor);
      Slot& target = before.slots[taken.op.index()];
      target.output_gradients.resize(before.interface.sends.size());
      for (std::size_t k = 0; k < edge.own.size(); ++k) {
        at::Tensor& mine = slot.input_gradients[edge.own[k]];
        at::Tensor part = rows_of(mine, made);
        if (--slot.input_gradients_left[edge.own[k]] == 0) mine.reset();
        if (!made.whole() && taken.whole()) part = part.clone();
        add_rows(target.output_gradients[edge.other[k]], std::move(part), taken);
      }
    });
}

template <class Visit>
void TorchWorker::for_each_message_here(const State& s, Micro op, StageId peer, Visit visit) {
  const StageGraph& graph = context_.program->graph;
  const auto [first, last] = messages_of(graph, s.id, op, peer);
  for (Micro m(first); m.value < last; ++m.value) {
    const Piece taken = piece_of_message(graph, peer, m, s.id);
    if (holds(peer, taken.op)) visit(piece_of_message(graph, s.id, m, peer), taken);
  }
}

void TorchWorker::weight_gradient(State& s, StageStashTensors& stash) {
  const MemoryScope scope(counters_, MemoryKind::buffers);
  StageStashTensors* one[] = {&stash};
  s.module->weight_gradient(one, gradient_views(s));
}

// The first call after a step, or after the sum was sent, clears it.
std::span<const at::Tensor> TorchWorker::gradient_views(State& s) {
  if (s.weights) return s.weights->gradients();
  if (s.clear_sum) s.sum.zero_();
  s.clear_sum = false;
  return s.sum_views;
}

void TorchWorker::run_pending(State& s) {
  if (s.pending.empty()) return;
  const c10::InferenceMode no_autograd;
  const MemoryScope scope(counters_, MemoryKind::buffers);
  std::vector<StageStashTensors*> all;
  for (StageStashTensors& stash : s.pending) all.push_back(&stash);
  s.module->weight_gradient(all, gradient_views(s));
  s.pending.clear();
}

// A tensor that leaves the rank must be its receiver's alone: a stash that keeps it, or another
// reader, gets to keep the original and the message is a copy.
at::Tensor TorchWorker::hand_out(at::Tensor& tensor, const Piece& slice, bool last_reader) {
  const MemoryScope scope(counters_, MemoryKind::buffers);
  at::Tensor message = rows_of(tensor, slice);
  if (last_reader) tensor.reset();
  if (!slice.whole() || message.use_count() > 1 || message.storage().use_count() > 1) message = message.clone();
  recount(message, counters_, MemoryKind::buffers);
  return message;
}

// How many tensors each layer kept, and these tensors. Counted here until it is handed over.
Message TorchWorker::take_stash(Slot& slot) {
  auto message = std::make_shared<TensorMessage>();
  std::vector<at::Tensor>& tensors = message->tensors;
  const MemoryScope scope(counters_, MemoryKind::buffers);
  for (LayerStash& layer : slot.stash.layers) {
    message->numbers.push_back(static_cast<std::int64_t>(layer.kept.size()));
    for (at::Tensor& kept : layer.kept) tensors.push_back(std::move(kept));
  }
  slot.stash = {};
  // Layers that keep the same tensor, or views of one, go on sharing it. A copy only where somebody
  // else here holds it too.
  std::map<const void*, std::size_t> handles, views;  // in the message, of a tensor, of a storage
  for (const at::Tensor& t : tensors)
    if (++handles[t.unsafeGetTensorImpl()] == 1) ++views[t.storage().unsafeGetStorageImpl()];
  for (at::Tensor& t : tensors) {
    if (t.use_count() > handles[t.unsafeGetTensorImpl()] ||
        t.storage().use_count() > views[t.storage().unsafeGetStorageImpl()])
      t = t.clone();
    recount(t, counters_, MemoryKind::buffers);
  }
  return {std::move(message), device_ ? device_->record() : nullptr};
}

void TorchWorker::put_stash(Slot& slot, TensorMessage& message) {
  std::size_t next = 0;
  for (const std::int64_t kept : message.numbers) {
    LayerStash& layer = slot.stash.layers.emplace_back();
    for (std::int64_t k = 0; k < kept; ++k) {
      at::Tensor& tensor = message.tensors[next++];
      recount(tensor, counters_, MemoryKind::activations);
      layer.kept.push_back(std::move(tensor));
    }
  }
}

Message TorchWorker::take(const Instruction& send) {
  const c10::InferenceMode no_autograd;
  if (send.opcode == Opcode::send_stepped) return {std::make_shared<TensorMessage>()};
  State& s = state(send.stage);
  if (send.opcode == Opcode::send_stash) return take_stash(s.slots[send.micro.index()]);
  if (send.opcode == Opcode::send_weight_gradient) {
    run_pending(s);
    gradient_views(s);
    s.clear_sum = true;
    const MemoryScope scope(counters_, MemoryKind::buffers);
    return {std::make_shared<TensorMessage>(TensorMessage{.tensors = {s.sum.clone()}}),
            device_ ? device_->record() : nullptr};
  }
  const bool down = send.opcode == Opcode::send_activation;
  auto message = std::make_shared<TensorMessage>();
  const auto& edges = down ? s.to : s.from;
  const auto edge = edges.find(send.peer_stage);
  if (edge == edges.end()) return {std::move(message)};  // an imposed edge: order, no data
  const Piece slice = piece_of_message(context_.program->graph, send.stage, send.micro, send.peer_stage);
  Slot& slot = s.slots[slice.op.index()];
  auto& values = down ? slot.outputs : slot.input_gradients;
  auto& left = down ? slot.outputs_left : slot.input_gradients_left;
  for (const std::size_t i : edge->second.own) message->tensors.push_back(hand_out(values[i], slice, --left[i] == 0));
  return {std::move(message), device_ ? device_->record() : nullptr};
}

// Tensors that another rank made: this one's stream waits for them, and their memory for it.
void TorchWorker::take_over(std::vector<at::Tensor>& tensors, const RankDevice::Event& ready) {
  device_->wait(ready);
  for (at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (tensor.device() == device()) {
      device_->used_here(tensor);
    } else {  // from another GPU of this process; its memory must stay until it is copied
      at::Tensor source = std::move(tensor);
      tensor = source.to(device(), /*non_blocking=*/true);
      copied_.emplace_back(std::move(source), device_->record());
    }
  }
  while (!copied_.empty() && device_->passed(copied_.front().second)) copied_.pop_front();
}

void TorchWorker::put(const Instruction& receive, Message message) {
  const c10::InferenceMode no_autograd;
  if (receive.opcode == Opcode::receive_stepped) return;
  State& s = state(receive.stage);
  auto& payload = *static_cast<TensorMessage*>(message.payload.get());
  std::vector<at::Tensor>& tensors = payload.tensors;
  if (receive.opcode == Opcode::receive_stash) {
    if (device_) take_over(tensors, message.ready);
    return put_stash(s.slots[receive.micro.index()], payload);
  }
  if (receive.opcode == Opcode::receive_weight_gradient) {
    if (device_) take_over(tensors, message.ready);
    s.weights->gradients();
    s.weights->gradients_flat().add_(tensors[0]);
    return;
  }
  const bool down = receive.opcode == Opcode::receive_activation;
  const auto& edges = down ? s.from : s.to;
  const auto found = edges.find(receive.peer_stage);
  if (found == edges.end()) return;  // an imposed edge
  const Edge& edge = found->second;
  const Piece slice = piece_of_message(context_.program->graph, receive.stage, receive.micro, receive.peer_stage);
  Slot& slot = s.slots[slice.op.index()];
  const MemoryScope scope(counters_, MemoryKind::buffers);
  if (device_) take_over(tensors, message.ready);
  if (down) {
    slot.received.resize(s.interface.receives.size());
    for (std::size_t k = 0; k < edge.own.size(); ++k) {
      // A buffer until its forward; an activation after it only where a layer keeps it.
      recount(tensors[k], counters_, MemoryKind::buffers);
      put_rows(slot.received[edge.own[k]], std::move(tensors[k]), slice);
    }
  } else {
    slot.output_gradients.resize(s.interface.sends.size());
    for (std::size_t k = 0; k < edge.own.size(); ++k) {
      recount(tensors[k], counters_, MemoryKind::buffers);
      add_rows(slot.output_gradients[edge.own[k]], std::move(tensors[k]), slice);
    }
  }
}

static Worker::Buffer buffer_of(const at::Tensor& flat, std::int64_t count) {
  return {flat.data_ptr(), static_cast<std::size_t>(count),
          flat.scalar_type() == at::kDouble ? ElementType::float64 : ElementType::float32};
}

Worker::Gathering TorchWorker::begin_gather(StageId stage) {
  const c10::InferenceMode no_autograd;
  StageWeights& w = weights(stage);
  return {buffer_of(w.begin_gather(), w.newest_flat().numel()), {w.newest_flat().data_ptr(), w.newest_version()}};
}

void TorchWorker::free_weights(StageId stage) { weights(stage).free_gathered(); }

Worker::Buffer TorchWorker::begin_reduce_scatter(StageId stage) {
  const c10::InferenceMode no_autograd;
  run_pending(state(stage));
  StageWeights& w = weights(stage);
  return buffer_of(w.begin_reduce_scatter(), w.newest_flat().numel());
}

void TorchWorker::end_reduce_scatter(StageId stage) {
  const c10::InferenceMode no_autograd;
  weights(stage).end_reduce_scatter();
}

void TorchWorker::add_reduced(StageId stage, const void* sum) {
  const c10::InferenceMode no_autograd;
  StageWeights& w = weights(stage);
  w.add_reduced(at::from_blob(const_cast<void*>(sum), w.newest_flat().sizes(), options_));
}

Worker::Buffer TorchWorker::gradients(StageId stage) {
  State& s = state(stage);
  run_pending(s);
  s.weights->gradients();  // clears the accumulator where this rank had no micro-batch of its own
  const at::Tensor& g = s.weights->gradients_flat();
  return buffer_of(g, g.numel());
}

void TorchWorker::step(const Instruction& step) {
  const c10::InferenceMode no_autograd;
  State& s = state(step.stage);
  run_pending(s);
  const MemoryScope scope(counters_, MemoryKind::buffers);
  const RunRequest& request = *context_.request;
  const Program& program = *context_.program;
  const std::int64_t in_run = static_cast<std::int64_t>(iteration_) * program.updates + step.micro.value;
  const std::int64_t update = context_.first_update + in_run;
  if (rank_.value == context_.spec->fail_rank && update == context_.spec->fail_update)
    throw std::runtime_error("failed on purpose in update " + std::to_string(update));
  // Gradients are scaled for an update of the whole program. A stage with fewer replicas than
  // another steps more often, on fewer samples each: their mean, at a rate in proportion
  // (PipeDream's get_adjusted_learning_rate).
  const int per_step = program.micros_per_step[step.stage.index()];
  const double per_update = program.micros_per_update;
  s.weights->step(learning_rate(update) * per_step / per_update,
                  per_update / micros_of(program, step.version - 1, per_step));
  const at::Tensor& newest = s.weights->newest_flat();
  if (request.keep_weights) {
    const at::Tensor flat = newest.to(at::kDouble).cpu().contiguous();
    s.kept.emplace_back(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  }
  if (std::ranges::binary_search(request.snapshots, in_run + 1) &&
      step.version * per_step % program.micros_per_update == 0) {
    StageSnapshot& snapshot = s.snapshots.emplace_back();
    snapshot.weights = newest.clone();
    for (const at::Tensor& b : s.module->buffers()) snapshot.buffers.push_back(b.clone());
  }
  // Of several processes the first one shows it, whatever stage it holds.
  const bool shows = context_.spec->processes ? rank_.value == 0 : s.has_loss;
  if (shows && request.progress) request.progress(in_run + 1);
  if (device_) {
    // The host asks for work ahead of the GPU, but of no more than two updates: memory that a
    // message used on two streams is free only when the GPU gets there.
    steps_.push_back(device_->record());
    if (steps_.size() > 2 * states_.size()) {
      device_->wait_on_host(steps_.front());
      steps_.pop_front();
    }
  }
}

}  // namespace sluice
