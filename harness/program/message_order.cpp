#include "harness/program/message_order.h"

#include <functional>
#include <queue>
#include <stdexcept>
#include <utility>

namespace sluice {

namespace {

class Lockstep {
 public:
  explicit Lockstep(const Program& program)
      : program_(program),
        result_(program),
        next_(program.ranks.size(), 0),
        step_(program.ranks.size(), 0),
        waits_(program.ranks.size(), false),
        in_collective_(program.ranks.size(), false),
        sent_(program.channels.size(), 0),
        received_(program.channels.size(), 0),
        groups_(collective_groups(program)),
        arrived_(groups_.size(), 0) {
    for (auto& rank : result_.ranks) rank.clear();
  }

  Program run() {
    for (std::size_t r = 0; r < next_.size(); ++r) turns_.push({0, r});
    while (!turns_.empty()) {
      const auto [step, r] = turns_.top();
      turns_.pop();
      step_[r] = step;
      waits_[r] = !take_step(r);
      if (!waits_[r] && next_[r] < program_.ranks[r].size()) turns_.push({step + 1, r});
    }
    for (std::size_t r = 0; r < next_.size(); ++r)
      if (next_[r] < program_.ranks[r].size()) throw std::logic_error("a program whose ranks wait for one another");
    return std::move(result_);
  }

 private:
  // Runs rank r until its next op is done, with what follows it; false: its next instruction has to wait.
  bool take_step(std::size_t r) {
    const auto& list = program_.ranks[r];
    bool done = false, in_pair = false;  // whether an op has run in this step
    for (; next_[r] < list.size(); ++next_[r]) {
      const Instruction& i = list[next_[r]];
      if (is_receive(i.opcode)) {
        if (done) return true;
        if (received_[i.channel] == sent_[i.channel]) return false;
        ++received_[i.channel];
        continue;  // it stands where its sender has put it
      }
      if (is_compute(i.opcode) && done && !in_pair) return true;
      if (is_scheduled(i.opcode)) {
        done = true;
        in_pair = i.overlapped;
      }
      if (is_collective(i.opcode) && !meet(r, i)) return false;
      result_.ranks[r].push_back(i);
      if (is_send(i.opcode)) send(r, i);
    }
    return true;
  }

  void send(std::size_t r, const Instruction& i) {
    const std::size_t to = program_.channels[i.channel].to.index();
    result_.ranks[to].push_back(other_end(i));
    ++sent_[i.channel];
    wake(to, r);
  }

  // The rank's turn comes in this step if rank `by` is before it, else in the next.
  void wake(std::size_t r, std::size_t by) {
    if (!waits_[r]) return;
    waits_[r] = false;
    turns_.push({step_[by] + (r > by ? 0 : 1), r});
  }

  // A collective stands on all its ranks where the last one comes to it.
  bool meet(std::size_t r, const Instruction& i) {
    if (in_collective_[r]) return false;
    in_collective_[r] = true;
    const std::vector<Rank>& members = groups_[static_cast<std::size_t>(i.channel)];
    std::size_t& arrived = arrived_[static_cast<std::size_t>(i.channel)];
    if (++arrived < members.size()) return false;
    arrived = 0;
    for (const Rank rank : members) {
      const std::size_t m = rank.index();
      in_collective_[m] = false;
      if (m == r) continue;
      result_.ranks[m].push_back(program_.ranks[m][next_[m]++]);
      wake(m, r);
    }
    return true;
  }

  using Turn = std::pair<std::size_t, std::size_t>;  // step, rank

  const Program& program_;
  Program result_;
  std::vector<std::size_t> next_, step_;
  std::vector<bool> waits_, in_collective_;
  std::vector<std::int32_t> sent_, received_;  // per channel
  const std::vector<std::vector<Rank>> groups_;
  std::vector<std::size_t> arrived_;  // per group: ranks that wait in its collective
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
};

}  // namespace

Program in_rendezvous_order(const Program& program) { return Lockstep(program).run(); }

}  // namespace sluice
