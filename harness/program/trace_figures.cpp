#include "harness/program/trace_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "harness/base/error.h"
#include "harness/base/index.h"

namespace sluice {

namespace {

bool is_backward(Opcode opcode) { return reads_stash(opcode); }

using OpKey = std::tuple<int, std::string, bool>;  // stage, micro-batch, whether it is the backward
struct Maker {
  std::size_t rank = 0;
  double end = 0;
};
using Makers = std::map<OpKey, Maker>;

// The forwards and backwards of one update, which make what other ranks wait for.
Makers makers_in(const TracedRun& run, std::size_t update) {
  Makers makers;
  for (std::size_t r = 0; r < run.ranks.size(); ++r)
    for (const TracedOp& op : run.ranks[r].updates[update]) {
      if (op.opcode != Opcode::forward && !is_backward(op.opcode)) continue;
      const auto [other, is_new] = makers.try_emplace({op.stage, op.micro, is_backward(op.opcode)}, Maker{r, op.made});
      if (is_new) continue;
      if (other->second.rank != r)
        throw InputError(run.ranks[r].file,
                         fmt::format("has {} of micro-batch {} in stage {}, as has rank {}",
                                     is_backward(op.opcode) ? "the backward" : "the forward", op.micro, op.stage,
                                     run.ranks[other->second.rank].rank),
                         "give the files of the ranks of one pipeline");
      throw InputError(run.ranks[r].file,
                       fmt::format("has {} of micro-batch {} in stage {} twice in an update",
                                   is_backward(op.opcode) ? "the backward" : "the forward", op.micro, op.stage),
                       "give patterns whose first group is the micro-batch, and steps of torch.profiler or of an "
                       "optimizer, which divide the updates");
    }
  return makers;
}

class Figures {
 public:
  explicit Figures(const TracedRun& run) : run_(run), exposed_(run.ranks.size()) {
    for (const TracedRank& rank : run.ranks) f_.ranks.push_back({.rank = rank.rank, .stages = {}});
    add_edges();
  }

  TraceFigures take() {
    const std::size_t updates = run_.ranks.front().updates.size();
    f_.updates = static_cast<int>(updates);
    for (std::size_t u = 0; u < updates; ++u) add_update(u);
    const double n = static_cast<double>(updates), ranks = static_cast<double>(run_.ranks.size());
    double idle = 0, exposed = 0;
    for (TracedRankFigures& rank : f_.ranks) {
      idle += rank.idle;
      exposed += rank.exposed;
      rank.busy /= n;
      rank.idle /= n;
      rank.exposed /= n;
    }
    if (f_.makespan > 0) f_.bubble_ratio = idle / (ranks * f_.makespan);
    if (f_.makespan > 0) f_.exposed_share = exposed / (ranks * f_.makespan);
    f_.makespan /= n;
    f_.span_bubble /= n;
    if (updates > 1) f_.period = (starts_.back() - starts_.front()) / (n - 1);
    if (steady_ > 0) f_.steady_bubble = 1 - steady_busy_ / steady_;
    add_stages();
    if (!waits_.empty()) {
      std::ranges::nth_element(waits_, waits_.begin() + std::ssize(waits_) / 2);
      f_.latency = waits_[waits_.size() / 2];
    }
    add_notes();
    return std::move(f_);
  }

 private:
  // Seconds of an op's kind in all, and how many.
  struct Sum {
    double seconds = 0;
    int ops = 0;
  };

  void add_edges() {
    for (const auto& [from, to] : run_.edges) {
      before_.emplace(to, from);
      behind_.emplace(from, to);
    }
  }
  // The stages whose output an op of `stage` reads.
  std::vector<int> inputs_of(int stage, bool backward) const {
    if (run_.edges.empty()) return {backward ? stage + 1 : stage - 1};
    const auto [first, last] = (backward ? behind_ : before_).equal_range(stage);
    std::vector<int> stages;
    for (auto edge = first; edge != last; ++edge) stages.push_back(edge->second);
    return stages;
  }

