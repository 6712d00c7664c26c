// TPS of one stage of Piper's (NeurIPS 2021, sections 3 and 4): the stage is Q = I \ J, two nested down-sets, on t d
// devices with y micro-batches in flight,
//
//   TPS(Q, t, d, y) = min over a choice for every layer group of Q of
//                     sum(p)/d + [ sum over cut edges 2(c + sync)/d + 4(d-1)/(d N) sum(w) ] / bandwidth
//                     subject to sum(a) y + sum(b) <= M
//
// which is a knapsack (baselines/piper/knapsack.h). Most stages are settled without it: prefix sums over the down-sets
// give every group its fastest choice, and only groups with cut edges are looked at one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "baselines/piper/knapsack.h"
#include "baselines/piper/piper_model.h"
#include "harness/plan/down_sets.h"

namespace sluice {

class PiperStageCosts {
 public:
  // A data degree d and a mode (t), with what every down-set sums up to if each group runs in its fastest choice and no
  // edge is cut.
  struct Degrees {
    std::size_t mode = 0;  // index into PiperModel::modes
    int data = 1;
    int devices = 1;                           // t d
    std::vector<int> fastest;                  // per group: index of its choice
    std::vector<std::vector<double>> seconds;  // [group][choice], all-reduce shared out, no cut edge
    struct Sum {
      double seconds = 0, in_flight = 0, always = 0;
      double received = 0;  // of a stage that recomputes: bytes that it keeps of every micro-batch
    };
    std::vector<Sum> sums;  // per down-set
  };

  // All three must outlive it. `max_sum`: the largest degree sum s that is asked about.
  PiperStageCosts(const PiperModel& model, const DownSets& sets, const PiperOptions& options, int max_sum);

  const std::vector<Degrees>& degrees() const { return degrees_; }  // by mode, then data degree
  // The degrees of a mode: numbers [first, last).
  std::size_t first_of(std::size_t mode) const { return first_of_mode_[mode]; }
  std::size_t last_of(std::size_t mode) const { return first_of_mode_[mode + 1]; }

  // Device-seconds of a down-set, at least.
  double min_work(int set) const { return least_work_[set]; }
  // Can every group of `set` without `rest` run in the mode?
  bool can_run(int set, int rest, std::size_t mode) const { return missing_[mode][set] <= missing_[mode][rest]; }
  // The stage's seconds with the fastest choices and no cut edge.
  static double uncut_seconds(const Degrees& d, int set, int rest) {
    return d.sums[set].seconds - d.sums[rest].seconds;
  }

  // TPS of the stage, `set` without `rest`, with degrees number `number` and y micro-batches in flight; more than
  // `limit` if it cannot be within it, infinity if it does not fit.
  double seconds(int set, int rest, std::size_t number, int y, double limit);
  // The stage, its degree sum being s; without layers and variants unless asked for.
  PiperStage stage(int set, int rest, std::size_t number, int degree_sum, bool with_layers);

  std::int64_t evaluated() const { return evaluated_; }  // stages
  bool complete() const { return complete_; }            // false: the exact knapsack was cut short

 private:
  // A group of the stage with cut edges, and the bytes that cross them for each of its choices.
  struct CutGroup {
    int group = 0;
    std::vector<double> bytes;
  };

  void make_degrees(int max_sum);
  void sum_up();
  void find_cuts(int set, int rest, std::size_t mode);
  Degrees::Sum sum_of(int set, int rest, const Degrees& d) const;
  Degrees::Sum stage_sum(int set, int rest, std::size_t number);
  void add_cut(int group, int edge, std::size_t mode, bool incoming);
  const std::vector<double>& min_memory(std::size_t mode, int y);
  std::vector<int> groups_between(int set, int rest) const;
  std::optional<KnapsackResult> choose(int set, int rest, std::size_t number, int y);

  const PiperModel& model_;
  const DownSets& sets_;
  const PiperOptions& options_;
  std::vector<Degrees> degrees_;
  std::vector<std::size_t> first_of_mode_;                    // and the end
  std::vector<std::vector<int>> border_;                      // per set: edges into it
  std::vector<std::vector<int>> missing_;                     // [mode][set]: groups without a choice
  std::vector<double> least_work_;                            // per set
  std::vector<std::vector<std::vector<double>>> min_memory_;  // [mode][y][set], once asked for
  // What stages sum up to with every group in its fastest choice plus its cut edges, [set][rest][number]; once asked
  // for, their seconds are not a number before. Empty where the table would be too large.
  std::vector<Degrees::Sum> stage_sums_;
  // The stage whose cuts are in cuts_; and bytes that it keeps of every micro-batch, where it recomputes.
  int cut_set_ = -1, cut_rest_ = -1;
  std::size_t cut_mode_ = 0;
  std::vector<CutGroup> cuts_;
  double received_ = 0;
  std::vector<std::vector<double>> spare_;            // of former cuts, for their memory
  std::unordered_map<std::uint64_t, double> solved_;  // stages that do not fit at their fastest
  std::uint64_t max_sum_ = 1;
  std::int64_t evaluated_ = 0;
  bool complete_ = true;
};

}  // namespace sluice
