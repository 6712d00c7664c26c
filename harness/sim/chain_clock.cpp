#include "harness/sim/chain_clock.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "harness/base/stop.h"

namespace sluice {

namespace {

struct Message {
  double arrival;  // seconds
  int micro;
};

// First in, first out.
class Messages {
 public:
  bool empty() const { return taken_ == waiting_.size(); }
  void add(Message message) { waiting_.push_back(message); }
  Message take() {
    const Message first = waiting_[taken_++];
    if (taken_ == waiting_.size() || (taken_ >= 64 && 2 * taken_ >= waiting_.size())) {
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(taken_));
      taken_ = 0;
      if (waiting_.capacity() > 256 + 4 * waiting_.size()) waiting_.shrink_to_fit();
    }
    return first;
  }

 private:
  std::vector<Message> waiting_;
  std::size_t taken_ = 0;
};

class ChainClock {
 public:
  ChainClock(const OpRule& rule, std::span<const StageCost> costs, int microbatches, Seconds latency, int updates)
      : rule_(rule),
        costs_(costs),
        microbatches_(microbatches),
        latency_(latency.value),
        updates_(updates),
        ranks_(costs.size()),
        entered_(static_cast<std::size_t>(microbatches)),
        arrived_(static_cast<std::size_t>(microbatches)),
        returned_(static_cast<std::size_t>(microbatches)) {
    times_.update_end.assign(static_cast<std::size_t>(updates), 0);
    times_.peak.resize(costs.size());
  }

  ChainTimes run() {
    for (std::size_t r = ranks_.size(); r-- > 0;) ready_.push_back(r);
    while (!ready_.empty()) {
      check_stop();
      const std::size_t r = ready_.back();
      ready_.pop_back();
      run_rank(r);
    }
    std::vector<BusyTime> busy;
    for (const RankState& rank : ranks_) {
      if (rank.update < updates_) throw std::logic_error("the rule's order is deadlocked");
      busy.push_back(rank.compute);
    }
    times_.bubble = bubbles_of(busy);
    times_.barrier_end = ranks_.size() > 1 ? heard_ + latency_ : heard_;
    for (RankPeak& peak : times_.peak) peak.until_weight_gradient = peak.in_flight;
    return std::move(times_);
  }

 private:
  struct RankState {
    double clock = 0;  // seconds
    std::int64_t next = 0;
    int update = 0, in_flight = 0;
    BusyTime compute;                 // of the first update
    Messages activations, gradients;  // from the rank before, from the rank behind
    Messages* waits_for = nullptr;
  };

  // Until its end, or until it waits for a message.
  void run_rank(std::size_t r) {
    RankState& rank = ranks_[r];
    const bool first = r == 0, last = r + 1 == ranks_.size();
    const double forward = costs_[r].forward.value,
                 backward = costs_[r].input_gradient.value + costs_[r].weight_gradient.value;
    int& peak = times_.peak[r].in_flight;
    for (; rank.update < updates_; ++rank.update, rank.next = 0) {
      for (; rank.next < 2LL * microbatches_; ++rank.next) {
        if (rank.next % 65'536 == 0) stop_now();  // where a rank waits for nobody
        const Op op = rule_(static_cast<int>(r), rank.next);
        const bool is_forward = op.kind == OpKind::forward;
        if (!is_forward && op.kind != OpKind::backward) fail(op, "is neither F nor B");
        if (is_forward ? !first : !last) {
          Messages& from = is_forward ? rank.activations : rank.gradients;
          if (from.empty()) {
            rank.waits_for = &from;
            return;
          }
          const Message message = from.take();
          if (message.micro != op.micro.value) fail(op, "takes the message of another micro-batch");
          rank.clock = std::max(rank.clock, message.arrival);
        }
        // The ranks between these two do what they do, message for message.
        if (first && is_forward) done(entered_, op, rank.update);
        if (last && is_forward) done(arrived_, op, rank.update);
        if (last && !is_forward) done(returned_, op, rank.update);
        rank.in_flight += is_forward ? 1 : -1;
        peak = std::max(peak, rank.in_flight);
        const double start = rank.clock, seconds = is_forward ? forward : backward;
        rank.clock += seconds;
        if (rank.update == 0) rank.compute.add(start, rank.clock, seconds);
        if (is_forward ? !last : !first)
          send(is_forward ? r + 1 : r - 1, is_forward, {rank.clock + latency_, op.micro.value});
      }
      if (rank.in_flight != 0) throw std::logic_error("rank " + std::to_string(r) + " does not do every op once");
      double& end = times_.update_end[static_cast<std::size_t>(rank.update)];
      end = std::max(end, rank.clock);
      // Rank 0 hears from the others, and they hear from it.
      if (rank.update == 0) heard_ = std::max(heard_, first ? rank.clock : rank.clock + latency_);
    }
  }

  void send(std::size_t to, bool activation, Message message) {
    RankState& rank = ranks_[to];
    Messages& queue = activation ? rank.activations : rank.gradients;
    queue.add(message);
    if (rank.waits_for != &queue) return;
    rank.waits_for = nullptr;
    ready_.push_back(to);
  }

  // Per micro-batch, how many updates have done the op.
  void done(std::vector<int>& updates, const Op& op, int update) {
    const bool exists = op.micro.value >= 0 && op.micro.value < microbatches_;
    if (!exists || updates[op.micro.index()] != update) fail(op, "is not once in an update");
    if (&updates == &returned_ && arrived_[op.micro.index()] == update) fail(op, "comes before its forward");
    ++updates[op.micro.index()];
  }

  [[noreturn]] static void fail(const Op& op, const char* fault) { throw std::logic_error(to_text(op) + ' ' + fault); }

  const OpRule& rule_;
  std::span<const StageCost> costs_;
  int microbatches_;
  double latency_;
  int updates_;
  double heard_ = 0;  // seconds: when rank 0 knows that every rank has stepped, of the first update
  std::vector<RankState> ranks_;
  std::vector<std::size_t> ready_;
  std::vector<int> entered_, arrived_, returned_;
  ChainTimes times_;
};

}  // namespace

ChainTimes time_chain(const OpRule& rule, std::span<const StageCost> costs, int microbatches, Seconds latency,
                      int updates) {
  return ChainClock(rule, costs, microbatches, latency, updates).run();
}

}  // namespace sluice