  void add_update(std::size_t u) {
    const Makers makers = makers_in(run_, u);
    std::set<std::string> microbatches;
    for (const auto& [key, maker] : makers) microbatches.insert(std::get<1>(key));
    f_.microbatches = std::max(f_.microbatches, count_of(microbatches));
    std::vector<BusyTime> busy(run_.ranks.size());
    double first_backward = 0, last_forward = std::numeric_limits<double>::infinity(), start = last_forward, end = 0;
    for (std::size_t r = 0; r < run_.ranks.size(); ++r) {
      double own_first_backward = std::numeric_limits<double>::infinity(), own_last_forward = 0;
      for (const TracedOp& op : run_.ranks[r].updates[u]) {
        busy[r].add(op.start, op.end, (op.end - op.start) - seconds_in(run_.ranks[r].exposed, op.start, op.end));
        sums_[{op.stage, op.opcode, op.overlapped}].seconds += op.end - op.start;
        ++sums_[{op.stage, op.opcode, op.overlapped}].ops;
        ranks_stages_[r].insert(op.stage);
        start = std::min(start, op.start);
        end = std::max(end, op.end);
        if (is_backward(op.opcode)) own_first_backward = std::min(own_first_backward, op.start);
        if (op.opcode == Opcode::forward) own_last_forward = std::max(own_last_forward, op.end);
      }
      first_backward = std::max(first_backward, own_first_backward);
      last_forward = std::min(last_forward, own_last_forward);
      add_waits(r, u, makers);
    }
    const Bubbles bubbles = bubbles_of(busy);
    f_.makespan += bubbles.makespan;
    f_.span_bubble += bubbles.span_bubble;
    starts_.push_back(start);
    for (std::size_t r = 0; r < busy.size(); ++r) {
      f_.ranks[r].busy += busy[r].busy;
      if (!bubbles.idle.empty()) f_.ranks[r].idle += bubbles.idle[r];
      const bool is_last = u + 1 == run_.ranks[r].updates.size() || run_.ranks[r].updates[u + 1].empty();
      const double until =
          is_last ? std::numeric_limits<double>::infinity() : run_.ranks[r].updates[u + 1].front().start;
      std::vector<TimeSpan> exposed = exposed_[r];
      for (const TimeSpan& i : run_.ranks[r].exposed)
        if (i.start >= start && i.start < until) exposed.push_back(i);
      for (const TimeSpan& i : merged(std::move(exposed))) f_.ranks[r].exposed += i.end - i.start;
      exposed_[r].clear();
    }
    if (!(last_forward > first_backward)) return;
    for (const TracedRank& rank : run_.ranks)
      for (const TracedOp& op : rank.updates[u]) {
        const double from = std::max(op.start, first_backward), to = std::min(op.end, last_forward);
        if (to > from) steady_busy_ += (to - from) - seconds_in(rank.exposed, from, to);
      }
    steady_ += static_cast<double>(run_.ranks.size()) * (last_forward - first_backward);
  }

  void add_waits(std::size_t r, std::size_t u, const Makers& makers) {
    double free_from = -std::numeric_limits<double>::infinity(), free_before_pair = free_from;
    for (const TracedOp& op : run_.ranks[r].updates[u]) {
      const bool backward = is_backward(op.opcode), second_of_pair = op.reads < op.start;
      const double waits_from = second_of_pair ? free_before_pair : free_from;
      if (op.opcode == Opcode::forward || backward)
        for (const int stage : inputs_of(op.stage, backward)) {
          const auto maker = makers.find({stage, op.micro, backward});
          if (maker == makers.end() || maker->second.rank == r) continue;
          clock_error_ = std::max(clock_error_, maker->second.end - op.reads);
          const double from = std::max(maker->second.end, waits_from);
          if (op.reads > from) exposed_[r].push_back({from, op.reads});
          if (op.reads > from && maker->second.end >= waits_from) waits_.push_back(op.reads - from);
        }
      if (!second_of_pair) free_before_pair = free_from;
      free_from = std::max(free_from, op.end);
    }
  }

  void add_stages() {
    int stages = 0;
    for (const auto& [key, sum] : sums_) stages = std::max(stages, std::get<0>(key) + 1);
    for (std::size_t r = 0; r < f_.ranks.size(); ++r)
      f_.ranks[r].stages.assign(ranks_stages_[r].begin(), ranks_stages_[r].end());
    double all = 0, slowest = 0;
    for (int s = 0; s < stages; ++s) {
      f_.stages.push_back(stage_of(s));
      all += f_.stages.back().total();
      slowest = std::max(slowest, f_.stages.back().total());
    }
    if (all > 0) f_.imbalance = slowest * stages / all;
  }

