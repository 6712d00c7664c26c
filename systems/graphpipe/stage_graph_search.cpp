#include "systems/graphpipe/stage_graph_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/base/error.h"
#include "systems/graphpipe/stage_graph_dp.h"
#include "systems/graphpipe/stage_lists.h"

namespace sluice {

namespace {

class BinarySearch {
 public:
  BinarySearch(StageLists& lists, const StageSearchSpace& space, const StageSearchLimits& limits)
      : lists_(lists), space_(space), limits_(limits), program_(lists, space, limits) {}

  StageSearchResult run() {
    // A stage graph is looked for from the least time that the devices could do, where there is little to try, in
    // growing steps. What is left to try then are the possible stages' times between the last rejection and the slowest
    // stage of the graph found.
    const double slowest = std::min(slowest_stage(), limits_.faster_than * (1 - 1e-9));
    if (slowest < slowest_stage() && !program_.has_enough_devices(slowest)) return best_;
    auto [rejected, bound] = least_with_enough_devices(slowest);
    try {
      for (double step = 0.01; !attempt(bound) && bound < slowest; step = std::min(2 * step, 0.25)) {
        rejected = bound;
        bound = bound > 0 ? std::min(slowest, bound * (1 + step)) : slowest;
      }
      if (!best_.stages.empty()) halve(times_between(rejected, best_.slowest));
    } catch (const OutOfLimits&) {
      best_.complete = false;
    }
    best_.states = program_.states();
    return best_;
  }

 private:
  // SearchStageGraph: keeps the stage graph if there is one.
  bool attempt(double seconds) {
    if (!program_.solve_within(seconds)) return false;
    best_.stages = program_.stages();
    best_.slowest = program_.slowest();
    return true;
  }

  void halve(const std::vector<double>& times) {
    std::size_t low = 0, high = times.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (attempt(times[middle])) {
        // The slowest stage may be faster than what was asked for.
        high = static_cast<std::size_t>(std::ranges::lower_bound(times, best_.slowest) - times.begin());
      } else {
        low = middle + 1;
      }
    }
  }

  double slowest_stage() const {
    double slowest = 0;
    for (const PossibleStage& stage : lists_.stages)
      for (const std::size_t k : program_.choices()) slowest = std::max(slowest, stage.seconds[k]);
    return slowest;
  }

  // The times of possible stages between two others, each once, ascending.
  std::vector<double> times_between(double above, double below) const {
    std::vector<double> times;
    for (const PossibleStage& stage : lists_.stages)
      for (const std::size_t k : program_.choices())
        if (stage.seconds[k] > above && stage.seconds[k] < below) times.push_back(stage.seconds[k]);
    std::ranges::sort(times);
    times.erase(std::unique(times.begin(), times.end()), times.end());
    return times;
  }

  // The least time of a possible stage for which there are enough devices, memory aside, after one for which there are
  // too few.
  std::pair<double, double> least_with_enough_devices(double slowest) {
    const StageList& whole = lists_.lists[lists_.root];
    const double least = lists_.costs_of(whole).min_work / space_.devices;
    double low = std::min(least, slowest) * (1 - 1e-9), high = slowest;
    if (low <= 0) return {0, slowest};
    while (high > low * 1.02) {
      const double middle = std::sqrt(low * high);
      (program_.has_enough_devices(middle) ? high : low) = middle;
    }
    const std::vector<double> times = times_between(low, high);
    const auto first = std::ranges::partition_point(times, [&](double t) { return !program_.has_enough_devices(t); });
    if (first != times.begin()) low = *(first - 1);
    return {low, first == times.end() ? high : *first};
  }

  StageLists& lists_;
  const StageSearchSpace& space_;
  const StageSearchLimits& limits_;
  StageGraphDp program_;
  StageSearchResult best_;
};

}  // namespace

StageGraphSearch::StageGraphSearch(const SeriesParallelTree& tree, const StageSearchSpace& space) : space_(space) {
  if (space.devices > 255 || space.configs.size() >= kAnyConfig || space.microbatches > 0xffff)
    throw InputError("graph pipeline search",
                     std::to_string(space.devices) + " devices, " + std::to_string(space.configs.size()) +
                         " micro-batch sizes and " + std::to_string(space.microbatches) + " micro-batches are too many",
                     "at most 255, 30 and 65535");
  lists_ = std::make_unique<StageLists>(tree, space);
}

StageGraphSearch::~StageGraphSearch() = default;

StageSearchResult StageGraphSearch::run(const StageSearchLimits& limits) {
  return BinarySearch(*lists_, space_, limits).run();
}

}  // namespace sluice
