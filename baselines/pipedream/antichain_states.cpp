#include "baselines/pipedream/antichain_states.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>

#include "harness/base/stop.h"

namespace sluice {

namespace {

using Nodes = std::vector<int>;

class Walk {
 public:
  Walk(const LayerGroupGraph& graph, std::int64_t cap)
      : graph_(graph), n_(graph.groups.size()), cap_(static_cast<std::size_t>(cap)) {
    before_.assign(n_, std::vector<bool>(n_));
    for (std::size_t v = 0; v < n_; ++v)
      for (const int p : graph.predecessors[v]) {
        before_[v][p] = true;
        for (std::size_t u = 0; u < n_; ++u)
          if (before_[p][u]) before_[v][u] = true;
      }
  }

  AntichainStates run() {
    explore();
    if (found_.size() > cap_ || !covers_everything()) return in_order();
    sort();
    std::vector<Nodes> up_to, ends;
    for (const int s : order_) {
      ends.push_back(augmented_[s]);
      up_to.push_back(everything_before(ends.back()));
    }
    AntichainStates states = sums(up_to);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      states.output.push_back(0);
      for (const int v : ends[i]) states.output.back() += graph_.groups[v].output;
    }
    std::vector<int> place(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) place[order_[i]] = static_cast<int>(i);
    states.precedes.assign(order_.size(), std::vector<bool>(order_.size()));
    for (std::size_t i = 0; i < order_.size(); ++i)
      for (const int next : next_[order_[i]]) {
        const auto j = static_cast<std::size_t>(place[next]);
        states.precedes[i][j] = true;
        for (std::size_t k = 0; k < i; ++k)
          if (states.precedes[k][i]) states.precedes[k][j] = true;
      }
    close(states);
    return states;
  }

 private:
  bool precedes(int a, int b) const { return before_[b][a]; }

  // Adds predecessors that still feed something beyond the antichain: their outputs are alive too.
  Nodes augment(const Nodes& antichain) const {
    check_stop();
    std::set<int> extra;
    for (const int a : antichain)
      for (std::size_t p = 0; p < n_; ++p) {
        if (!precedes(static_cast<int>(p), a)) continue;
        for (const int reader : graph_.successors[p])
          if (reader != a && !precedes(reader, a)) extra.insert(static_cast<int>(p));
      }
    Nodes result(extra.begin(), extra.end());
    result.insert(result.end(), antichain.begin(), antichain.end());
    return result;
  }

  // The antichains one node further on.
  std::vector<Nodes> steps(const Nodes& antichain) const {
    check_stop();
    std::vector<Nodes> result;
    const Nodes augmented = augment(antichain);
    for (const int from : augmented)
      for (const int to : graph_.successors[from]) {
        if (std::ranges::find(antichain, to) != antichain.end()) continue;
        if (std::ranges::any_of(augmented, [&](int a) { return precedes(to, a); })) continue;
        Nodes moved = augmented;
        std::ranges::replace(moved, from, to);
        Nodes next;
        for (const int v : moved)
          if (std::ranges::none_of(moved, [&](int w) { return precedes(v, w); }) &&
              std::ranges::find(next, v) == next.end())
            next.push_back(v);
        result.push_back(next);
      }
    return result;
  }

  void explore() {
    std::size_t source = 0;
    while (source < n_ && !graph_.predecessors[source].empty()) ++source;
    std::map<Nodes, int> number;  // by sorted antichain
    std::vector<bool> done;
    const auto find_or_add = [&](const Nodes& antichain) {
      Nodes key = antichain;
      std::ranges::sort(key);
      const auto [found, fresh] = number.try_emplace(key, static_cast<int>(found_.size()));
      if (fresh) {
        found_.push_back(antichain);
        augmented_.push_back(augment(antichain));
        next_.emplace_back();
        done.push_back(false);
      }
      return found->second;
    };
    std::deque<int> queue{find_or_add({static_cast<int>(source)})};
    while (!queue.empty() && found_.size() <= cap_) {
      const int state = queue.front();
      queue.pop_front();
      if (done[state]) continue;
      done[state] = true;
      const Nodes antichain = found_[state];
      for (const Nodes& next : steps(antichain)) {
        const int to = find_or_add(next);
        next_[state].push_back(to);
        queue.push_back(to);
      }
    }
  }

