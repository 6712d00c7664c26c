#include "harness/base/work.h"

#include <algorithm>
#include <stdexcept>

namespace sluice {

PiecewiseSpeed::PiecewiseSpeed(std::vector<Change> changes) : changes_(std::move(changes)) {
  for (std::size_t k = 0; k < changes_.size(); ++k)
    if (!(changes_[k].speed > 0) || (k > 0 && changes_[k].from < changes_[k - 1].from))
      throw std::logic_error("speeds must be greater than 0 and their changes in order of time");
  // The first of equal moments, or of equal speeds, says nothing.
  std::vector<Change> kept;
  for (const Change& change : changes_) {
    if (!kept.empty() && kept.back().from == change.from) kept.pop_back();
    const double before = kept.empty() ? 1.0 : kept.back().speed;
    if (change.speed != before) kept.push_back(change);
  }
  changes_ = std::move(kept);
}

std::size_t PiecewiseSpeed::segment_at(double time) const {
  const auto after = std::ranges::upper_bound(changes_, time, {}, &Change::from);
  return after == changes_.begin() ? changes_.size() : static_cast<std::size_t>(after - changes_.begin()) - 1;
}

double PiecewiseSpeed::at(double time) const {
  const std::size_t k = segment_at(time);
  return k == changes_.size() ? 1.0 : changes_[k].speed;
}

double PiecewiseSpeed::finish(double start, double work) const {
  if (changes_.empty()) return start + work;
  std::size_t k = segment_at(start);
  std::size_t next = k == changes_.size() ? 0 : k + 1;
  double speed = k == changes_.size() ? 1.0 : changes_[k].speed, now = start;
  for (; next < changes_.size(); ++next) {
    const double room = (changes_[next].from - now) * speed;
    if (work <= room) break;
    work -= room;
    now = changes_[next].from;
    speed = changes_[next].speed;
  }
  return now + work / speed;
}

PiecewiseSpeed PiecewiseSpeed::from(double start) const {
  PiecewiseSpeed result = *this;
  for (Change& change : result.changes_) change.from -= start;
  return result;
}

template <class Combine>
static PiecewiseSpeed combined(const PiecewiseSpeed& a, const PiecewiseSpeed& b, Combine combine) {
  std::vector<PiecewiseSpeed::Change> changes;
  std::vector<double> moments;
  for (const PiecewiseSpeed* speed : {&a, &b})
    for (const auto& change : speed->changes()) moments.push_back(change.from);
  std::ranges::sort(moments);
  for (const double moment : moments) changes.push_back({moment, combine(a.at(moment), b.at(moment))});
  return PiecewiseSpeed(std::move(changes));
}

PiecewiseSpeed PiecewiseSpeed::product(const PiecewiseSpeed& a, const PiecewiseSpeed& b) {
  return combined(a, b, [](double x, double y) { return x * y; });
}

PiecewiseSpeed PiecewiseSpeed::slower(const PiecewiseSpeed& a, const PiecewiseSpeed& b) {
  return combined(a, b, [](double x, double y) { return std::min(x, y); });
}

}  // namespace sluice
