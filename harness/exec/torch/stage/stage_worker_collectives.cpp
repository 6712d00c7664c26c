// What the replicas of a stage exchange: whole gradients, and of sharded stages slices of weights and gradients; and
// what all ranks sum before their steps.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <numeric>

#include "harness/exec/torch/stage/stage_worker.h"
#include "harness/model/expert_spread.h"

namespace sluice {

static Worker::Buffer buffer_of(const at::Tensor& flat, std::int64_t count) {
  return {flat.data_ptr(), static_cast<std::size_t>(count),
          flat.scalar_type() == at::kDouble ? ElementType::float64 : ElementType::float32};
}

Worker::Buffer TorchWorker::gradients(StageId stage) {
  State& s = state(stage);
  finish_gradients(s);
  s.weights->gradients();  // clears the accumulator where this rank had no micro-batch
  const at::Tensor& g = s.weights->gradients_flat();
  return buffer_of(g, g.numel());
}

// All but the matrices of experts that no other replica has.
std::vector<Worker::Buffer> TorchWorker::shared_gradients(StageId stage) {
  const Buffer all = gradients(stage);
  if (!state(stage).experts) return {all};
  const SessionSpec& spec = *context_.spec;
  const std::size_t element = all.type == ElementType::float64 ? 8 : 4;
  std::vector<Buffer> parts;
  std::size_t first = 0, begin = 0;  // of the parameter; of the part
  const auto end_part = [&] {
    if (first > begin) parts.push_back({static_cast<char*>(all.data) + begin * element, first - begin, all.type});
  };
  for (const int l : spec.plan.stages[stage.index()].layers) {
    const std::vector<ParameterSpec> own = trained_parameters(spec.model.layers[l]);
    for (std::size_t p = 0; p < own.size(); ++p) {
      const auto count = static_cast<std::size_t>(elements(own[p].shape));
      const bool is_part = is_part_of_experts(spec.model.layers[l], p);
      if (is_part) end_part();
      first += count;
      if (is_part) begin = first;
    }
  }
  end_part();
  return parts;
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

// The gradients of this rank's copies of a weight, by stage.
std::vector<std::pair<StageId, at::Tensor>> TorchWorker::gradients_of_copies(const Instruction& reduction) {
  const SessionSpec& spec = *context_.spec;
  const int owner = copied_layers(spec.model)[context_.program->weight_of(reduction)];
  std::vector<std::pair<StageId, at::Tensor>> copies;
  for (State& s : states_) {
    if (!s.weights) continue;
    std::int64_t first = 0;
    for (const int l : spec.plan.stages[s.id.index()].layers) {
      if (holds_weight_of(spec.model, l, owner)) {
        finish_gradients(s);
        s.weights->gradients();  // clears the accumulator where this rank had no micro-batch
        const std::int64_t count = elements(parameters(spec.model.layers[l]).front().shape);
        copies.emplace_back(s.id, s.weights->gradients_flat().narrow(0, first, count));
      }
      first += trained_parameter_count(spec.model.layers[l]);
    }
  }
  return copies;
}

// The replicas of a stage have its sum already: the first one counts it.
Worker::Buffer TorchWorker::begin_copies(const Instruction& reduction) {
  const c10::InferenceMode no_autograd;
  const auto copies = gradients_of_copies(reduction);
  const at::Tensor& sum = copies.front().second;
  for (const auto& [stage, gradient] : copies) {
    const bool counts = context_.program->placement.stages[stage.index()].front() == rank_;
    if (gradient.is_same(sum)) {
      if (!counts) gradient.zero_();
    } else if (counts) {
      copies.front().second.add_(gradient);
    }
  }
  return buffer_of(sum, sum.numel());
}

void TorchWorker::end_copies(const Instruction& reduction) {
  const c10::InferenceMode no_autograd;
  const auto copies = gradients_of_copies(reduction);
  for (std::size_t k = 1; k < copies.size(); ++k) copies[k].second.copy_(copies.front().second);
}

// Replicas have the same gradients after they were reduced, and members of a tensor-parallel group the same of a
// parameter that each holds whole: the first one counts them. Experts that are spread are counted by their replica.
Worker::Buffer TorchWorker::begin_norm() {
  const c10::InferenceMode no_autograd;
  const SessionSpec& spec = *context_.spec;
  const Program& program = *context_.program;
  const MemoryScope scope(counters_, MemoryKind::buffers);
  std::vector<double> squares(spec.model.layers.size(), 0);
  for (State& s : states_) {
    if (!s.weights) continue;
    finish_gradients(s);
    if (!program.sharded(s.id)) {
      s.weights->gradients();  // clears the accumulator where this rank had no micro-batch
    }
    const bool first_replica = program.sharded(s.id) || program.placement.stages[s.id.index()].front() == rank_;
    if (!first_replica && !s.experts) continue;
    std::int64_t first = 0;
    for (const int l : spec.plan.stages[s.id.index()].layers) {
      const std::vector<ParameterSpec> own = trained_parameters(spec.model.layers[l]);
      for (std::size_t p = 0; p < own.size(); ++p) {
        const std::int64_t end = first + elements(own[p].shape);
        const bool whole = spec.tensor && spec.tensor->split_of(l).parameters[p].dimension < 0;
        const bool copied = p == 0 && spec.model.layers[l].copy_of >= 0;  // counted where the weight is
        const bool counts = first_replica || is_part_of_experts(spec.model.layers[l], p);
        if (counts && !copied && (!whole || spec.tensor->member_of(l) == 0))
          squares[l] += s.weights->squares(first, end);
        first = end;
      }
    }
  }
  squares_ = at::tensor(squares, at::kDouble).to(device());
  return buffer_of(squares_, squares_.numel());
}

// Added up in the order of the layers, so that the sum is the same for every plan.
void TorchWorker::clip() {
  const at::Tensor squares = squares_.cpu();
  const double* const begin = squares.const_data_ptr<double>();
  const double norm = std::sqrt(std::accumulate(begin, begin + squares.numel(), 0.0));
  const double scale = context_.spec->optimizer.clip_norm / (norm + 1e-6);
  clip_scale_ = scale < 1 ? scale : 1;
}

}  // namespace sluice
