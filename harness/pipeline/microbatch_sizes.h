// The samples of every micro-batch of an update, where they are not all the same.
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
  // The rest is of sizes that differ. A micro-batch is numbered in its run: the sizes repeat with every update.
  std::span<const std::int64_t> samples() const { return samples_; }
  std::span<const std::int64_t> distinct() const { return distinct_; }  // ascending
  int index_of(Micro micro) const { return index_[place(micro)]; }      // into distinct()
  std::int64_t of(Micro micro) const { return samples_[place(micro)]; }
  std::int64_t batch() const { return first_.back(); }  // samples of an update
  // Samples of the micro-batches before it, in its run.
  std::int64_t before(Micro micro) const;
  // What its loss and its gradients count for in the mean over the samples of the update.
  double weight(Micro micro) const { return static_cast<double>(of(micro)) / static_cast<double>(batch()); }

 private:
  std::size_t place(Micro micro) const { return micro.index() % samples_.size(); }

  std::vector<std::int64_t> samples_, distinct_;
  std::vector<std::int64_t> first_;  // of each micro-batch, its first sample in the update; then the batch
  std::vector<int> index_;
};

// `microbatches` of `samples` each, the first `halved` of them as two micro-batches: of an odd number the first half is
// the larger one.
std::vector<std::int64_t> first_halved(int microbatches, std::int64_t samples, int halved);

// Those of one of `pipelines` pipelines, which all have the same.
MicrobatchSizes sizes_of_pipeline(const MicrobatchSizes& all, int pipelines);

}  // namespace sluice
