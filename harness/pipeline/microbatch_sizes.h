// The samples of every micro-batch of an update, if their numbers differ.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/base/ids.h"

namespace sluice {

class MicrobatchSizes {
 public:
  MicrobatchSizes() = default;  // all the same
  // samples: of each, in order, at least 1.
  explicit MicrobatchSizes(std::vector<std::int64_t> samples);

  bool differ() const { return !samples_.empty(); }
  // The functions below need different sizes. Micro-batches are numbered over the run; sizes repeat with every update.
  std::span<const std::int64_t> samples() const { return samples_; }
  std::span<const std::int64_t> distinct() const { return distinct_; }  // ascending
  int index_of(Micro micro) const { return index_[place(micro)]; }      // into distinct()
  std::int64_t of(Micro micro) const { return samples_[place(micro)]; }
  std::int64_t batch() const { return first_.back(); }  // samples of an update
  // Samples of the run's micro-batches before this one.
  std::int64_t before(Micro micro) const;
  // Weight of its loss and its gradients in the mean over the samples of the update.
  double weight(Micro micro) const { return static_cast<double>(of(micro)) / static_cast<double>(batch()); }

 private:
  std::size_t place(Micro micro) const { return micro.index() % samples_.size(); }

  std::vector<std::int64_t> samples_, distinct_;
  std::vector<std::int64_t> first_;  // per micro-batch: its first sample in the update; then the batch
  std::vector<int> index_;
};

// `microbatches` of `samples` each, the first `halved` of them split into two. Of an odd number, the first half is
// larger.
std::vector<std::int64_t> first_halved(int microbatches, std::int64_t samples, int halved);

// The sizes of one of `pipelines` pipelines; all pipelines have the same.
MicrobatchSizes sizes_of_pipeline(const MicrobatchSizes& all, int pipelines);

}  // namespace sluice