  // The last state must take in the whole model: with several sources or sinks it may not.
  bool covers_everything() const {
    for (std::size_t s = 0; s < found_.size(); ++s)
      if (next_[s].empty() && everything_before(augmented_[s]).size() == n_) return true;
    return false;
  }

  Nodes everything_before(const Nodes& antichain) const {
    Nodes result;
    for (int v = 0; v < static_cast<int>(n_); ++v)
      if (std::ranges::any_of(antichain, [&](int a) { return a == v || precedes(v, a); })) result.push_back(v);
    return result;
  }

  // Depth first from the states in the order they were found; reversed order of completion.
  void sort() {
    std::vector<int> color(found_.size(), 0);
    for (std::size_t start = 0; start < found_.size(); ++start) {
      if (color[start]) continue;
      std::vector<std::pair<int, std::size_t>> stack{{static_cast<int>(start), 0}};
      color[start] = 1;
      while (!stack.empty()) {
        auto& [state, at] = stack.back();
        const auto& next = next_[state];
        if (at == next.size()) {
          order_.push_back(state);
          stack.pop_back();
          continue;
        }
        const int to = next[at++];
        if (!color[to]) {
          color[to] = 1;
          stack.push_back({to, 0});
        }
      }
    }
    std::ranges::reverse(order_);
  }

  AntichainStates sums(const std::vector<Nodes>& up_to) const {
    AntichainStates states;
    states.groups = up_to;
    for (const Nodes& groups : up_to) {
      double seconds = 0, kept = 0, parameters = 0, gradients = 0;
      for (const int u : groups) {
        const LayerGroup& group = graph_.groups[u];
        seconds += group.seconds();
        kept += group.kept;
        parameters += group.parameters;
        gradients += group.gradients;
      }
      states.seconds.push_back(seconds);
      states.kept.push_back(kept);
      states.parameters.push_back(parameters);
      states.gradients.push_back(gradients);
    }
    return states;
  }

  static void close(AntichainStates& states) {
    states.predecessors.resize(states.size());
    for (std::size_t j = 0; j < states.size(); ++j)
      for (std::size_t i = 0; i < j; ++i)
        if (states.precedes[i][j]) states.predecessors[j].push_back(static_cast<int>(i));
  }

  // The groups in their order, as a chain.
  AntichainStates in_order() const {
    std::vector<Nodes> up_to;
    for (std::size_t v = 0; v < n_; ++v) {
      up_to.emplace_back(v + 1);
      std::iota(up_to.back().begin(), up_to.back().end(), 0);
    }
    AntichainStates states = sums(up_to);
    const std::vector<double> crossing = bytes_over_cuts(graph_);
    states.output.assign(crossing.begin() + 1, crossing.end());
    states.precedes.assign(n_, std::vector<bool>(n_));
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = i + 1; j < n_; ++j) states.precedes[i][j] = true;
    close(states);
    states.complete = false;
    return states;
  }

  const LayerGroupGraph& graph_;
  std::size_t n_, cap_;
  std::vector<std::vector<bool>> before_;  // before_[v][u]: u precedes v
  std::vector<Nodes> found_, augmented_;
  std::vector<std::vector<int>> next_;
  std::vector<int> order_;
};

}  // namespace

AntichainStates antichain_states(const LayerGroupGraph& graph, std::int64_t cap) { return Walk(graph, cap).run(); }

AntichainStates thinned(const AntichainStates& chain, std::size_t most) {
  const std::size_t n = chain.size();
  if (n <= most) return chain;
  AntichainStates states{.complete = false};
  for (std::size_t k = 1; k <= most; ++k) {
    const std::size_t at = k * n / most - 1;
    states.groups.push_back(chain.groups[at]);
    states.seconds.push_back(chain.seconds[at]);
    states.kept.push_back(chain.kept[at]);
    states.parameters.push_back(chain.parameters[at]);
    states.gradients.push_back(chain.gradients[at]);
    states.output.push_back(chain.output[at]);
    states.predecessors.emplace_back(k - 1);
    std::iota(states.predecessors.back().begin(), states.predecessors.back().end(), 0);
    states.precedes.emplace_back(most);
    std::fill(states.precedes.back().begin() + static_cast<std::ptrdiff_t>(k), states.precedes.back().end(), true);
  }
  return states;
}

}  // namespace sluice
