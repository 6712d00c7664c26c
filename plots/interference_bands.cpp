#include "plots/interference_bands.h"

#include <algorithm>
#include <limits>

namespace sluice {

std::vector<BandSpan> interference_spans(const Record& record, double from, double until) {
  std::vector<BandSpan> spans;
  if (!record.observed.interference) return spans;
  for (const RecordedInterference::Episode& episode : record.observed.interference->episodes) {
    BandSpan span;
    span.start = episode.start;
    span.end = episode.start + episode.seconds.value_or(std::numeric_limits<double>::infinity());
    span.device = episode.device;
    span.slowdown = episode.slowdown;
    span.resource = choice_name(episode.resource);
    if (span.end <= from || span.start >= until) continue;
    span.start = std::max(span.start, from) - from;
    span.end = std::min(span.end, until) - from;
    spans.push_back(std::move(span));
  }
  return spans;
}

Json interference_bands(const Record& record, double until, double divisor) {
  Json values = Json::array();
  for (const BandSpan& span : interference_spans(record, 0, until))
    values.push_back({{"from", span.start / divisor},
                      {"until", span.end / divisor},
                      {"device", span.device},
                      {"resource", span.resource},
                      {"slowdown", span.slowdown}});
  return values.empty() ? Json() : values;
}

}  // namespace sluice
