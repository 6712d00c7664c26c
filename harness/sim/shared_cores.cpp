#include "harness/sim/shared_cores.h"

#include <algorithm>
#include <limits>

#include "harness/sim/communication.h"

namespace sluice {

SharedCores::SharedCores(const Program& program, const Costs& costs, const MessageBytes& message_bytes,
                         const Cluster::OneMachine& machine)
    : program_(program),
      costs_(costs),
      message_bytes_(message_bytes),
      own_(costs.machine.value()),
      machine_(machine),
      ranks_(program.ranks.size()) {
  for (RankState& rank : ranks_)
    for (const int predictions : program.predictions)
      rank.stages.push_back({.predicted = std::vector<int>(static_cast<std::size_t>(predictions), -1)});
}

void SharedCores::begin_op(std::size_t r, std::size_t position, int iteration, double now) {
  RankState& rank = ranks_[r];
  const OpCost cost = op_cost(r, position, iteration);
  rank.busy = true;
  rank.contended_ratio = cost.contended_ratio;
  rank.work = Work(cost.seconds, now, 1);
  change_speeds(now);
}

void SharedCores::end_op(std::size_t r, double now) {
  ranks_[r].busy = false;
  change_speeds(now);
}

std::pair<double, std::size_t> SharedCores::next_end() const {
  std::pair<double, std::size_t> next{std::numeric_limits<double>::infinity(), 0};
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (ranks_[r].busy) next = std::min(next, {ranks_[r].work.end(), r});
  return next;
}

void SharedCores::change_speeds(double now) {
  const auto busy = static_cast<int>(std::ranges::count(ranks_, true, &RankState::busy));
  const double core = std::min(1.0, static_cast<double>(machine_.cores) / std::max(busy, 1));
  for (RankState& rank : ranks_)
    if (rank.busy)
      rank.work.change_speed(now, core / slowdown(rank.contended_ratio, std::min(busy, machine_.cores) - 1));
}

// contended_ratio: with as many busy neighbours as in the measurement.
double SharedCores::slowdown(double contended_ratio, int neighbours) const {
  if (own_.neighbours < 1) return 1;
  return std::max(1.0, 1 + (contended_ratio - 1) * neighbours / own_.neighbours);
}

SharedCores::OpCost SharedCores::op_cost(std::size_t r, std::size_t position, int iteration) {
  const Instruction& i = program_.ranks[r][position];
  const StageCost& stage = (is_compute(i.opcode) ? costs_.at(program_, i.micro) : costs_).stages[i.stage.index()];
  const StageCost::Contention& contention = stage.contention;
  StageState& state = ranks_[r].stages[i.stage.index()];
  const bool batched = costs_.batched_weight_gradients;
  const Costs::ChunkParts part = program_.sequence_chunks == 1 || !is_compute(i.opcode)
                                     ? Costs::ChunkParts{}
                                     : costs_.parts_of(program_, i.stage, program_.sequence_chunk_of(i.micro));
  const MachineCosts::Apart apart =
      program_.placement.has_weight_gradient_rank(i.stage) ? own_.apart : MachineCosts::Apart{};
  OpCost cost;
  const auto add = [&](double seconds, double contended_ratio) {
    const double sum = cost.seconds + seconds;
    if (sum > 0) cost.contended_ratio = (cost.seconds * cost.contended_ratio + seconds * contended_ratio) / sum;
    cost.seconds = sum;
  };
  const auto add_batch = [&] {
    if (state.pending == 0) return;
    add(clear_seconds(r, i.stage), contention.update);
    add(batched_seconds(stage, state.pending), contention.weight_gradient);
    state.pending = 0;
  };
  if (i.prediction >= 0 && std::exchange(state.predicted[i.prediction], iteration) != iteration)
    add(static_cast<double>(stage.parameters.value) * own_.predict, contention.update);
  switch (i.opcode) {
    case Opcode::forward:
    case Opcode::recompute:
      add((own_.forward_op.value + stage.forward.value * part.forward) * apart.forward, contention.forward);
      break;
    case Opcode::backward:
      add(own_.backward_op.value + stage.input_gradient.value * part.input_gradient, contention.input_gradient);
      if (batched) {
        state.pending += part.weight_gradient;
      } else {
        add(clear_seconds(r, i.stage), contention.update);
        add(stage.weight_gradient.value * part.weight_gradient, contention.weight_gradient);
      }
      break;
    case Opcode::input_gradient:
      add((own_.backward_op.value + stage.input_gradient.value * part.input_gradient) * apart.input_gradient,
          contention.input_gradient);
      break;
    case Opcode::weight_gradient:
      add(own_.weight_gradient_op.value * apart.weight_gradient, contention.weight_gradient);
      if (batched) {
        state.pending += part.weight_gradient;
        if (!next_op_is_weight_gradient(r, position)) add_batch();
      } else {
        add(clear_seconds(r, i.stage), contention.update);
        add(stage.split_weight_gradient.value * part.weight_gradient * apart.weight_gradient,
            contention.weight_gradient);
      }
      break;
    default:  // a step
      add_batch();
      add(stage.update.value / (program_.sharded(i.stage) ? group_size(i.stage) : 1), contention.update);
      state.clear = true;
  }
  return cost;
}

// Of the same stage.
bool SharedCores::next_op_is_weight_gradient(std::size_t r, std::size_t position) const {
  const std::vector<Instruction>& list = program_.ranks[r];
  for (std::size_t k = position + 1; k < list.size(); ++k)
    if (is_compute(list[k].opcode))
      return list[k].opcode == Opcode::weight_gradient && list[k].stage == list[position].stage;
  return false;
}

// Of the weight gradients of `microbatches` micro-batches as one product: measured for one micro-batch and for
// own_.batched_microbatches, in between a straight line.
double SharedCores::batched_seconds(const StageCost& stage, double microbatches) const {
  const double together = stage.batched_weight_gradient.value, single = stage.split_weight_gradient.value;
  const double measured = own_.batched_microbatches;
  if (measured < 2) return microbatches * together;
  return microbatches * together + (single - together) * std::max(measured - microbatches, 0.0) / (measured - 1);
}

// Zeroing, if the next gradient is the first of an update.
double SharedCores::clear_seconds(std::size_t r, StageId stage) {
  const bool clear = std::exchange(ranks_[r].stages[stage.index()].clear, false);
  return clear ? costs_.stages[stage.index()].clear.value : 0;
}

double SharedCores::message_seconds(double of_threads, const Instruction& message) const {
  if (!machine_.between_processes) return of_threads;
  return of_threads + (own_.processes.message.value + own_.processes.byte * message_bytes_.of(message));
}

double SharedCores::send_seconds(const Instruction& send) const {
  return message_seconds(own_.send.value + own_.copy * message_bytes_.copied(send), send);
}

double SharedCores::receive_seconds(const Instruction& receive) const {
  return message_seconds(own_.receive.value, receive);
}

double SharedCores::stash_seconds(const Instruction& move) const {
  return move.opcode == Opcode::stash_free ? 0 : costs_.at(program_, move.micro).host_copies[move.stage.index()].value;
}

double SharedCores::collective_seconds(std::size_t r, const Instruction& collective) {
  // What was not measured between processes costs what it costs between threads.
  const auto per_byte = [&](double threads, double processes) {
    return machine_.between_processes && processes > 0 ? processes : threads;
  };
  const StageCost& stage = costs_.stages[collective.stage.index()];
  if (is_of_step_group(collective.opcode))
    return per_byte(own_.reduce, own_.processes.reduce) * reduced_bytes(program_, collective, costs_);
  const bool gathers = collective.opcode == Opcode::gather_weights;
  const auto bytes = static_cast<double>((gathers ? stage.parameters : stage.gradients()).value);
  // Each member sums its part of the vector and writes it to all.
  if (collective.opcode == Opcode::reduce_gradients) return per_byte(own_.reduce, own_.processes.reduce) * bytes;
  const double n = group_size(collective.stage);
  const double slices_of_others = bytes * (n - 1) / n;
  if (gathers) return per_byte(own_.gather, own_.processes.gather) * slices_of_others;
  // The whole gradients of a sharded stage are allocated again for each reduce-scatter.
  const double allocation = own_.copy * bytes / 2;
  return clear_seconds(r, collective.stage) + per_byte(own_.scatter, own_.processes.scatter) * slices_of_others +
         allocation;
}

}  // namespace sluice
