#include "baselines/pipedream/pipedream_partition.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "harness/plan/search.h"

namespace sluice {

namespace {

// A^k(i->j, m) of one level: the least time, the machines of the last stage, and what comes before
// it.
struct Cell {
  double seconds = kNever;
  int machines = 0;  // of the last stage; 0: nothing fits
  int split = -1;    // last state of what comes before; -1: there is nothing
  int machines_before = 0;
};

// Numbers for every pair of states; row i: of a stage that begins after state i - 1.
class Table {
 public:
  Table(std::size_t n, double value) : n_(n), values_((n + 1) * n, value) {}
  double& at(std::size_t i, std::size_t j) { return values_[i * n_ + j]; }
  double at(std::size_t i, std::size_t j) const { return values_[i * n_ + j]; }

 private:
  std::size_t n_;
  std::vector<double> values_;
};

Table differences(const std::vector<double>& up_to) {
  Table table(up_to.size(), kNever);
  for (std::size_t i = 0; i <= up_to.size(); ++i)
    for (std::size_t j = i; j < up_to.size(); ++j) table.at(i, j) = up_to[j] - (i == 0 ? 0 : up_to[i - 1]);
  return table;
}

// Of every stage's weights: their bytes, and those of their gradients.
struct Weights {
  Table bytes, gradients;
};

// Machines of this level that a stage may be replicated over, so that all its levels together keep to the limit: a
// level where not even the ones below have so few replicates nothing.
std::size_t replicas_within(const PipeDreamOptions& options, std::size_t number) {
  int below = 1;
  for (std::size_t k = 0; k < number; ++k) below *= options.levels[k].count;
  return static_cast<std::size_t>(std::max(1, options.max_replicas / below));
}

class Level {
 public:
  Level(const AntichainStates& states, const PipeDreamOptions& options, std::size_t number)
      : states_(states),
        options_(options),
        n_(states.size()),
        machines_(static_cast<std::size_t>(options.levels[number].count)),
        bandwidth_(options.levels[number].bandwidth),
        below_(number == 0 ? 1 : options.levels[number - 1].count),
        max_replicas_(replicas_within(options, number)),
        top_(number + 1 == options.levels.size()),
        paper_(options.form == PipeDreamOptions::Form::paper),
        cells_((n_ + 1) * n_ * machines_) {}

  Cell& cell(std::size_t i, std::size_t j, std::size_t m) {  // m machines, from 1
    return cells_[(i * n_ + j) * machines_ + m - 1];
  }

  // compute.at(i, j): seconds of the stage on one machine of this level. Out of time, cells that
  // were not reached stay what they are: one stage. Returns the number of cells it has cut.
  std::int64_t solve(const Table& compute, const Weights& weights, const Table& kept, const Deadline& deadline) {
    const std::size_t max_replicas = std::min(max_replicas_, machines_);
    for (std::size_t i = 0; i <= n_; ++i)
      for (std::size_t j = i; j < n_; ++j)
        for (std::size_t m = 1; m <= max_replicas; ++m) {
          check_stop();
          if (!fits(machines_ - m, m, kept.at(i, j) + weights.bytes.at(i, j))) continue;
          const double seconds = stage_seconds(compute.at(i, j), weights.gradients.at(i, j), m, /*whole=*/true);
          if (seconds < kNever) cell(i, j, m) = {seconds, static_cast<int>(m), -1, 0};
        }
    std::int64_t visited = 0;
    const std::size_t rows = top_ ? 1 : n_ + 1;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t m = 2; m <= machines_; ++m) {
        if (deadline.passed()) return visited;
        for (std::size_t j = i + 1; j < n_; ++j) {
          check_stop();
          cell(i, j, m) = best_split(i, j, m, compute, weights, kept);
          ++visited;
        }
      }
    return visited;
  }

 private:
  double stage_seconds(double compute, double gradients, std::size_t m, bool whole) const {
    const double r = static_cast<double>(m);
    if (paper_) return std::max(compute, 2 * (r - 1) * gradients / bandwidth_) / r;
    double sync = 4 * (r - 1) * gradients / (bandwidth_ * r);
    if (whole) sync /= below_;
    return (compute + sync) / r;
  }

  // Activations and weights of every mini-batch in flight.
  bool fits(std::size_t later_machines, std::size_t m, double bytes) const {
    if (options_.memory <= 0) return true;
    return std::ceil(static_cast<double>(later_machines) / static_cast<double>(m)) * bytes <= options_.memory;
  }

