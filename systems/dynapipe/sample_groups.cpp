#include "systems/dynapipe/sample_groups.h"

#include <algorithm>

#include "harness/base/index.h"
#include "harness/base/stop.h"
#include "harness/plan/search.h"

namespace sluice {

namespace {

// The cut of the least sum without a micro-batch that takes longer than `longest`; its sum, kNever: there is none.
// seconds[n][k]: of the k + 1 samples before number n.
double least_sum(const std::vector<std::vector<double>>& seconds, double longest, std::vector<int>& last) {
  std::vector<double> best(seconds.size(), kNever);
  best[0] = 0;
  for (std::size_t n = 1; n < seconds.size(); ++n)
    for (std::size_t k = 0; k < seconds[n].size() && seconds[n][k] <= longest; ++k) {
      const double sum = best[n - k - 1] + seconds[n][k];
      if (sum < best[n]) best[n] = sum, last[n] = static_cast<int>(k) + 1;
    }
  return best.back();
}

}  // namespace

std::optional<SampleGroups> group_samples(std::span<const std::int64_t> lengths, int ranks, const GroupSeconds& seconds,
                                          std::int64_t limit) {
  std::vector<std::vector<double>> of_last(lengths.size() + 1);
  std::vector<double> times;
  for (int n = 1; n <= count_of(lengths); ++n)
    for (int k = 1; k <= n && lengths[n - k] <= limit / k; ++k) {
      of_last[n].push_back(seconds(k, lengths[n - k]));
      times.push_back(of_last[n].back());
    }
  std::ranges::sort(times);
  times.erase(std::ranges::unique(times).begin(), times.end());
  std::vector<int> last(of_last.size()), best_last;
  const double least = least_sum(of_last, kNever, last);  // of any cut
  double best = kNever;
  for (const double longest : times) {
    check_stop();
    const double fill = (ranks - 1) * longest;
    if (fill + least >= best) break;
    const double objective = fill + least_sum(of_last, longest, last);
    if (objective < best) best = objective, best_last = last;
  }
  if (best == kNever) return std::nullopt;
  SampleGroups groups{{}, best};
  for (int n = count_of(lengths); n > 0; n -= best_last[n]) groups.samples.push_back(best_last[n]);
  std::ranges::reverse(groups.samples);
  return groups;
}

}  // namespace sluice
