#include "systems/spp/list_schedule.h"

#include <algorithm>
#include <queue>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "harness/base/stop.h"

namespace sluice {

namespace {

using Kind = ListBlock::Kind;

// The J blocks that every micro-batch passes, and the resource that each runs on.
struct BlockType {
  Kind kind;
  int place;
  double seconds;
  std::size_t resource;
};

std::vector<BlockType> block_types(const PipelineTimes& t, const ListScheduleOptions& options) {
  const std::size_t stages = t.forward.size();
  const std::size_t channels = stages - 1;
  std::vector<BlockType> types;
  const auto add = [&](Kind kind, std::size_t place, double seconds, std::size_t resource) {
    types.push_back({kind, static_cast<int>(place), seconds, resource});
  };
  for (std::size_t s = 0; s + 1 < stages; ++s) {
    add(Kind::forward, s, t.forward[s], s);
    add(Kind::down, s, t.forward_channel[s], stages + s);
  }
  const std::size_t last = stages - 1;
  if (options.merge_last) {
    add(Kind::forward_and_backward, last, t.forward[last] + t.backward[last], last);
  } else {
    add(Kind::forward, last, t.forward[last], last);
    add(Kind::backward, last, t.backward[last], last);
  }
  for (std::size_t s = last; s-- > 0;) {
    add(Kind::up, s, t.backward_channel[s], stages + s + (options.duplex ? channels : 0));
    add(Kind::backward, s, t.backward[s], s);
  }
  return types;
}

class Run {
 public:
  Run(const std::vector<BlockType>& types, std::size_t stages, int microbatches)
      : types_(types),
        microbatches_(static_cast<std::size_t>(microbatches)),
        free_at_(3 * stages, 0),
        done_at_(microbatches_, 0) {
    result_.stage_end.assign(stages, 0);
    result_.blocks.reserve(types.size() * microbatches_);
  }

  ListSchedule strict() {
    for (std::size_t key = 0; key < types_.size() + microbatches_ - 1; ++key) {
      const std::size_t first = key < types_.size() ? 0 : key - types_.size() + 1;
      for (std::size_t m = first; m <= key && m < microbatches_; ++m) {
        const std::size_t j = key - m;
        run(m, j, std::max(done_at_[m], free_at_[types_[j].resource]));
      }
    }
    return std::move(result_);
  }

  // In order of time: what ends at one instant is taken together, then every idle resource starts.
  ListSchedule ready() {
    using Waiting = std::tuple<std::size_t, std::size_t, std::size_t>;  // key, micro-batch, block
    using Ending = std::tuple<double, std::size_t, std::size_t>;        // time, micro-batch, block
    std::vector<std::set<Waiting>> waiting(free_at_.size());
    std::vector<bool> busy(free_at_.size(), false);
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> running;
    std::set<std::size_t> touched;
    const auto arrive = [&](std::size_t m, std::size_t j) {
      waiting[types_[j].resource].insert({m + j, m, j});
      touched.insert(types_[j].resource);
    };
    const auto start_idle = [&](double now) {
      for (const std::size_t resource : touched) {
        if (busy[resource] || waiting[resource].empty()) continue;
        const auto [key, m, j] = *waiting[resource].begin();
        waiting[resource].erase(waiting[resource].begin());
        busy[resource] = true;
        running.push({run(m, j, now), m, j});
      }
      touched.clear();
    };
    for (std::size_t m = 0; m < microbatches_; ++m) arrive(m, 0);
    start_idle(0);
    while (!running.empty()) {
      check_stop();
      const double now = std::get<0>(running.top());
      while (!running.empty() && std::get<0>(running.top()) == now) {
        const auto [end, m, j] = running.top();
        running.pop();
        busy[types_[j].resource] = false;
        touched.insert(types_[j].resource);
        if (j + 1 < types_.size()) arrive(m, j + 1);
      }
      start_idle(now);
    }
    return std::move(result_);
  }

 private:
  double run(std::size_t m, std::size_t j, double start) {
    const BlockType& type = types_[j];
    const double end = start + type.seconds;
    done_at_[m] = free_at_[type.resource] = end;
    result_.blocks.push_back({type.kind, type.place, static_cast<int>(m), start, end});
    if (type.kind == Kind::backward || type.kind == Kind::forward_and_backward) {
      double& stage_end = result_.stage_end[type.place];
      stage_end = std::max(stage_end, end);
    }
    return end;
  }

  const std::vector<BlockType>& types_;
  std::size_t microbatches_;
  std::vector<double> free_at_;  // of each resource: stages, channels, the channels' upward directions
  std::vector<double> done_at_;  // of each micro-batch's last block so far
  ListSchedule result_;
};

}  // namespace

ListSchedule list_schedule(const PipelineTimes& times, int microbatches, const ListScheduleOptions& options) {
  const std::size_t stages = times.forward.size();
  if (stages == 0 || microbatches < 1 || times.backward.size() != stages || times.all_reduce.size() != stages ||
      times.forward_channel.size() + 1 != stages || times.backward_channel.size() + 1 != stages)
    throw std::logic_error("times of a pipeline that do not belong together");
  const std::vector<BlockType> types = block_types(times, options);
  Run run(types, stages, microbatches);
  ListSchedule result = options.rule == ListScheduleOptions::Rule::strict ? run.strict() : run.ready();
  for (std::size_t s = 0; s < stages; ++s)
    result.makespan = std::max(result.makespan, result.stage_end[s] + times.all_reduce[s]);
  return result;
}

StageOrders stage_orders(const ListSchedule& schedule, int microbatches, int round) {
  StageOrders orders(schedule.stage_end.size());
  for (const ListBlock& block : schedule.blocks) {
    if (block.kind == Kind::down || block.kind == Kind::up) continue;
    auto& ops = orders[block.place];
    const int first = block.micro * round;
    for (int m = first; m < std::min(first + round, microbatches); ++m) {
      if (block.kind != Kind::backward) ops.push_back(forward_op(block.place, m));
      if (block.kind != Kind::forward) ops.push_back(backward_op(block.place, m));
    }
  }
  return orders;
}

double busiest_seconds(const PipelineTimes& times) {
  double most = 0;
  for (std::size_t s = 0; s < times.forward.size(); ++s) most = std::max(most, times.forward[s] + times.backward[s]);
  for (std::size_t c = 0; c < times.forward_channel.size(); ++c)
    most = std::max(most, times.forward_channel[c] + times.backward_channel[c]);
  return most;
}

double list_schedule_bound(const PipelineTimes& times, int microbatches) {
  const double blocks = microbatches + 4 * static_cast<double>(times.forward.size()) - 4;
  return blocks * busiest_seconds(times) + *std::ranges::max_element(times.all_reduce);
}

int list_schedule_depth(int stages, int stage, bool merge_last) {
  return 4 * (stages - 1 - stage) + (merge_last ? 0 : 1);
}

}  // namespace sluice
