// The ops of a stage: forward (first and recomputed), input gradient and weight gradient.
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "harness/exec/torch/layers/divided_product.h"
#include "harness/exec/torch/stage/stage_worker.h"
#include "harness/exec/word_hash.h"

namespace sluice {

std::span<const at::Tensor> TorchWorker::read_weights(State& s, const Instruction& op) {
  const double rate = op.prediction >= 0 ? learning_rate(update_of(s, op.version)) : 0;
  const std::span<const at::Tensor> own = s.weights->read(op, rate);
  if (s.borrowed.empty() && s.frozen.empty()) return own;
  s.with_borrowed.assign(own.begin(), own.end());
  s.with_borrowed.insert(s.with_borrowed.end(), s.frozen.begin(), s.frozen.end());
  for (const auto& [owner, parameter] : s.borrowed) s.with_borrowed.push_back(weights(owner).newest_view(parameter));
  return s.with_borrowed;
}

bool TorchWorker::holds(StageId stage, Micro micro) const {
  return context_.program->placement.rank_of(stage, micro) == rank_;
}

std::vector<std::int64_t> TorchWorker::samples_of(const State& s, Micro op) const {
  const Program& program = *context_.program;
  const MicrobatchSizes& sizes = program.sizes;
  const std::int64_t n = sizes.differ() ? sizes.of(op) : context_.spec->micro_batch * microbatches_per_op_of(s);
  const std::int64_t before =
      static_cast<std::int64_t>(iteration_) * program.microbatches + std::int64_t{op.value} * microbatches_per_op_of(s);
  const std::int64_t first =
      sizes.differ() ? static_cast<std::int64_t>(iteration_) * program.updates * sizes.batch() + sizes.before(op)
                     : before / program.sequence_chunks * context_.spec->micro_batch;
  std::vector<std::int64_t> samples(static_cast<std::size_t>(n));
  const auto& order = context_.request->order;
  const std::int64_t samples_there =
      context_.spec->feed ? context_.spec->feed->test_samples : context_.spec->synthetic_batch;
  for (std::int64_t k = 0; k < n; ++k) samples[k] = order.empty() ? (first + k) % samples_there : order.at(first + k);
  return samples;
}

// Which positions of its sequences an op works on.
SequenceChunk TorchWorker::chunk_of(Micro op) const {
  const Program& program = *context_.program;
  if (program.sequence_chunks == 1) return {};
  const std::vector<std::int64_t>& cut = context_.spec->plan.sequence_cut;
  const auto c = static_cast<std::size_t>(program.sequence_chunk_of(op));
  return {
      .count = program.sequence_chunks, .first = cut.at(c), .length = cut.at(c + 1) - cut.at(c), .whole = cut.back()};
}

// What the stash keeps counts as activations, except for input data and targets, which belong to the data feed.
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
  at::Tensor target, whole_target;
  const SequenceChunk chunk = chunk_of(op.micro);
  const auto part_of = [&](const at::Tensor& t) {
    return chunk.count == 1 ? t : t.narrow(1, chunk.first, chunk.length).contiguous();
  };
  {
    const MemoryScope scope(counters_, MemoryKind::buffers);
    for (std::size_t k = 0; k < inputs; ++k) {
      const ProbeScope probed(
          probe_, counters_,
          {.kind = ProbeSample::Kind::load, .opcode = op.opcode, .stage = s.id, .layer = receives[k]});
      slot.received[k] =
          on_device(part_of(load_input(context_, true, static_cast<std::size_t>(-1 - receives[k]), samples)));
    }
    const ProbeScope probed(
        s.has_loss ? probe_ : nullptr, counters_,
        {.kind = ProbeSample::Kind::load, .opcode = op.opcode, .stage = s.id, .layer = s.module->last_layer()});
    if (s.has_loss) whole_target = on_device(load_targets(context_, true, samples));
    if (s.has_loss) target = part_of(whole_target);
  }
  // Kernels take scratch memory too, so everything counts as a buffer at first; what the stash keeps is recounted.
  const MemoryScope scope(counters_, MemoryKind::buffers);
  const Program& program = *context_.program;
  const std::int64_t run_micro = (static_cast<std::int64_t>(iteration_) * program.microbatches +
                                  std::int64_t{op.micro.value} * microbatches_per_op_of(s)) /
                                 program.sequence_chunks;
  const ForwardMode mode{
      .training = true,
      .seed = context_.spec->seed,
      .sequence = context_.first_update * (program.microbatches_per_update / program.sequence_chunks) + run_micro,
      .micro_batches = microbatches_per_op_of(s),
      .recomputing = op.opcode == Opcode::recompute,
      .chunk = chunk,
      .whole_target = chunk.count == 1 ? at::Tensor() : whole_target};
  if (chunk.first > 0) slot.stash.earlier = &s.slots[op.micro.index() - 1].stash;
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
  hand_to_successors(s, op, std::move(outputs));
}

