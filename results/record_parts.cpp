#include "results/record_parts.h"

#include <limits>

#include "harness/pipeline/moves.h"

namespace sluice {

RecordedInterference recorded(const Interference& interference) {
  RecordedInterference r{.name = interference.name,
                         .seed = interference.seed,
                         .episodes = {},
                         .op_noise = interference.op_noise,
                         .latency_jitter = interference.latency_jitter};
  for (const Episode& e : interference.episodes) {
    RecordedInterference::Episode& episode = r.episodes.emplace_back();
    episode = {.resource = e.resource, .device = e.device, .start = e.start, .slowdown = e.slowdown};
    if (e.to >= 0) episode.to = e.to;
    if (e.end < std::numeric_limits<double>::infinity()) episode.seconds = e.end - e.start;
  }
  return r;
}

std::string moves_of(const std::vector<RecordedAdaptation::Change>& changes) {
  std::vector<PlanMove> moves;
  for (const RecordedAdaptation::Change& change : changes) {
    PlanMove& move = moves.emplace_back(PlanMove{.update = change.update, .first_layers = {}});
    for (std::size_t s = 1; s < change.stages.size(); ++s) move.first_layers.push_back(change.stages[s].front());
  }
  return to_text(moves);
}

}  // namespace sluice
