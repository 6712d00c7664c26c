#include "harness/model/operator_graph.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "harness/base/error.h"

namespace sluice {

namespace {

class Grouping {
 public:
  explicit Grouping(const OperatorGraph& graph) : graph_(graph) {
    std::map<int, int> group_of_color;
    for (const Operator& op : graph.operators) {
      const int fresh = static_cast<int>(leader_.size());
      const int group = op.color < 0 ? fresh : group_of_color.try_emplace(op.color, fresh).first->second;
      if (group == fresh) leader_.push_back(fresh);
      first_group_.push_back(group);
    }
  }

  OperatorGroups run() {
    join_cycles();
    while (join_one_idle_leaf()) {
    }
    join_cycles();  // a leaf may have closed one
    return result();
  }

 private:
  int find(int group) {
    while (leader_[group] != group) group = leader_[group];
    return group;
  }
  int group_of(int op) { return find(first_group_[op]); }

  // Between groups: forward edges; and for gradients of groups without a forward part the mirror image of theirs, since
  // that part would have it.
  std::set<std::pair<int, int>> precedence() {
    std::vector<bool> has_forward(leader_.size());
    for (std::size_t i = 0; i < graph_.operators.size(); ++i)
      if (!graph_.operators[i].backward) has_forward[group_of(static_cast<int>(i))] = true;
    std::set<std::pair<int, int>> edges;
    for (const auto& [from, to] : graph_.edges) {
      const int a = group_of(from), b = group_of(to);
      if (a == b) continue;
      const bool from_backward = graph_.operators[from].backward;
      const bool to_backward = graph_.operators[to].backward;
      if (!from_backward && !to_backward) edges.insert({a, b});
      if (from_backward && to_backward && (!has_forward[a] || !has_forward[b])) edges.insert({b, a});
    }
    return edges;
  }

  // Strongly connected components (Tarjan), each into one group.
  void join_cycles() {
    std::map<int, std::vector<int>> after;
    for (const auto& [a, b] : precedence()) after[a].push_back(b);
    std::map<int, int> entered, low;
    std::vector<int> stack;
    std::set<int> on_stack;
    int time = 0;
    const std::function<void(int)> visit = [&](int v) {
      entered[v] = low[v] = time++;
      stack.push_back(v);
      on_stack.insert(v);
      for (const int w : after[v]) {
        if (!entered.contains(w)) {
          visit(w);
          low[v] = std::min(low[v], low[w]);
        } else if (on_stack.contains(w)) {
          low[v] = std::min(low[v], entered[w]);
        }
      }
      if (low[v] != entered[v]) return;
      for (int w = -1; w != v;) {
        w = stack.back();
        stack.pop_back();
        on_stack.erase(w);
        leader_[w] = v;
      }
    };
    std::set<int> groups;
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) groups.insert(group_of(static_cast<int>(i)));
    for (const int g : groups)
      if (!entered.contains(g)) visit(g);
  }

  bool join_one_idle_leaf() {
    struct Facts {
      double latency = 0;
      bool forward = false, touches_backward = false;
      std::set<int> neighbours;  // by an edge between forward operators
    };
    constexpr double idle = 1e-6;
    std::map<int, Facts> facts;
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      const Operator& op = graph_.operators[i];
      Facts& f = facts[group_of(static_cast<int>(i))];
      f.latency += op.accelerator + op.cpu;
      f.forward = f.forward || !op.backward;
    }
    for (const auto& [from, to] : graph_.edges) {
      const bool from_backward = graph_.operators[from].backward;
      const bool to_backward = graph_.operators[to].backward;
      const int a = group_of(from), b = group_of(to);
      if (from_backward != to_backward) {
        facts[from_backward ? b : a].touches_backward = true;
      } else if (!from_backward && a != b) {
        facts[a].neighbours.insert(b);
        facts[b].neighbours.insert(a);
      }
    }
    for (const auto& [group, f] : facts) {
      if (!f.forward || f.latency >= idle || f.touches_backward || f.neighbours.size() != 1) continue;
      leader_[group] = *f.neighbours.begin();
      return true;
    }
    return false;
  }

  OperatorGroups result() {
    std::map<int, std::vector<int>> members;
    for (std::size_t i = 0; i < graph_.operators.size(); ++i)
      members[group_of(static_cast<int>(i))].push_back(static_cast<int>(i));
    const auto edges = precedence();
    std::map<int, int> waits;
    for (const auto& [a, b] : edges) ++waits[b];
    using Ready = std::pair<int, int>;  // first operator, group
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (const auto& [group, ops] : members)
      if (!waits.contains(group)) ready.push({ops.front(), group});
    OperatorGroups groups;
    std::map<int, int> number;
    while (!ready.empty()) {
      const int group = ready.top().second;
      ready.pop();
      number[group] = static_cast<int>(groups.members.size());
      groups.members.push_back(members[group]);
      for (auto e = edges.lower_bound({group, -1}); e != edges.end() && e->first == group; ++e)
        if (--waits[e->second] == 0) ready.push({members[e->second].front(), e->second});
    }
    groups.predecessors.resize(groups.members.size());
    for (const auto& [a, b] : edges) groups.predecessors[number.at(b)].push_back(number.at(a));
    return groups;
  }

  const OperatorGraph& graph_;
  std::vector<int> first_group_;  // of each operator, by colour
  std::vector<int> leader_;       // union-find over groups
};

}  // namespace

OperatorGroups group_operators(const OperatorGraph& graph) {
  for (const auto& [from, to] : graph.edges)
    if (graph.operators[from].backward && !graph.operators[to].backward)
      throw InputError("operators", "backward operator '" + graph.operators[from].name + "' feeds forward operator '" +
                                        graph.operators[to].name + "'");
  return Grouping(graph).run();
}

}  // namespace sluice
