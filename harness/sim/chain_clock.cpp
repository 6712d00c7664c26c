#include "harness/sim/chain_clock.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "harness/base/stop.h"
#include "harness/pipeline/op_seconds.h"

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
  ChainClock(const OpRule& rule, std::span<const StageCost> costs, int ranks, int microbatches, Seconds latency,
             int updates)
      : rule_(rule),
        costs_(costs),
        microbatches_(microbatches),
        latency_(latency.value),
        updates_(updates),
        ranks_(static_cast<std::size_t>(ranks)),
        stages_(costs.size()),
        entered_(static_cast<std::size_t>(microbatches)),
        arrived_(static_cast<std::size_t>(microbatches)),
        returned_(static_cast<std::size_t>(microbatches)) {
    times_.update_end.assign(static_cast<std::size_t>(updates), 0);
    times_.peak.resize(ranks_.size());
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
    return std::move(times_);
  }

 private:
  struct RankState {
    double clock = 0;  // seconds
    std::int64_t next = 0;
    int update = 0, in_flight = 0, without_weight_gradient = 0;
    BusyTime compute;  // of the first update
    const Messages* waits_for = nullptr;
  };
  struct StageState {
    Messages activations, gradients;   // from the stage before, from the stage behind
    Messages without_weight_gradient;  // after I
  };

  // Until its end, or until it waits for a message.
  void run_rank(std::size_t r) {
    RankState& rank = ranks_[r];
    RankPeak& peak = times_.peak[r];
    for (; rank.update < updates_; ++rank.update, rank.next = 0) {
      for (; rank.next < rule_.ops; ++rank.next) {
        if (rank.next % 65'536 == 0) stop_now();  // where a rank waits for nobody
        const Op op = rule_(static_cast<int>(r), rank.next);
        const std::size_t s = op.stage.index();
        if (s >= stages_.size() || s % ranks_.size() != r) fail(op, "is of another rank's stage");
        if (op.kind == OpKind::weight_gradient)
          take_weight_gradient(rank, op);
        else if (!take_message(rank, op))
          return;
        peak.in_flight = std::max(peak.in_flight, rank.in_flight);
        peak.until_weight_gradient =
            std::max(peak.until_weight_gradient, rank.in_flight + rank.without_weight_gradient);
        const double start = rank.clock, seconds = seconds_of(costs_[op.stage.index()], op.kind).value;
        rank.clock += seconds;
        if (rank.update == 0) rank.compute.add(start, rank.clock, seconds);
        if (op.kind == OpKind::forward && s + 1 < stages_.size()) send(r, s + 1, true, op);
        if (is_backward(op) && s > 0) send(r, s - 1, false, op);
      }
      if (rank.in_flight != 0 || rank.without_weight_gradient != 0)
        throw std::logic_error("rank " + std::to_string(r) + " does not do every op once");
      double& end = times_.update_end[static_cast<std::size_t>(rank.update)];
      end = std::max(end, rank.clock);
      // Rank 0 hears from the others, and they hear from it.
      if (rank.update == 0) heard_ = std::max(heard_, r == 0 ? rank.clock : rank.clock + latency_);
    }
  }

  static bool is_backward(const Op& op) { return op.kind == OpKind::backward || op.kind == OpKind::input_gradient; }

  // Of F, I and B: false where the message that it needs is not there.
  bool take_message(RankState& rank, const Op& op) {
    const std::size_t s = op.stage.index();
    const bool first = s == 0, last = s + 1 == stages_.size(), forward = op.kind == OpKind::forward;
    StageState& stage = stages_[s];
    if (forward ? !first : !last) {
      Messages& from = forward ? stage.activations : stage.gradients;
      if (from.empty()) {
        rank.waits_for = &from;
        return false;
      }
      const Message message = from.take();
      if (message.micro != op.micro.value) fail(op, "takes the message of another micro-batch");
      rank.clock = std::max(rank.clock, message.arrival);
    }
    // The stages between these two do what they do, message for message.
    if (first && forward) done(entered_, op, rank.update);
    if (last && forward) done(arrived_, op, rank.update);
    if (last && !forward) done(returned_, op, rank.update);
    rank.in_flight += forward ? 1 : -1;
    if (op.kind != OpKind::input_gradient) return true;
    stage.without_weight_gradient.add({0, op.micro.value});
    ++rank.without_weight_gradient;
    return true;
  }

  void take_weight_gradient(RankState& rank, const Op& op) {
    Messages& waiting = stages_[op.stage.index()].without_weight_gradient;
    if (waiting.empty() || waiting.take().micro != op.micro.value) fail(op, "is not the next after its input gradient");
    --rank.without_weight_gradient;
  }

  // What an op of rank `from` has made, to a stage. A rank's own messages take no time.
  void send(std::size_t from, std::size_t stage, bool activation, const Op& op) {
    const std::size_t to = stage % ranks_.size();
    Messages& queue = activation ? stages_[stage].activations : stages_[stage].gradients;
    queue.add({ranks_[from].clock + (to == from ? 0 : latency_), op.micro.value});
    if (ranks_[to].waits_for != &queue) return;
    ranks_[to].waits_for = nullptr;
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
  std::vector<StageState> stages_;
  std::vector<std::size_t> ready_;
  std::vector<int> entered_, arrived_, returned_;
  ChainTimes times_;
};

}  // namespace

ChainTimes time_chain(const OpRule& rule, std::span<const StageCost> costs, int ranks, int microbatches,
                      Seconds latency, int updates) {
  return ChainClock(rule, costs, ranks, microbatches, latency, updates).run();
}

}  // namespace sluice
