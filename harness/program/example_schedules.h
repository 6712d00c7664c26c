// For tests and benchmarks: schedules read from their text, those whose properties are known, and random valid ones.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/split.h"
#include "harness/pipeline/offload.h"
#include "harness/pipeline/schedule.h"

namespace sluice {

inline Placement one_stage_per_rank(int ranks) {
  Placement placement;
  for (int r = 0; r < ranks; ++r) placement.stages.push_back({Rank(r)});
  return placement;
}

// The inverse of to_text().
inline Schedule parse_schedule(const std::string& text) {
  Schedule schedule;
  std::vector<int> chunks;  // of every op, where sequences are cut
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "forward only") schedule.forward_only = true;
    if (!line.starts_with("rank")) continue;
    std::vector<Op>& ops = schedule.ranks.emplace_back();
    std::istringstream steps(line.substr(line.find(':') + 1));
    for (std::string step; steps >> step;) {
      const bool pair = step.starts_with('(');
      for (const std::string& op : split(pair ? step.substr(1, step.size() - 2) : step, ";")) {
        const std::size_t point = std::min(op.find('.'), op.size());
        ops.push_back(parse_op(op.substr(0, point)));
        if (point < op.size()) chunks.push_back(std::stoi(op.substr(point + 1)));
        schedule.microbatches = std::max(schedule.microbatches, ops.back().micro.value + 1);
      }
      if (pair) ops[ops.size() - 2].overlapped = true;
    }
  }
  if (chunks.empty()) return schedule;
  schedule.sequence_chunks = 1 + *std::ranges::max_element(chunks);
  schedule.microbatches *= schedule.sequence_chunks;
  auto chunk = chunks.begin();
  for (std::vector<Op>& ops : schedule.ranks)
    for (Op& op : ops) op.micro = Micro(op.micro.value * schedule.sequence_chunks + *chunk++);
  return schedule;
}

// Every stash whose backward does not follow within three ops of its forward: out after the forward, free an op later,
// back an op before the I or B.
inline Offload offload_all(const Schedule& schedule) {
  Offload offload;
  for (const std::vector<Op>& ops : schedule.ranks) {
    std::vector<StashMove>& moves = offload.ranks.emplace_back();
    std::map<std::pair<StageId, Micro>, std::size_t> forwards;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      const Op& op = ops[k];
      if (op.kind == OpKind::forward) forwards[{op.stage, op.micro}] = k;
      if (op.kind != OpKind::backward && op.kind != OpKind::input_gradient) continue;
      const std::size_t forward = forwards.at({op.stage, op.micro});
      if (forward + 3 > k) continue;
      moves.push_back({StashMove::Kind::out, forward + 1, op.stage, op.micro});
      moves.push_back({StashMove::Kind::free, forward + 2, op.stage, op.micro});
      moves.push_back({StashMove::Kind::back, k - 1, op.stage, op.micro});
    }
    std::ranges::stable_sort(moves, {}, &StashMove::before);
  }
  return offload;
}

// Rank r = stage r; min(p - 1 - r, m) forwards, then one forward and one backward in turn.
inline Schedule example_1f1b(int ranks, int microbatches) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks)),
                    .microbatches = microbatches};
  for (int s = 0; s < ranks; ++s) {
    auto& ops = schedule.ranks[s];
    const int warm_up = std::min(ranks - 1 - s, microbatches);
    for (int i = 0; i < warm_up; ++i) ops.push_back(forward_op(s, i));
    for (int i = 0; i < microbatches; ++i) {
      if (warm_up + i < microbatches) ops.push_back(forward_op(s, warm_up + i));
      ops.push_back(backward_op(s, i));
    }
  }
  return schedule;
}

inline Schedule example_gpipe(int ranks, int microbatches) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks)),
                    .microbatches = microbatches};
  for (int s = 0; s < ranks; ++s) {
    auto& ops = schedule.ranks[s];
    for (int i = 0; i < microbatches; ++i) ops.push_back(forward_op(s, i));
    for (int i = microbatches; i-- > 0;) ops.push_back(backward_op(s, i));
  }
  return schedule;
}

