// Early ends of a run: RunStopped is a failure, Diverged a result.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "harness/base/ids.h"

namespace sluice {

// Thrown by execute(): a rank failed, the time-out passed, or the run was cancelled.
class RunStopped : public std::runtime_error {
 public:
  enum class Kind { failed, timed_out, cancelled };
  RunStopped(Kind k, std::optional<Rank> r, const std::string& reason) : std::runtime_error(reason), kind(k), rank(r) {}
  Kind kind;
  std::optional<Rank> rank;  // the one that failed first
};

// Thrown by a worker whose training loss is no longer a finite number: it ends the run, and is a result, not a failure
// of the rank.
struct Diverged {
  std::int64_t update = 0;  // of this run, from 0: the first whose loss is not finite
};

}  // namespace sluice
