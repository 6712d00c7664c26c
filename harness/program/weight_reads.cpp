#include "harness/program/weight_reads.h"

#include <algorithm>
#include <numeric>

#include "harness/base/error.h"
#include "harness/pipeline/topological_order.h"

namespace sluice {

WeightReads::WeightReads(const Schedule& schedule, Program& program)
    : schedule_(schedule), program_(program), microbatches_(static_cast<std::size_t>(schedule.microbatches)) {
  const WeightRule& rule = program.rule;
  const std::size_t stages = program.graph.size();
  forward_.assign(stages * microbatches_, {});
  program.predictions.assign(stages, 0);
  program.retained_versions.assign(stages, 0);
  if (rule.synchronous()) {
    program.updates = 1;
    program.microbatches_per_update = schedule.microbatches;
    program.microbatches_per_step.assign(stages, schedule.microbatches);
    return;
  }
  count_updates();
  read_newest();
  if (rule.forward == WeightRule::Forward::vertical_sync) read_same_version_everywhere();
  if (rule.forward == WeightRule::Forward::previous) read_previous_version();
  if (!rule.forward_horizon.empty()) predict_forwards();
  if (rule.backward == WeightRule::Backward::ring)
    for (std::size_t s = 0; s < stages; ++s) program.retained_versions[s] = lag(s);
}

void WeightReads::count_updates() {
  const WeightRule& rule = program_.rule;
  for (const auto& replicas : program_.placement.stages)
    program_.microbatches_per_step.push_back(rule.accumulate * static_cast<int>(replicas.size()));
  // The least that is a whole number of steps of every stage.
  program_.microbatches_per_update = 1;
  for (const int n : program_.microbatches_per_step)
    program_.microbatches_per_update = std::lcm(program_.microbatches_per_update, n);
  for (std::size_t s = 0; s < program_.graph.size(); ++s) {
    if (program_.placement.stages[s].size() == 1 || schedule_.microbatches % program_.microbatches_per_update == 0)
      continue;
    throw InputError("schedule",
                     std::to_string(schedule_.microbatches) + " micro-batches, " +
                         std::to_string(program_.microbatches_per_update) +
                         " an update, are no whole number of the steps of stage " + std::to_string(s) +
                         ", which take " + std::to_string(program_.microbatches_per_step[s]) + " each",
                     "choose micro-batches that are a multiple of " + std::to_string(program_.microbatches_per_update));
  }
  const bool partial = program_.policy.leftover == RunPolicy::Leftover::partial;
  program_.updates = (schedule_.microbatches + (partial ? program_.microbatches_per_update - 1 : 0)) /
                     program_.microbatches_per_update;
}

int WeightReads::newest_after(int backwards) const {
  return program_.rule.synchronous() ? 0 : backwards / program_.rule.accumulate;
}

int WeightReads::newest_after_delay(int input_gradients) const {
  return newest_after(std::max(input_gradients - program_.rule.weight_gradient_delay, 0));
}

// Every forward reads the version that is newest on its replica when it runs.
void WeightReads::read_newest() {
  std::vector<int> backwards(program_.graph.size());  // of the rank's stages
  for (const auto& ops : schedule_.ranks) {
    for (const Op& op : ops) backwards[op.stage.index()] = 0;
    for (const Op& op : ops) {
      int& done = backwards[op.stage.index()];
      const bool elsewhere = program_.placement.has_weight_gradient_rank(op.stage);
      if (op.kind == OpKind::forward)
        forward_[slot(op)].version = elsewhere ? newest_after_delay(done) : newest_after(done);
      else if (op.kind != (elsewhere ? OpKind::weight_gradient : OpKind::input_gradient))
        ++done;
    }
  }
}

// Vertical sync: every stage reads the version that the batch's first stage read. That is the smallest of its
// predecessors', taken in topological order.
void WeightReads::read_same_version_everywhere() {
  const StageGraph& graph = program_.graph;
  std::vector<std::size_t> first;  // stages that no stage feeds
  for (std::size_t s = 0; s < graph.size(); ++s)
    if (graph.predecessors[s].empty()) first.push_back(s);
  // A batch enters all stages that only read data as one: a decoder's first stage may be one.
  for (std::size_t i = 0; i < microbatches_; ++i) {
    std::int32_t entered = INT32_MAX;
    for (const std::size_t s : first) entered = std::min(entered, forward_[s * microbatches_ + i].version);
    for (const std::size_t s : first) forward_[s * microbatches_ + i].version = entered;
  }
  for (const StageId s : topological_order(graph))
    for (const StageId t : graph.successors[s.index()])
      for (std::size_t i = 0; i < microbatches_; ++i) {
        std::int32_t& version = forward_[t.index() * microbatches_ + i].version;
        version = std::min(version, forward_[s.index() * microbatches_ + i].version);
      }
}

// Double buffering: the micro-batches of update b read version max(b - 1, 0).
void WeightReads::read_previous_version() {
  for (std::size_t s = 0; s < program_.graph.size(); ++s)
    for (std::size_t i = 0; i < microbatches_; ++i) {
      WeightRead& read = forward_[s * microbatches_ + i];
      const int wanted = std::max(static_cast<int>(i) / program_.microbatches_per_step[s] - 1, 0);
      if (wanted > read.version)
        throw InputError("schedule",
                         "stage " + std::to_string(s) + " needs weight version " + std::to_string(wanted) +
                             " for micro-batch " + std::to_string(i) + ", and has made " +
                             std::to_string(read.version) + " by then",
                         "use at least as many micro-batches per update as there are stages");
      read.version = wanted;
    }
}

// Of the micro-batches that share a prediction, the first makes it, from the version that is newest then; the others
// read what it made.
void WeightReads::predict_forwards() {
  const WeightRule& rule = program_.rule;
  const auto sharing = static_cast<std::size_t>(rule.microbatches_per_prediction);
  for (std::size_t s = 0; s < program_.graph.size(); ++s)
    for (std::size_t i = 0; i < microbatches_; ++i) {
      WeightRead& read = forward_[s * microbatches_ + i];
      if (i % sharing != 0) {
        read = forward_[s * microbatches_ + i - i % sharing];
        continue;
      }
      int horizon = rule.forward_horizon[s];
      if (!rule.clip_to_lag.empty()) {
        const int behind = static_cast<int>(i) / program_.microbatches_per_step[s] - read.version;
        horizon -= std::max(rule.clip_to_lag[s] - behind, 0);
      }
      if (horizon == 0) continue;
      read.horizon = static_cast<std::int16_t>(horizon);
      read.prediction = program_.predictions[s]++;
    }
}

WeightRead WeightReads::of_backward(const Op& op, int newest) {
  const WeightRule& rule = program_.rule;
  const std::size_t s = op.stage.index();
  switch (rule.backward) {
    case WeightRule::Backward::same_as_forward:
      return of_forward(op);
    case WeightRule::Backward::ring:
      return op.micro.value < lag(s) ? WeightRead{.version = op.micro.value - lag(s)} : of_forward(op);
    case WeightRule::Backward::newest:
      break;
  }
  WeightRead read{.version = newest};
  if (rule.backward_horizon.empty() || rule.backward_horizon[s] == 0) return read;
  read.horizon = static_cast<std::int16_t>(rule.backward_horizon[s]);
  // Between two steps the prediction stays the same.
  const auto [found, fresh] = backward_prediction_.try_emplace({op.stage, newest}, 0);
  if (fresh) found->second = program_.predictions[s]++;
  read.prediction = found->second;
  return read;
}

WeightRead WeightReads::of_recomputation(const Op& op, int newest) const {
  return program_.rule.recompute == WeightRule::Recompute::newest ? WeightRead{.version = newest} : of_forward(op);
}

}  // namespace sluice