  // What overlapped pairs take apart from one another is not known: they count only where a stage has nothing else.
  Sum sum_of(int stage, Opcode opcode) const {
    for (const bool overlapped : {false, true})
      if (const auto sum = sums_.find({stage, opcode, overlapped}); sum != sums_.end()) return sum->second;
    return {};
  }

  TracedStage stage_of(int s) const {
    const Sum f = sum_of(s, Opcode::forward), b = sum_of(s, Opcode::backward), i = sum_of(s, Opcode::input_gradient),
              w = sum_of(s, Opcode::weight_gradient);
    if (f.ops == 0)
      throw InputError(run_.ranks.front().file, fmt::format("there is no forward of stage {}", s),
                       "give the files of all ranks of the pipeline");
    TracedStage stage{.stage = s, .forward = f.seconds / f.ops};
    const double backward = b.ops + i.ops == 0 ? 0 : (b.seconds + i.seconds + w.seconds) / (b.ops + i.ops);
    stage.split_known = i.seconds + w.seconds > 0 || backward == 0;
    stage.input_gradient = i.seconds + w.seconds > 0 ? backward * i.seconds / (i.seconds + w.seconds) : backward / 2;
    stage.weight_gradient = backward - stage.input_gradient;
    return stage;
  }

  void add_notes() {
    f_.notes = run_.notes;
    if (std::ranges::any_of(f_.stages, [](const TracedStage& s) { return !s.split_known; }))
      f_.notes.emplace_back("the trace has whole backwards: I and W are each taken to be half of B");
    double recomputed = 0;
    bool pairs = false;
    for (const auto& [key, sum] : sums_) {
      if (std::get<1>(key) == Opcode::recompute) recomputed += sum.seconds / f_.updates;
      pairs = pairs || std::get<2>(key);
    }
    if (recomputed > 0)
      f_.notes.push_back(
          fmt::format("recomputation takes {:.4g} s of an update; it is no part of F, I and W", recomputed));
    if (pairs) f_.notes.emplace_back("of a pair of ops that overlap, each is given half of the time");
    if (clock_error_ > 1e-3 * f_.makespan)
      f_.notes.push_back(
          fmt::format("an op begins {:.4g} s before its input is made: the ranks' clocks differ, and exposed "
                      "communication is not exact",
                      clock_error_));
  }

  const TracedRun& run_;
  TraceFigures f_;
  std::multimap<int, int> before_, behind_;
  std::map<std::tuple<int, Opcode, bool>, Sum> sums_;  // stage, kind, overlapped
  std::map<std::size_t, std::set<int>> ranks_stages_;
  std::vector<std::vector<TimeSpan>> exposed_;  // per rank, of the update: waits for messages that are on their way
  std::vector<double> waits_, starts_;
  double steady_ = 0, steady_busy_ = 0, clock_error_ = 0;
};

}  // namespace

TraceFigures figures_of(const TracedRun& run) { return Figures(run).take(); }

std::string table_of(const TracedRun& run) {
  std::map<std::string, std::size_t> numbers;  // micro-batches in the order of their first forwards
  std::vector<const TracedOp*> ops;
  for (const TracedRank& rank : run.ranks)
    for (const TracedOp& op : rank.updates.front()) ops.push_back(&op);
  std::ranges::stable_sort(ops, {}, &TracedOp::start);
  for (const TracedOp* op : ops) numbers.try_emplace(op->micro, numbers.size());
  std::string table;
  for (const TracedRank& rank : run.ranks) {
    const char* before = "";
    for (const TracedOp& op : rank.updates.front()) {
      if (op.opcode == Opcode::recompute) continue;
      const char kind = op.opcode == Opcode::forward          ? 'F'
                        : op.opcode == Opcode::backward       ? 'B'
                        : op.opcode == Opcode::input_gradient ? 'I'
                                                              : 'W';
      table += fmt::format("{}{}{}{}", before, op.stage, kind, numbers.at(op.micro));
      before = ",";
    }
    table += "\n";
  }
  return table;
}

}  // namespace sluice