  Cell best_split(std::size_t i, std::size_t j, std::size_t m, const Table& compute, const Weights& weights,
                  const Table& kept) {
    Cell best = cell(i, j, m);
    if (options_.fewer_machines && cell(i, j, m - 1).seconds < best.seconds) best = cell(i, j, m - 1);
    const std::size_t max_replicas = std::min(max_replicas_, m - 1);
    for (const int split : states_.predecessors[j]) {
      const auto k = static_cast<std::size_t>(split);
      if (k < i || (i > 0 && states_.precedes[k][i - 1])) continue;
      const double transfer = paper_ ? 2 * states_.output[k] / bandwidth_ : 0;
      if (transfer >= best.seconds) continue;
      for (std::size_t last = 1; last <= max_replicas; ++last) {
        if (!fits(machines_ - m, last, kept.at(k + 1, j) + weights.bytes.at(k + 1, j))) continue;
        const double before = cell(i, k, m - last).seconds;
        if (before >= best.seconds) continue;
        const double seconds =
            std::max({before, transfer,
                      stage_seconds(compute.at(k + 1, j), weights.gradients.at(k + 1, j), last, /*whole=*/false)});
        if (seconds < best.seconds) best = {seconds, static_cast<int>(last), split, static_cast<int>(m - last)};
      }
    }
    return best;
  }

  const AntichainStates& states_;
  const PipeDreamOptions& options_;
  std::size_t n_, machines_;
  double bandwidth_, below_;
  std::size_t max_replicas_;
  bool top_, paper_;
  std::vector<Cell> cells_;
};

// The stages of one level's solution for states [first, last).
std::vector<PipeDreamStage> read(Level& level, int first, int last, int machines) {
  std::vector<PipeDreamStage> stages;
  for (int end = last; end > first;) {
    const Cell& cell = level.cell(static_cast<std::size_t>(first), static_cast<std::size_t>(end - 1),
                                  static_cast<std::size_t>(machines));
    const int begin = cell.split < 0 ? first : cell.split + 1;
    stages.push_back({begin, end, {cell.machines}});
    machines = cell.machines_before;
    end = begin;
  }
  std::ranges::reverse(stages);
  return stages;
}

}  // namespace

std::int64_t states_within(std::int64_t bytes, const std::vector<MachineLevel>& levels) {
  double of_a_pair = 3 * sizeof(double);
  for (const MachineLevel& level : levels) of_a_pair += level.count * double{sizeof(Cell)};
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::sqrt(static_cast<double>(bytes) / of_a_pair)) - 1);
}

PipeDreamResult pipedream_partition(const AntichainStates& states, const PipeDreamOptions& options) {
  const std::size_t n = states.size();
  if (options.levels.empty()) throw InputError("pipedream", "no level of machines is given");
  const Weights weights{differences(states.parameters), differences(states.gradients)};
  const Table kept = differences(states.kept);
  Table compute = differences(states.seconds);
  const Deadline deadline(options.limits.seconds);
  PipeDreamResult result;
  std::vector<Level> levels;
  for (std::size_t k = 0; k < options.levels.size(); ++k) {
    if (options.levels[k].count < 1 || !(options.levels[k].bandwidth > 0))
      throw InputError("pipedream", "level " + std::to_string(k) + " has no machines or bandwidth");
    Level& level = levels.emplace_back(states, options, k);
    result.states += level.solve(compute, weights, kept, deadline);
    for (std::size_t i = 0; i <= n; ++i)
      for (std::size_t j = i; j < n; ++j)
        compute.at(i, j) = level.cell(i, j, static_cast<std::size_t>(options.levels[k].count)).seconds;
  }
  result.complete = !deadline.passed();
  result.seconds = compute.at(0, n - 1);
  if (result.seconds == kNever) return result;
  // From the top down: every stage of a level is cut by the level below, on all its machines.
  result.by_level.resize(options.levels.size());
  std::vector<PipeDreamStage> whole{{0, static_cast<int>(n), {}}};
  for (std::size_t k = options.levels.size(); k-- > 0;) {
    std::vector<PipeDreamStage> finer;
    for (const PipeDreamStage& outer : whole)
      for (PipeDreamStage stage : read(levels[k], outer.first, outer.last, options.levels[k].count)) {
        stage.machines.insert(stage.machines.end(), outer.machines.begin(), outer.machines.end());
        finer.push_back(stage);
      }
    result.by_level[k] = whole = finer;
  }
  result.stages = whole;
  return result;
}

}  // namespace sluice
