// For tests of placements: operator graphs from a few numbers or at random, and the optimal placement by brute force.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "harness/model/operator_graph.h"
#include "harness/plan/ideal_partition.h"

namespace sluice {

inline OperatorGraph graph_of(const std::vector<double>& latency, const std::vector<double>& send,
                              std::vector<std::pair<int, int>> edges, int accelerators) {
  OperatorGraph graph{.edges = std::move(edges), .memory = 1e9, .accelerators = accelerators};
  for (std::size_t i = 0; i < latency.size(); ++i)
    graph.operators.push_back(
        {.name = std::to_string(i), .accelerator = latency[i], .cpu = 10 * latency[i], .send = send[i], .bytes = 1});
  return graph;
}

// Up to `most` - 1 forward operators with integer latencies, half of the time with their gradients; to be called within
// a property.
inline OperatorGraph random_operator_graph(int most) {
  const int n = *rc::gen::inRange(1, most);
  std::vector<double> latency, send;
  std::vector<std::pair<int, int>> edges;
  for (int v = 0; v < n; ++v) {
    latency.push_back(*rc::gen::inRange(1, 10));
    send.push_back(*rc::gen::inRange(0, 5));
    for (int u = 0; u < v; ++u)
      if (*rc::gen::inRange(0, 2)) edges.emplace_back(u, v);
  }
  OperatorGraph graph = graph_of(latency, send, edges, *rc::gen::inRange(1, 4));
  graph.cpus = *rc::gen::inRange(0, 2);
  graph.memory = *rc::gen::inRange(1, n + 1);
  for (Operator& op : graph.operators) {
    op.on_accelerator = *rc::gen::inRange(0, 8) != 0;
    op.color = *rc::gen::inRange(-1, 3);
  }
  if (!*rc::gen::inRange(0, 2)) return graph;
  for (int v = 0; v < n; ++v) {
    graph.operators.push_back(graph.operators[v]);
    graph.operators.back().backward = true;
    Operator& forward = graph.operators[v];
    if (forward.color < 0) forward.color = 100 + v;
    graph.operators.back().color = forward.color;
    graph.edges.emplace_back(v, n + v);
  }
  for (const auto& [u, v] : edges) graph.edges.emplace_back(n + v, n + u);
  return graph;
}

// Constraint of a placement on the forward pass's order.
enum class Split {
  any,
  contiguous,  // no path leaves a device and comes back to it
  ordered,     // the devices have an order that no edge contradicts
};

// paths[a][b]: is there a path from a to b? `paths` is given as the edges.
inline void close(std::vector<std::vector<bool>>& paths) {
  for (std::size_t k = 0; k < paths.size(); ++k)
    for (std::size_t i = 0; i < paths.size(); ++i)
      for (std::size_t j = 0; j < paths.size(); ++j)
        if (paths[i][k] && paths[k][j]) paths[i][j] = true;
}

inline bool keeps(Split split, const OperatorGroups& groups, const std::vector<int>& device, int devices) {
  if (split == Split::any) return true;
  const std::size_t n = groups.members.size(), m = static_cast<std::size_t>(devices);
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n)), over(m, std::vector<bool>(m));
  for (std::size_t g = 0; g < n; ++g)
    for (const int p : groups.predecessors[g]) {
      before[p][g] = true;
      over[device[p]][device[g]] = true;
    }
  if (split == Split::ordered) {
    close(over);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = i + 1; j < m; ++j)
        if (over[i][j] && over[j][i]) return false;
    return true;
  }
  close(before);
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b)
      for (std::size_t c = 0; c < n; ++c)
        if (before[a][b] && before[b][c] && device[a] == device[c] && device[a] != device[b]) return false;
  return true;
}

// The min over all placements of the largest load; infinity: none fits.
inline double brute_force(const OperatorGraph& graph, Split split) {
  const OperatorGroups groups = group_operators(graph);
  const int devices = graph.accelerators + graph.cpus;
  std::vector<int> device(groups.members.size());
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t)> assign = [&](std::size_t g) {
    if (g == device.size()) {
      if (!keeps(split, groups, device, devices)) return;
      double load = 0;
      for (int d = 0; d < devices; ++d) {
        std::vector<int> operators;
        double bytes = 0;
        for (std::size_t i = 0; i < device.size(); ++i)
          if (device[i] == d)
            for (const int op : groups.members[i]) {
              operators.push_back(op);
              bytes += graph.operators[op].bytes;
              if (d < graph.accelerators && !graph.operators[op].on_accelerator) return;
            }
        if (d < graph.accelerators && bytes > graph.memory) return;
        load = std::max(load, device_load(graph, operators, d < graph.accelerators));
      }
      best = std::min(best, load);
      return;
    }
    for (int d = 0; d < devices; ++d) {
      device[g] = d;
      assign(g + 1);
    }
  };
  assign(0);
  return best;
}

}  // namespace sluice
