#include "harness/sim/collectives.h"

#include <algorithm>

namespace sluice {

Collectives::Collectives(const Program& program, const Costs& costs, const Cluster& cluster, Network& network,
                         std::vector<std::size_t>& woken)
    : program_(program),
      costs_(costs),
      network_(network),
      woken_(woken),
      in_buckets_(!costs.gradient_buckets.empty()),
      on_links_(cluster.all_reduce != AllReduce::apart) {
  const auto& groups = program.placement.stages;
  const bool replicated = std::ranges::any_of(groups, [](const auto& ranks) { return ranks.size() > 1; });
  reduces_ = replicated && (in_buckets_ || on_links_);
  for (std::size_t s = 0; s < program.graph.size(); ++s) any_sharded_ = any_sharded_ || program.sharded(StageId(s));
  in_buckets_ = in_buckets_ && replicated;
  if (!any_sharded_ && !reduces_) return;
  meetings_.resize(program.graph.size());
  members_.resize(program.ranks.size() * program.graph.size());
  queues_.resize(program.ranks.size());
  free_at_.resize(program.ranks.size());
  reducing_until_.resize(program.ranks.size());
  trace_.resize(program.ranks.size());
  find_buckets();
}

void Collectives::find_buckets() {
  if (in_buckets_) buckets_ = costs_.gradient_buckets;
  buckets_.resize(program_.graph.size());
  for (std::size_t s = 0; s < buckets_.size(); ++s)
    if (buckets_[s].empty()) buckets_[s] = {{.bytes = static_cast<double>(costs_.stages[s].gradients().value)}};
}

void Collectives::issue_reduction(std::size_t r, const Instruction& i, Opcode made_by, double start, double end,
                                  bool traced) {
  Member& m = member(r, i.stage);
  const auto number = static_cast<std::size_t>(m.issued);
  int& last = i.opcode == Opcode::gather_weights     ? m.gather
              : i.opcode == Opcode::reduce_gradients ? m.reduce
                                                     : m.scatter;
  last = m.issued++;
  Meetings& of_stage = meetings_[i.stage.index()];
  if (number == of_stage.count()) {
    forget_old(i.stage);
    Meeting& made = of_stage.kept.emplace_back();
    made.instruction = i;
    made.traced = traced;
    made.ready.assign(i.opcode == Opcode::gather_weights ? 1 : buckets_[i.stage.index()].size(), 0);
  }
  Meeting& meeting = of_stage.at(number);
  ++meeting.arrived;
  for (std::size_t b = 0; b < meeting.ready.size(); ++b) {
    const Costs::GradientBucket& bucket = buckets_[i.stage.index()][b];
    const double made = made_by == Opcode::weight_gradient ? bucket.in_weight_gradient : bucket.in_backward;
    meeting.ready[b] = std::max(meeting.ready[b], start + (end - start) * made);
  }
  const Key key{i.stage.index(), number};
  if (!is_all_reduce(i.opcode)) queues_[r].push_back(key);
  begin_if_all_are_there(key);
}

// A rank asks for the last of its kind only.
void Collectives::forget_old(StageId stage) {
  Meetings& of_stage = meetings_[stage.index()];
  while (!of_stage.kept.empty() && of_stage.kept.front().end >= 0) {
    const auto number = static_cast<int>(of_stage.forgotten);
    for (const Rank rank : group(stage.index())) {
      const Member& m = member(rank.index(), stage);
      if (m.gather == number || m.scatter == number || m.reduce == number) return;
    }
    of_stage.kept.pop_front();
    ++of_stage.forgotten;
  }
}

std::size_t Collectives::remembered() const {
  std::size_t count = 0;
  for (const Meetings& of_stage : meetings_) count += of_stage.kept.size();
  return count;
}

bool Collectives::is_over(std::size_t r, Meeting& meeting, double& clock) {
  if (meeting.end < 0) {
    meeting.waiting.push_back(r);
    return false;
  }
  clock = std::max(clock, meeting.end);
  return true;
}

bool Collectives::is_over(std::size_t r, const Instruction& i, double& clock) {
  const Member& m = member(r, i.stage);
  const auto over = [&](int number) {
    return number < 0 || is_over(r, meetings_[i.stage.index()].at(static_cast<std::size_t>(number)), clock);
  };
  if (reads_weights(i.opcode) && !over(m.gather)) return false;
  const bool needs_gradient_buffer = makes_weight_gradient(i.opcode) || i.opcode == Opcode::optimizer_step;
  return !needs_gradient_buffer || over(m.scatter);
}

const std::vector<RingPhase>& Collectives::phases(const Key& key) {
  const StageId stage(key.stage);
  return is_all_reduce(meeting(key).instruction.opcode) ? network_.all_reduce(stage) : network_.gather(stage);
}

double Collectives::bytes(const Key& key) {
  const Meeting& m = meeting(key);
  if (m.instruction.opcode == Opcode::gather_weights)
    return static_cast<double>(costs_.stages[key.stage].parameters.value);
  return buckets_[key.stage][m.bucket].bytes;
}

// An all-reduce over a ring of its own (AllReduce::apart). A rank is in one of them at a time, as in a stream of
// NCCL's.
bool Collectives::meets_no_traffic(const Meeting& m) const { return is_all_reduce(m.instruction.opcode) && !on_links_; }

// Its members have all come, and none of their engines has anything before it. All-reduces need no engine: ranks may
// come to those of different stages in different orders, and each has a communicator of its own.
void Collectives::begin_if_all_are_there(const Key& key) {
  Meeting& m = meeting(key);
  const auto& members = group(key.stage);
  if (m.arrived < members.size() || m.begun) return;
  double start = m.ready.front();
  const bool needs_engine = !is_all_reduce(m.instruction.opcode);
  for (const Rank rank : members) {
    if (!needs_engine) break;
    if (queues_[rank.index()].front() != key) return;
    start = std::max(start, free_at_[rank.index()]);
  }
  m.begun = true;
  m.start = start;
  begin_phase(key, start);
}

void Collectives::begin_phase(const Key& key, double now) {
  Meeting& m = meeting(key);
  if (meets_no_traffic(m)) {
    m.rings_left = 1;
    m.phase_end = now;
    events_.push({now, key, 0});
    return;
  }
  const RingPhase& phase = phases(key)[m.phase];
  m.rings_left = phase.rings.size();
  m.steps_left.assign(phase.rings.size(), phase.steps);
  m.phase_end = now;
  for (std::size_t k = 0; k < phase.rings.size(); ++k) events_.push({now, key, k});
}

void Collectives::step() {
  const Event event = events_.top();
  events_.pop();
  Meeting& m = meeting(event.key);
  if (meets_no_traffic(m)) return step_apart(event);
  const RingPhase& phase = phases(event.key)[m.phase];
  const std::size_t ring = phase.rings[event.ring];
  const double of_step = bytes(event.key) / phase.parts;
  if (network_.shares_fairly()) {
    const std::int64_t owner = turning_.empty() ? -1 : turning_.begin()->first - 1;
    turning_.emplace(owner, event);
    network_.fair().start(event.time, network_.ring(ring), of_step * static_cast<double>(phase.steps), owner);
    return;
  }
  const double end = network_.ring_step_end(ring, event.time, of_step);
  if (--m.steps_left[event.ring] > 0)
    events_.push({end, event.key, event.ring});
  else
    ring_is_over(event.key, end);
}

void Collectives::step_apart(const Event& event) {
  Meeting& m = meeting(event.key);
  const auto& members = group(event.key.stage);
  double start = event.time;
  for (const Rank rank : members) start = std::max(start, reducing_until_[rank.index()]);
  if (start > event.time) return events_.push({start, event.key, 0});
  if (m.bucket == 0) m.start = start;
  const double end =
      network_.all_reduce_end(static_cast<std::int32_t>(event.key.stage), start, members.size(), bytes(event.key));
  for (const Rank rank : members) reducing_until_[rank.index()] = end;
  ring_is_over(event.key, end);
}

void Collectives::transfer_ended(std::int64_t owner, double now) {
  const Event event = turning_.at(owner);
  turning_.erase(owner);
  const RingPhase& phase = phases(event.key)[meeting(event.key).phase];
  const double latency = network_.ring(phase.rings[event.ring]).latency;
  ring_is_over(event.key, now + static_cast<double>(phase.steps) * latency);
}

// After the last ring of a phase the next phase begins, after the last phase the next bucket.
void Collectives::ring_is_over(const Key& key, double end) {
  Meeting& m = meeting(key);
  m.phase_end = std::max(m.phase_end, end);
  if (--m.rings_left > 0) return;
  if (++m.phase < (meets_no_traffic(m) ? 1 : phases(key).size())) return begin_phase(key, m.phase_end);
  m.phase = 0;
  if (++m.bucket < m.ready.size()) return begin_phase(key, std::max(m.phase_end, m.ready[m.bucket]));
  m.end = m.phase_end;
  finish(key);
}

void Collectives::finish(const Key& key) {
  Meeting& m = meeting(key);
  end_ = std::max(end_, m.end);
  const bool had_engine = !is_all_reduce(m.instruction.opcode);
  for (const Rank rank : group(key.stage)) {
    if (m.traced) trace_[rank.index()].push_back({m.instruction, m.start, m.end});
    if (!had_engine) continue;
    free_at_[rank.index()] = m.end;
    queues_[rank.index()].pop_front();
  }
  woken_.insert(woken_.end(), m.waiting.begin(), m.waiting.end());
  m.waiting.clear();
  for (const Rank rank : group(key.stage))
    if (had_engine && !queues_[rank.index()].empty()) begin_if_all_are_there(queues_[rank.index()].front());
}

}  // namespace sluice
