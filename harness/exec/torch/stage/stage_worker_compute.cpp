// The ops of a stage: forward (first and recomputed), input gradient and weight gradient.
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "harness/exec/torch/stage/stage_worker.h"

namespace sluice {

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

// What the stash keeps counts as activations, but for input data and targets, which belong to the data feed.
void TorchWorker::count_stash(const Slot& slot) {
  for (const LayerStash& layer : slot.stash.layers)
    for (const at::Tensor& kept : layer.kept)
      if (kept.defined() &&
          std::ranges::none_of(slot.data, [&](const at::Tensor& data) { return kept.is_alias_of(data); }))
        recount(kept, counters_, MemoryKind::activations);
}

std::vector<at::Tensor> TorchWorker::run_forward(State& s, const Instruction& op, bool keep_stash, at::Tensor* loss) {
  Slot& slot = s.slots[op.micro.index()];
  slot.received.resize(s.interface.receives.size());
  // Model inputs come first among what a stage receives, and from the feed.
  const auto& receives = s.interface.receives;
  const auto inputs =
      static_cast<std::size_t>(std::ranges::find_if(receives, [](int r) { return r >= 0; }) - receives.begin());
  // A recomputation's inputs count as buffers again, as when they arrived; as activations only where a layer keeps
  // them.
  if (op.opcode == Opcode::recompute)
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
  // Kernels take scratch memory too, so everything counts as a buffer at first; what the stash keeps is recounted.
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
  // Input data and targets belong to the data feed, as in the prediction (stage_stash).
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
  } else {  // the input stays for the recomputation; input data can be loaded again
    for (std::size_t k = 0; k < inputs; ++k) slot.received[k].reset();
    for (const at::Tensor& kept : slot.received)
      if (kept.defined()) recount(kept, counters_, MemoryKind::activations);
  }
  return outputs;
}

template <class Visit>
void TorchWorker::for_each_local_message(const State& s, Micro op, StageId peer, Visit visit) {
  const StageGraph& graph = context_.program->graph;
  const auto [first, last] = messages_of(graph, s.id, op, peer);
  for (Micro m(first); m.value < last; ++m.value) {
    const MicroBatchSlice taken = slice_of_message(graph, peer, m, s.id);
    if (holds(peer, taken.op)) visit(slice_of_message(graph, s.id, m, peer), taken);
  }
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
    add_loss(s, iteration_, op.micro, loss.item<double>() * context_.spec->loss_scale);
  }
  slot.outputs = std::move(outputs);
  slot.outputs_left = s.messages_per_output;
  for (auto& [successor, edge] : s.successors)
    for_each_local_message(s, op.micro, successor, [&](const MicroBatchSlice& made, const MicroBatchSlice& taken) {
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
  slot.input_gradients_left = s.messages_per_input_gradient;
  for (auto& [predecessor, edge] : s.predecessors)
    for_each_local_message(s, op.micro, predecessor, [&](const MicroBatchSlice& made, const MicroBatchSlice& taken) {
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

void TorchWorker::weight_gradient(State& s, StageStashTensors& stash) {
  const MemoryScope scope(counters_, MemoryKind::buffers);
  StageStashTensors* one[] = {&stash};
  s.module->weight_gradient(one, gradient_views(s));
}

// What weight gradients are added to. The first call after a step, or after the sum was sent, clears it.
std::span<const at::Tensor> TorchWorker::gradient_views(State& s) {
  if (s.weights) return s.weights->gradients();
  if (s.clear_gradient_sum) s.gradient_sum.zero_();
  s.clear_gradient_sum = false;
  return s.gradient_sum_views;
}

void TorchWorker::run_pending_weight_gradients(State& s) {
  if (s.pending.empty()) return;
  const c10::InferenceMode no_autograd;
  const MemoryScope scope(counters_, MemoryKind::buffers);
  std::vector<StageStashTensors*> all;
  for (StageStashTensors& stash : s.pending) all.push_back(&stash);
  s.module->weight_gradient(all, gradient_views(s));
  s.pending.clear();
}

}  // namespace sluice
