// What the replicas of a stage exchange: whole gradients, and of sharded stages slices of weights and gradients.
#include <c10/core/InferenceMode.h>

#include "harness/exec/torch/stage/stage_worker.h"

namespace sluice {

static Worker::Buffer buffer_of(const at::Tensor& flat, std::int64_t count) {
  return {flat.data_ptr(), static_cast<std::size_t>(count),
          flat.scalar_type() == at::kDouble ? ElementType::float64 : ElementType::float32};
}

Worker::Buffer TorchWorker::gradients(StageId stage) {
  State& s = state(stage);
  run_pending_weight_gradients(s);
  s.weights->gradients();  // clears the accumulator where this rank had no micro-batch
  const at::Tensor& g = s.weights->gradients_flat();
  return buffer_of(g, g.numel());
}

bool TorchWorker::compute_in_buckets(const Instruction& op, const std::function<void(const Buffer&)>& ready) {
  if (state(op.stage).buckets.size() < 2) return false;  // one is complete when the op is
  bucket_ready_ = &ready;
  compute(op);
  bucket_ready_ = nullptr;
  return true;
}

Worker::Gathering TorchWorker::begin_gather(StageId stage) {
  const c10::InferenceMode no_autograd;
  StageWeights& w = weights(stage);
  return {buffer_of(w.begin_gather(), w.newest_flat().numel()), {w.newest_flat().data_ptr(), w.newest_version()}};
}

void TorchWorker::free_weights(StageId stage) { weights(stage).free_gathered(); }

Worker::Buffer TorchWorker::begin_reduce_scatter(StageId stage) {
  const c10::InferenceMode no_autograd;
  run_pending_weight_gradients(state(stage));
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

}  // namespace sluice
