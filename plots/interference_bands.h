// Shaded bands at times when a record's devices or links were slowed down (observed.interference).
#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"
#include "results/record.h"

namespace sluice {

struct BandSpan {
  double start = 0, end = 0;  // seconds
  int device = 0;             // for a link: at one end
  double slowdown = 1;
  std::string resource;
};

// The episodes between two times of the training, as seconds from the first.
std::vector<BandSpan> interference_spans(const Record& record, double from, double until);

// The same from the start, as values of a chart, in units of `divisor` seconds. Null: there are none.
Json interference_bands(const Record& record, double until, double divisor);

}  // namespace sluice