// What stays on the rank; the rest waits for the sends.
void TorchWorker::hand_to_successors(State& s, const Instruction& op, std::vector<at::Tensor> outputs) {
  Slot& slot = s.slots[op.micro.index()];
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

// A forward of inference: of test samples, with running statistics and without dropout; nothing is kept of it.
void TorchWorker::infer(State& s, const Instruction& op) {
  const MemoryScope scope(counters_, MemoryKind::buffers);
  Slot& slot = s.slots[op.micro.index()];
  slot.received.resize(s.interface.receives.size());
  const auto on_device = [&](const at::Tensor& t) { return device_ ? device_->from_host(t) : t; };
  at::Tensor target, loss, output;
  std::vector<std::int64_t> samples;
  for (std::size_t k = 0; k < slot.received.size() && s.interface.receives[k] < 0; ++k) {
    if (samples.empty()) samples = samples_of(s, op.micro);
    slot.received[k] =
        on_device(load_input(context_, false, static_cast<std::size_t>(-1 - s.interface.receives[k]), samples));
  }
  if (s.has_loss) target = on_device(load_targets(context_, false, samples_of(s, op.micro)));
  std::vector<at::Tensor> outputs =
      s.module->forward(slot.received, read_weights(s, op), target, {.training = false}, nullptr, &loss, &output);
  s.weights->used(op);
  slot.received.clear();
  if (s.has_loss) {
    add_output(s, op, output.cpu().contiguous());
    add_loss(s, iteration_, op.micro, loss.item<double>());
  }
  hand_to_successors(s, op, std::move(outputs));
  finish_batch(s, op);
}

// Each micro-batch's rows on their own.
void TorchWorker::add_output(const State& s, const Instruction& op, const at::Tensor& output) {
  const int at_once = microbatches_per_op_of(s);
  const auto* bytes = static_cast<const char*>(output.const_data_ptr());
  const std::size_t size = output.nbytes() / static_cast<std::size_t>(at_once);
  const int first = iteration_ * context_.program->microbatches + op.micro.value * at_once;
  for (int m = 0; m < at_once; ++m, bytes += size) output_digests_[first + m] = word_hash(bytes, size) | 1;  // never 0
}

// The batch's last micro-batch on this rank: progress, and a failure that is asked for.
void TorchWorker::finish_batch(const State& s, const Instruction& op) {
  const Program& program = *context_.program;
  const int last = (op.micro.value + 1) * microbatches_per_op_of(s);
  if (last % program.microbatches_per_update != 0) return;
  const std::int64_t batch =
      static_cast<std::int64_t>(iteration_) * program.updates + last / program.microbatches_per_update;
  if (rank_.value == context_.spec->fail_rank && batch - 1 == context_.spec->fail_update)
    throw std::runtime_error("failed on purpose in batch " + std::to_string(batch - 1));
  const bool shows = context_.spec->processes ? rank_.value == 0 : s.has_loss;
  if (shows && context_.request->progress) context_.request->progress(batch);
}

// The part of the next stage's input gradient that it has passed to this rank.
void TorchWorker::finish_divided_gradient(State& s, Slot& slot) {
  std::vector<at::Tensor> given = std::move(slot.divided);
  slot.divided.clear();
  const at::Tensor rest = channel_gradient(s.divided_layer, given[1], given[2], s.divided_input);
  slot.output_gradients[s.successors.at(s.divided_after.value()).own.front()] =
      joined_channels(s.divided_layer, given[0], rest);
}

// A sequence's first backward, of its last chunk, makes the gradients of the keys and values of its other chunks.
void TorchWorker::count_key_value_gradients(State& s, const Instruction& op) {
  const Program& program = *context_.program;
  const int chunk = program.sequence_chunk_of(op.micro);
  if (chunk == 0 || chunk + 1 < program.sequence_chunks) return;
  for (int c = 1; c <= chunk; ++c) count_stash(s.slots[op.micro.index() - static_cast<std::size_t>(c)]);
}

void TorchWorker::input_gradient(State& s, const Instruction& op, Slot& slot) {
  const MemoryScope scope(counters_, MemoryKind::buffers);
  if (!slot.divided.empty()) finish_divided_gradient(s, slot);
  slot.output_gradients.resize(s.interface.sends.size());
  const Program& program = *context_.program;
  const double loss_scale = context_.spec->loss_scale;
  const double scale = program.sizes.differ()
                           ? loss_scale * program.sizes.weight(op.micro)
                           : loss_scale * microbatches_per_op_of(s) / program.microbatches_per_update;
  slot.input_gradients = s.module->input_gradient(slot.output_gradients, scale, read_weights(s, op), slot.stash);
  s.weights->used(op);
  slot.passed = s.module->take_passed();
  slot.output_gradients.clear();
  slot.input_gradients_left = s.messages_per_input_gradient;
  for (auto& [predecessor, edge] : s.predecessors)
    for_each_local_message(s, op.micro, predecessor, [&](const MicroBatchSlice& made, const MicroBatchSlice& taken) {
      State& before = state(predecessor);
      Slot& target = before.slots[taken.op.index()];
      target.output_gradients.resize(before.interface.sends.size());
      for (std::size_t k = 0; k < edge.own.size(); ++k) {
        if (!edge.has_gradient[k]) continue;
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
  if (!bucket_ready_) return s.module->weight_gradient(one, gradient_views(s));
  const std::span<const at::Tensor> gradients = gradient_views(s);
  const Buffer all = this->gradients(s.id);
  const auto element = static_cast<std::int64_t>(s.weights->gradients_flat().element_size());
  std::size_t next = 0;
  s.module->weight_gradient(one, gradients, [&](std::size_t step) {
    for (; next < s.buckets.size() && s.buckets[next].step >= step; ++next) {
      const StageModule::GradientBucket& bucket = s.buckets[next];
      (*bucket_ready_)({static_cast<char*>(all.data) + bucket.first * element,
                        static_cast<std::size_t>(bucket.end - bucket.first), all.type});
    }
  });
}

// What weight gradients are added to. The first call after a step, or after the sum was sent, clears it.
std::span<const at::Tensor> TorchWorker::gradient_views(State& s) {
  if (s.weights) {
    const ProbeScope probed(s.weights->clears_gradients() ? probe_ : nullptr, counters_,
                            {.kind = ProbeSample::Kind::clear, .stage = s.id});
    const std::span<const at::Tensor> own = s.weights->gradients();
    if (s.borrowed.empty() && s.frozen.empty()) return own;
    s.with_borrowed.assign(own.begin(), own.end());
    s.with_borrowed.resize(own.size() + s.frozen.size());  // no gradient
    for (const auto& [owner, parameter] : s.borrowed) s.with_borrowed.push_back(weights(owner).gradients()[parameter]);
    return s.with_borrowed;
  }
  if (s.clear_gradient_sum) s.gradient_sum.zero_();
  s.clear_gradient_sum = false;
  return s.gradient_sum_views;
}

void TorchWorker::finish_gradients(State& s) {
  run_pending_weight_gradients(s);
  for (State& other : states_)
    if (std::ranges::count(other.borrowed, s.id, &Borrowed::owner) > 0) run_pending_weight_gradients(other);
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