struct ExampleProblem {
  StageGraph graph;
  Placement placement;
  Schedule schedule;
};

// A random DAG of stages on random ranks, run in a random order that the dependencies allow.
// Replicas only where asked: asynchronous rules have none.
inline ExampleProblem random_problem(unsigned seed, bool replicas) {
  std::mt19937 random(seed);
  const auto upto = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const int stages = upto(1, 6), ranks = upto(1, 4), microbatches = upto(4, 7);
  std::vector<std::pair<StageId, StageId>> edges;
  for (int a = 0; a < stages; ++a)
    for (int b = a + 1; b < stages; ++b)
      if (upto(0, 2) == 0) edges.push_back({StageId(a), StageId(b)});
  ExampleProblem p{stage_graph(stages, edges, "random"), {}, {}};
  std::vector<int> order(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) order[r] = r;
  for (int s = 0; s < stages; ++s) {
    std::shuffle(order.begin(), order.end(), random);
    auto& home = p.placement.stages.emplace_back();
    const int replicas_of_stage = replicas && upto(0, 1) == 0 ? upto(1, ranks) : 1;
    for (int c = 0; c < replicas_of_stage; ++c) home.emplace_back(order[c]);
  }
  p.schedule = {.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks)), .microbatches = microbatches};
  std::vector<Op> left;
  for (int s = 0; s < stages; ++s)
    for (int m = 0; m < microbatches; ++m) {
      left.push_back(forward_op(s, m));
      if (upto(0, 1) == 0) {
        left.push_back(backward_op(s, m));
      } else {
        left.push_back({OpKind::input_gradient, StageId(s), Micro(m)});
        left.push_back({OpKind::weight_gradient, StageId(s), Micro(m)});
      }
    }
  const auto is_left = [&](OpKind kind, StageId stage, Micro micro) {
    return std::ranges::find(left, Op{kind, stage, micro}) != left.end();
  };
  const auto ready = [&](const Op& op) {
    if (op.kind == OpKind::forward)
      return std::ranges::none_of(p.graph.predecessors[op.stage.index()],
                                  [&](StageId s) { return is_left(OpKind::forward, s, op.micro); });
    if (op.kind == OpKind::weight_gradient) return !is_left(OpKind::input_gradient, op.stage, op.micro);
    return !is_left(OpKind::forward, op.stage, op.micro) &&
           std::ranges::none_of(p.graph.successors[op.stage.index()], [&](StageId s) {
             return is_left(OpKind::backward, s, op.micro) || is_left(OpKind::input_gradient, s, op.micro);
           });
  };
  while (!left.empty()) {
    const auto k = static_cast<std::size_t>(upto(0, static_cast<int>(left.size()) - 1));
    if (!ready(left[k])) continue;
    const Op op = left[k];
    p.schedule.ranks[p.placement.rank_of(op.stage, op.micro).index()].push_back(op);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return p;
}

// Data-parallel replicas of the problem, each on its own ranks with its own micro-batches: replica
// d has ranks [d p, (d + 1) p) and micro-batches [d m, (d + 1) m), and every stage a rank in each.
inline ExampleProblem data_parallel_replicas(const ExampleProblem& one, int replicas) {
  const auto p = static_cast<int>(one.schedule.ranks.size());
  const int m = one.schedule.microbatches;
  ExampleProblem all{one.graph, {std::vector<std::vector<Rank>>(one.graph.size()), {}}, {}};
  all.schedule = {std::vector<std::vector<Op>>(static_cast<std::size_t>(p) * replicas), m * replicas};
  for (int d = 0; d < replicas; ++d) {
    for (std::size_t s = 0; s < one.graph.size(); ++s)
      all.placement.stages[s].emplace_back(d * p + one.placement.stages[s].front().value);
    for (int r = 0; r < p; ++r)
      for (Op op : one.schedule.ranks[r]) {
        op.micro = Micro(op.micro.value + d * m);
        all.schedule.ranks[d * p + r].push_back(op);
      }
    all.placement.replica_of.insert(all.placement.replica_of.end(), static_cast<std::size_t>(m),
                                    static_cast<std::size_t>(d));
  }
  return all;
}

}  // namespace sluice
