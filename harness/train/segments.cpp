#include "harness/train/segments.h"

#include <numeric>

#include "harness/base/error.h"
#include "workloads/data/order.h"

namespace sluice {

Segments::Segments(const RunCase& c, const Prepared& prepared, std::int64_t train_samples)
    : case_(c), prepared_(prepared), train_samples_(train_samples) {
  if (c.epochs == 0) {
    updates_ = {c.steps};
    return;
  }
  updates_per_epoch_ = train_samples / c.batch;
  if (updates_per_epoch_ < c.evaluations_per_epoch)
    throw InputError("batch",
                     "an epoch of " + std::to_string(train_samples) + " samples has " +
                         std::to_string(updates_per_epoch_) + " updates of " + std::to_string(c.batch) +
                         " samples, fewer than its evaluations",
                     "use a smaller batch");
  if (c.leftover == Leftover::partial) leftover_ = static_cast<int>(train_samples % c.batch / prepared.micro_batch);
  if (leftover_ > 0) ++updates_per_epoch_;
  for (int epoch = 0; epoch < c.epochs; ++epoch)
    for (int k = 0; k < c.evaluations_per_epoch; ++k)
      updates_.push_back(updates_per_epoch_ * (k + 1) / c.evaluations_per_epoch -
                         updates_per_epoch_ * k / c.evaluations_per_epoch);
}

std::vector<UndrainedSegment> Segments::undrained() const {
  std::vector<UndrainedSegment> result;
  for (std::size_t k = 0; k < updates_.size(); ++k) {
    if (result.empty() || !snapshots()) result.push_back({k, {}});
    std::vector<std::int64_t>& ends = result.back().ends;
    ends.push_back((ends.empty() ? 0 : ends.back()) + updates_[k]);
  }
  return result;
}

bool Segments::snapshots() const { return case_.evaluation == EvaluationMode::snapshot && case_.epochs > 0; }

std::int64_t Segments::total_updates() const {
  return std::accumulate(updates_.begin(), updates_.end(), std::int64_t{0});
}

int Segments::epoch_of(std::size_t segment) const {
  return case_.epochs == 0 ? 0 : static_cast<int>(segment) / case_.evaluations_per_epoch;
}

bool Segments::ends_epoch(std::size_t segment) const {
  const auto per_epoch = static_cast<std::size_t>(case_.evaluations_per_epoch);
  return case_.epochs > 0 && segment % per_epoch + 1 == per_epoch;
}

int Segments::microbatches_of_program(std::size_t segment, std::int64_t updates) const {
  const int per_update = prepared_.microbatches_per_update;
  if (synchronous()) return per_update;
  const int missing = ends_with_partial_update(segment) ? per_update - leftover_ : 0;
  return static_cast<int>(updates) * per_update - missing;
}

int Segments::iterations_of_program(std::int64_t updates) const {
  return synchronous() ? static_cast<int>(updates) : 1;
}

std::vector<std::int64_t> Segments::samples(const UndrainedSegment& segment) const {
  if (train_samples_ == 0) return {};
  if (case_.epochs == 0) return repeated_epochs(segment.updates() * case_.batch);
  std::vector<std::int64_t> order;
  for (std::size_t k = 0; k < segment.ends.size(); ++k) append_samples(segment.first + k, order);
  return order;
}

void Segments::append_samples(std::size_t segment, std::vector<std::int64_t>& order) const {
  const std::vector<std::int64_t> epoch = epoch_order(train_samples_, case_.seed, epoch_of(segment));
  const std::size_t first_of_epoch = segment - segment % static_cast<std::size_t>(case_.evaluations_per_epoch);
  std::int64_t updates_before = 0;
  for (std::size_t k = first_of_epoch; k < segment; ++k) updates_before += updates_[k];
  const std::int64_t missing = ends_with_partial_update(segment) ? case_.batch - leftover_ * prepared_.micro_batch : 0;
  const auto begin = epoch.begin() + updates_before * case_.batch;
  order.insert(order.end(), begin, begin + updates_[segment] * case_.batch - missing);
}

// As many whole epochs as hold this many samples.
std::vector<std::int64_t> Segments::repeated_epochs(std::int64_t samples) const {
  std::vector<std::int64_t> order;
  for (int epoch = 0; static_cast<std::int64_t>(order.size()) < samples; ++epoch) {
    const std::vector<std::int64_t> more = epoch_order(train_samples_, case_.seed, epoch);
    order.insert(order.end(), more.begin(), more.end());
  }
  return order;
}

}  // namespace sluice
