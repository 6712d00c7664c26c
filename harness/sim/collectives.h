// Collectives on the virtual clock (simulate.h has the rules): gathers and reduce-scatters, and all-reduces that are on
// the links or in buckets. The k-th collective of a stage on one rank is the k-th on all members, in the order of their
// programs.
#pragma once

#include <deque>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "harness/program/trace.h"
#include "harness/sim/costs.h"
#include "harness/sim/network.h"

namespace sluice {

class Collectives {
 public:
  // woken: receives the ranks that can try again.
  Collectives(const Program& program, const Costs& costs, const Cluster& cluster, Network& network,
              std::vector<std::size_t>& woken);

  bool any_sharded() const { return any_sharded_; }
  // Whether all-reduces are collectives here; otherwise the engine runs them.
  bool reduces() const { return reduces_; }
  // Whether reductions are issued with the op that makes the stage's last weight gradients, instead of after it.
  bool in_buckets() const { return in_buckets_; }

  // Rank r reaches a collective at `now`, and continues.
  void issue(std::size_t r, const Instruction& i, double now, bool traced) {
    issue_reduction(r, i, Opcode::backward, now, now, traced);
  }
  // The same for a reduction whose last gradients are made by a B or W of rank r, `made_by`, from `start` to `end`.
  void issue_reduction(std::size_t r, const Instruction& i, Opcode made_by, double start, double end, bool traced);
  // Whether rank r can run an op or a step; moves its clock to the end of what that op needs. False: the end is not
  // known yet, and r is woken when it can try again.
  bool ready(std::size_t r, const Instruction& i, double& clock) {
    return !any_sharded_ || !program_.sharded(i.stage) || is_over(r, i, clock);
  }
  // The same for the all-reduce of `stage` that rank r issued last.
  bool reduced(std::size_t r, StageId stage, double& clock) {
    return is_over(r, meetings_[stage.index()].at(static_cast<std::size_t>(member(r, stage).reduce)), clock);
  }

  // Pending ring steps, in order of time. With fair sharing of links, rings begin here and end by transfer_ended().
  bool pending() const { return !events_.empty(); }
  double next_time() const { return events_.top().time; }
  void step();  // runs the next one
  // owner: of one of the network's fair transfers. Owners of rings are negative.
  void transfer_ended(std::int64_t owner, double now);

  double end() const { return end_; }
  std::size_t remembered() const;  // collectives that run, or whose end a rank may still need
  const std::vector<std::vector<TraceEvent>>& first_iteration() const { return trace_; }

 private:
  struct Meeting {
    Instruction instruction{};
    std::size_t arrived = 0;
    // Per bucket: when its gradients are ready on every member that has reached it. A gather has one bucket.
    std::vector<double> ready = {};
    std::size_t bucket = 0, phase = 0;         // running
    std::vector<std::size_t> steps_left = {};  // of the rings of this phase
    std::size_t rings_left = 0;
    bool begun = false;
    double phase_end = 0;        // the latest of its finished rings
    double start = 0, end = -1;  // end: known once its last step has begun
    bool traced = false;
    std::vector<std::size_t> waiting = {};  // ranks
  };
  // Collectives of a stage, by number; the first ones are dropped when no rank can need them.
  struct Meetings {
    std::size_t forgotten = 0;
    std::deque<Meeting> kept = {};
    Meeting& at(std::size_t number) { return kept[number - forgotten]; }
    std::size_t count() const { return forgotten + kept.size(); }
  };
  struct Member {  // a rank in a stage's group
    int issued = 0;
    int gather = -1, scatter = -1, reduce = -1;  // its last ones: indices into the stage's meetings
  };
  struct Key {
    std::size_t stage, number;  // of a meeting
    bool operator==(const Key&) const = default;
  };
  struct Event {  // the next step of a ring; of the phase's rings the k-th
    double time;
    Key key;
    std::size_t ring;
    bool operator>(const Event& b) const {
      return std::tie(time, key.stage, key.number, ring) > std::tie(b.time, b.key.stage, b.key.number, b.ring);
    }
  };
  Member& member(std::size_t r, StageId stage) { return members_[r * meetings_.size() + stage.index()]; }
  const std::vector<Rank>& group(std::size_t stage) const { return program_.placement.stages[stage]; }
  Meeting& meeting(const Key& key) { return meetings_[key.stage].at(key.number); }
  void forget_old(StageId stage);
  const std::vector<RingPhase>& phases(const Key& key);
  double bytes(const Key& key);  // of the running bucket
  void find_buckets();
  bool meets_no_traffic(const Meeting& m) const;
  bool is_over(std::size_t r, const Instruction& i, double& clock);
  static bool is_over(std::size_t r, Meeting& meeting, double& clock);
  void begin_if_all_are_there(const Key& key);
  void begin_phase(const Key& key, double now);
  void step_apart(const Event& event);
  void ring_is_over(const Key& key, double end);
  void finish(const Key& key);

  const Program& program_;
  const Costs& costs_;
  Network& network_;
  std::vector<std::size_t>& woken_;
  bool any_sharded_ = false, reduces_ = false, in_buckets_ = false, on_links_ = false;
  std::vector<std::vector<Costs::GradientBucket>> buckets_;  // per stage, at least one
  std::vector<Meetings> meetings_;                           // per stage
  std::vector<Member> members_;                              // [rank][stage]
  std::vector<std::deque<Key>> queues_;                      // per rank: its engine's queue
  std::vector<double> free_at_;                              // per rank: when its engine is free
  std::vector<double> reducing_until_;                       // per rank: end of all-reduces without contention
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<std::int64_t, Event> turning_;  // with fair sharing of links: rings, by the owner of their transfer
  std::vector<std::vector<TraceEvent>> trace_;
  double end_ = 0;
};

}  // namespace sluice
