#include "harness/sim/collectives.h"

#include <algorithm>

namespace sluice {

Collectives::Collectives(const Program& program, const Costs& costs, Network& network)
    : program_(program), costs_(costs), network_(network) {
  for (std::size_t s = 0; s < program.graph.size(); ++s) any_sharded_ = any_sharded_ || program.sharded(StageId(s));
  if (!any_sharded_) return;
  meetings_.resize(program.graph.size());
  members_.resize(program.ranks.size() * program.graph.size());
  queues_.resize(program.ranks.size());
  free_at_.resize(program.ranks.size());
  trace_.resize(program.ranks.size());
}

void Collectives::issue(std::size_t r, const Instruction& i, double now, bool traced) {
  Member& m = member(r, i.stage);
  const auto number = static_cast<std::size_t>(m.issued);
  (i.opcode == Opcode::gather_weights ? m.gather : m.scatter) = m.issued++;
  auto& of_stage = meetings_[i.stage.index()];
  if (number == of_stage.size()) {
    of_stage.emplace_back();
    of_stage.back().instruction = i;
    of_stage.back().traced = traced;
  }
  Meeting& meeting = of_stage[number];
  ++meeting.arrived;
  meeting.latest = std::max(meeting.latest, now);
  queues_[r].emplace_back(i.stage.index(), number);
  begin_if_all_are_there({i.stage.index(), number});
}

bool Collectives::is_over(std::size_t r, const Instruction& i, double& clock) {
  const Member& m = member(r, i.stage);
  const auto over = [&](int number) {
    if (number < 0) return true;
    Meeting& meeting = meetings_[i.stage.index()][number];
    if (meeting.end < 0) {
      meeting.waiting.push_back(r);
      return false;
    }
    clock = std::max(clock, meeting.end);
    return true;
  };
  if (reads_weights(i.opcode) && !over(m.gather)) return false;
  const bool needs_gradient_buffer = makes_weight_gradient(i.opcode) || i.opcode == Opcode::optimizer_step;
  return !needs_gradient_buffer || over(m.scatter);
}

// Its members have all come, and none of their engines has anything before it.
void Collectives::begin_if_all_are_there(const Key& key) {
  Meeting& meeting = meetings_[key.first][key.second];
  const auto& members = group(key.first);
  if (meeting.arrived < members.size() || meeting.steps_left > 0) return;
  double start = meeting.latest;
  for (const Rank rank : members) {
    if (queues_[rank.index()].front() != key) return;
    start = std::max(start, free_at_[rank.index()]);
  }
  meeting.start = start;
  meeting.steps_left = members.size() - 1;
  events_.emplace(start, key.first, key.second);
}

void Collectives::step(std::vector<std::size_t>& woken) {
  const auto [now, stage, number] = events_.top();
  events_.pop();
  Meeting& meeting = meetings_[stage][number];
  const StageCost& cost = costs_.stages[stage];
  const Bytes whole = meeting.instruction.opcode == Opcode::gather_weights ? cost.parameters : cost.gradients();
  const double bytes = static_cast<double>(whole.value) / static_cast<double>(group(stage).size());
  const double end = network_.ring_step_end(StageId(stage), now, bytes);
  if (--meeting.steps_left > 0) {
    events_.emplace(end, stage, number);
    return;
  }
  meeting.end = end;
  finish({stage, number}, woken);
}

void Collectives::finish(const Key& key, std::vector<std::size_t>& woken) {
  Meeting& meeting = meetings_[key.first][key.second];
  end_ = std::max(end_, meeting.end);
  for (const Rank rank : group(key.first)) {
    free_at_[rank.index()] = meeting.end;
    queues_[rank.index()].pop_front();
    if (meeting.traced) trace_[rank.index()].push_back({meeting.instruction, meeting.start, meeting.end});
  }
  woken.insert(woken.end(), meeting.waiting.begin(), meeting.waiting.end());
  meeting.waiting.clear();
  for (const Rank rank : group(key.first))
    if (!queues_[rank.index()].empty()) begin_if_all_are_there(queues_[rank.index()].front());
}

}  // namespace sluice
