// Gathers and reduce-scatters on the virtual clock (simulate.h has the rules). Members meet in the order of their
// programs: the k-th collective of a stage on one rank is the k-th on all of them.
#pragma once

#include <deque>
#include <queue>
#include <tuple>
#include <vector>

#include "harness/program/trace.h"
#include "harness/sim/costs.h"
#include "harness/sim/network.h"

namespace sluice {

class Collectives {
 public:
  Collectives(const Program& program, const Costs& costs, Network& network);

  bool any_sharded() const { return any_sharded_; }

  // Rank r comes to a gather or reduce-scatter at `now`, and goes on.
  void issue(std::size_t r, const Instruction& i, double now, bool traced);
  // Whether rank r can run an op or a step: moves its clock to when what that needs is over. False: not known yet, and
  // step() will say when r can try again.
  bool ready(std::size_t r, const Instruction& i, double& clock) {
    return !any_sharded_ || !program_.sharded(i.stage) || is_over(r, i, clock);
  }

  // Ring steps to come, in order of time.
  bool pending() const { return !events_.empty(); }
  double next_time() const { return std::get<0>(events_.top()); }
  void step(std::vector<std::size_t>& woken);  // runs the next one

  double end() const { return end_; }
  const std::vector<std::vector<TraceEvent>>& first_iteration() const { return trace_; }

 private:
  struct Meeting {
    Instruction instruction{};
    std::size_t arrived = 0;
    std::size_t steps_left = 0;
    double latest = 0, start = 0, end = -1;  // end: known once its last step has begun
    bool traced = false;
    std::vector<std::size_t> waiting;  // ranks
  };
  struct Member {  // a rank in a stage's group
    int issued = 0;
    int gather = -1, scatter = -1;  // its last: indices into the stage's meetings
  };
  using Key = std::pair<std::size_t, std::size_t>;  // stage, meeting

  Member& member(std::size_t r, StageId stage) { return members_[r * meetings_.size() + stage.index()]; }
  const std::vector<Rank>& group(std::size_t stage) const { return program_.placement.stages[stage]; }
  bool is_over(std::size_t r, const Instruction& i, double& clock);
  void begin_if_all_are_there(const Key& key);
  void finish(const Key& key, std::vector<std::size_t>& woken);

  const Program& program_;
  const Costs& costs_;
  Network& network_;
  bool any_sharded_ = false;
  std::vector<std::deque<Meeting>> meetings_;                  // per stage
  std::vector<Member> members_;                                // [rank][stage]
  std::vector<std::deque<Key>> queues_;                        // per rank: its engine's work, in order
  std::vector<double> free_at_;                                // per rank: when its engine is
  using Event = std::tuple<double, std::size_t, std::size_t>;  // time, stage, meeting
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::vector<TraceEvent>> trace_;
  double end_ = 0;
};

}  // namespace sluice
