#include "harness/pipeline/microbatch_sizes.h"

#include <algorithm>
#include <utility>

namespace sluice {

MicrobatchSizes::MicrobatchSizes(std::vector<std::int64_t> samples)
    : samples_(std::move(samples)), distinct_(samples_), first_{0} {
  std::ranges::sort(distinct_);
  distinct_.erase(std::ranges::unique(distinct_).begin(), distinct_.end());
  for (const std::int64_t n : samples_) {
    first_.push_back(first_.back() + n);
    index_.push_back(static_cast<int>(std::ranges::lower_bound(distinct_, n) - distinct_.begin()));
  }
}

std::int64_t MicrobatchSizes::before(Micro micro) const {
  return static_cast<std::int64_t>(micro.index() / samples_.size()) * batch() + first_[place(micro)];
}

std::vector<std::int64_t> first_halved(int microbatches, std::int64_t samples, int halved) {
  std::vector<std::int64_t> sizes;
  for (int k = 0; k < halved; ++k) sizes.insert(sizes.end(), {samples - samples / 2, samples / 2});
  sizes.insert(sizes.end(), static_cast<std::size_t>(microbatches - halved), samples);
  return sizes;
}

MicrobatchSizes sizes_of_pipeline(const MicrobatchSizes& all, int pipelines) {
  const auto own = all.samples().first(all.samples().size() / static_cast<std::size_t>(pipelines));
  return MicrobatchSizes({own.begin(), own.end()});
}

}  // namespace sluice
