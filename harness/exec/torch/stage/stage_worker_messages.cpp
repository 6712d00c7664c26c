// Messages of a stage: activations, their gradients, stashes and summed weight gradients on their way between ranks.
#include <c10/core/InferenceMode.h>

#include <map>

#include "harness/exec/torch/stage/stage_worker.h"

namespace sluice {

// A tensor that leaves the rank must belong to its receiver alone: where a stash keeps it, or another message will be
// made of it, the original stays here and the message is a copy.
at::Tensor TorchWorker::hand_out(at::Tensor& tensor, const MicroBatchSlice& slice, bool last_reader) {
  const MemoryScope scope(counters_, MemoryKind::buffers);
  at::Tensor message = rows_of(tensor, slice);
  if (last_reader) tensor.reset();
  if (!slice.whole() || message.use_count() > 1 || message.storage().use_count() > 1) message = message.clone();
  recount(message, counters_, MemoryKind::buffers);
  return message;
}

// The message: how many tensors each layer kept, and these tensors. They count for this rank until it is sent.
Message TorchWorker::take_stash(Slot& slot) {
  auto message = std::make_shared<TensorMessage>();
  std::vector<at::Tensor>& tensors = message->tensors;
  const MemoryScope scope(counters_, MemoryKind::buffers);
  for (LayerStash& layer : slot.stash.layers) {
    message->numbers.push_back(static_cast<std::int64_t>(layer.kept.size()));
    for (at::Tensor& kept : layer.kept) tensors.push_back(std::move(kept));
  }
  slot.stash = {};
  // Layers that keep the same tensor, or views of one, go on sharing it. It is copied only where something outside the
  // message holds it too.
  std::map<const void*, std::size_t> handles, views;  // in the message: handles of a tensor, tensors of a storage
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
  if (send.opcode == Opcode::send_stepped || send.opcode == Opcode::send_credit)
    return {std::make_shared<TensorMessage>()};
  ProbeScope probed(probe_, counters_, {.kind = ProbeSample::Kind::take, .opcode = send.opcode, .stage = send.stage});
  State& s = state(send.stage);
  if (send.opcode == Opcode::send_stash) return take_stash(s.slots[send.micro.index()]);
  if (send.opcode == Opcode::send_weight_gradient) {
    run_pending_weight_gradients(s);
    gradient_views(s);
    s.clear_gradient_sum = true;
    const MemoryScope scope(counters_, MemoryKind::buffers);
    return {std::make_shared<TensorMessage>(TensorMessage{.tensors = {s.gradient_sum.clone()}}),
            device_ ? device_->record() : nullptr};
  }
  const bool is_activation = send.opcode == Opcode::send_activation;
  auto message = std::make_shared<TensorMessage>();
  const auto& edges = is_activation ? s.successors : s.predecessors;
  const auto edge = edges.find(send.peer_stage);
  if (edge == edges.end()) return {std::move(message)};  // an edge that imposes an order and carries no data
  const MicroBatchSlice slice = slice_of_message(context_.program->graph, send.stage, send.micro, send.peer_stage);
  Slot& slot = s.slots[slice.op.index()];
  auto& values = is_activation ? slot.outputs : slot.input_gradients;
  auto& left = is_activation ? slot.outputs_left : slot.input_gradients_left;
  for (std::size_t k = 0; k < edge->second.own.size(); ++k) {
    if (!is_activation && !edge->second.has_gradient[k]) continue;
    const std::size_t i = edge->second.own[k];
    message->tensors.push_back(hand_out(values[i], slice, --left[i] == 0));
  }
  if (!is_activation && slot.passed.weights.defined()) {
    for (at::Tensor* tensor : {&slot.passed.output_gradient, &slot.passed.weights})
      message->tensors.push_back(hand_out(*tensor, slice, true));
    slot.passed = {};
  }
  for (const at::Tensor& tensor : message->tensors)
    probed.add_bytes(tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0);
  return {std::move(message), device_ ? device_->record() : nullptr};
}

// Takes tensors that another rank's stream made: this rank's stream waits for them, and their memory is not reused
// before this stream has read them.
void TorchWorker::receive_on_device(std::vector<at::Tensor>& tensors, const RankDevice::Event& ready) {
  device_->wait(ready);
  for (at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (tensor.device() == device()) {
      device_->used_here(tensor);
    } else {  // from another GPU of this process; the source must stay until it is copied
      at::Tensor source = std::move(tensor);
      tensor = source.to(device(), /*non_blocking=*/true);
      copied_.emplace_back(std::move(source), device_->record());
    }
  }
  while (!copied_.empty() && device_->passed(copied_.front().second)) copied_.pop_front();
}

void TorchWorker::put(const Instruction& receive, Message message) {
  const c10::InferenceMode no_autograd;
  if (receive.opcode == Opcode::receive_stepped || receive.opcode == Opcode::receive_credit) return;
  ProbeScope probed(probe_, counters_,
                    {.kind = ProbeSample::Kind::put, .opcode = receive.opcode, .stage = receive.stage});
  State& s = state(receive.stage);
  auto& payload = *static_cast<TensorMessage*>(message.payload.get());
  std::vector<at::Tensor>& tensors = payload.tensors;
  if (receive.opcode == Opcode::receive_stash) {
    if (device_) receive_on_device(tensors, message.ready);
    return put_stash(s.slots[receive.micro.index()], payload);
  }
  if (receive.opcode == Opcode::receive_weight_gradient) {
    if (device_) receive_on_device(tensors, message.ready);
    s.weights->gradients();
    s.weights->gradients_flat().add_(tensors[0]);
    return;
  }
  const bool is_activation = receive.opcode == Opcode::receive_activation;
  const auto& edges = is_activation ? s.predecessors : s.successors;
  const auto found = edges.find(receive.peer_stage);
  if (found == edges.end()) return;  // an edge that imposes an order and carries no data
  const Edge& edge = found->second;
  const MicroBatchSlice slice =
      slice_of_message(context_.program->graph, receive.stage, receive.micro, receive.peer_stage);
  Slot& slot = s.slots[slice.op.index()];
  const MemoryScope scope(counters_, MemoryKind::buffers);
  if (device_) receive_on_device(tensors, message.ready);
  if (is_activation) {
    slot.received.resize(s.interface.receives.size());
    for (std::size_t k = 0; k < edge.own.size(); ++k) {
      // Counts as a buffer until its forward; after it as an activation, where a layer keeps it.
      recount(tensors[k], counters_, MemoryKind::buffers);
      put_rows(slot.received[edge.own[k]], std::move(tensors[k]), slice);
    }
  } else {
    slot.output_gradients.resize(s.interface.sends.size());
    if (s.divided_after == receive.peer_stage) {
      for (const at::Tensor& tensor : tensors) recount(tensor, counters_, MemoryKind::buffers);
      slot.divided = std::move(tensors);
      return;
    }
    for (std::size_t k = 0, next = 0; k < edge.own.size(); ++k) {
      if (!edge.has_gradient[k]) continue;
      at::Tensor& tensor = tensors[next++];
      recount(tensor, counters_, MemoryKind::buffers);
      add_rows(slot.output_gradients[edge.own[k]], std::move(tensor), slice);
    }
  }
}

}  // namespace sluice
