#include "harness/sim/memory.h"

#include <algorithm>
#include <map>

namespace sluice {

namespace {

// Versions of one stage that some later instruction of the program still reads.
struct Versions {
  std::map<std::int32_t, int> uses_left;
  std::int32_t newest = 0;
  // Old versions that must stay although a newer one exists.
  int extra() const {
    int n = 0;
    for (const auto& [version, uses] : uses_left)
      if (version < newest && uses > 0) ++n;
    return n;
  }
};

RankMemory of_rank(const std::vector<Instruction>& program, const std::vector<StageMemory>& stages,
                   bool timeline) {
  std::map<StageId, Versions> versions;
  for (const Instruction& i : program)
    if (i.what <= Do::weight_gradient && i.what != Do::weight_gradient)
      ++versions[i.stage].uses_left[i.version];
  MemoryPoint now{};
  for (const auto& [stage, unused] : versions) {
    now.weights += stages[stage.index()].weights;
    now.gradients += stages[stage.index()].gradients;
    now.optimizer += stages[stage.index()].optimizer;
  }
  RankMemory result;
  result.peak = now;
  int in_flight = 0;
  const auto note = [&](std::size_t k) {
    now.instruction = k;
    if (now.total() > result.peak.total()) result.peak = now;
    if (timeline) result.timeline.push_back(now);
  };
  for (std::size_t k = 0; k < program.size(); ++k) {
    const Instruction& i = program[k];
    if (i.what > Do::weight_gradient && i.what != Do::optimizer_step) continue;
    const StageMemory& stage = stages[i.stage.index()];
    Versions& v = versions[i.stage];
    const auto recount = [&](auto change) {
      const int before = v.extra();
      change();
      now.versions += (v.extra() - before) * stage.weights;
    };
    switch (i.what) {
      case Do::forward:
        now.activations += stage.stash;
        result.peak_in_flight = std::max(result.peak_in_flight, ++in_flight);
        note(k);
        recount([&] { --v.uses_left[i.version]; });
        break;
      case Do::backward:
        note(k);
        recount([&] { --v.uses_left[i.version]; });
        now.activations -= stage.stash;
        --in_flight;
        break;
      case Do::input_gradient:
        note(k);
        recount([&] { --v.uses_left[i.version]; });
        now.activations += stage.weight_stash - stage.stash;
        --in_flight;
        note(k);
        break;
      case Do::weight_gradient:
        note(k);
        now.activations -= stage.weight_stash;
        break;
      default:
        recount([&] { v.newest = i.version; });
        result.peak_versions = std::max(result.peak_versions, 1 + v.extra());
        note(k);
    }
  }
  return result;
}

}  // namespace

std::vector<RankMemory> memory(const Program& program, const std::vector<StageMemory>& stages,
                               bool timeline) {
  std::vector<RankMemory> result;
  for (const auto& rank : program.ranks) result.push_back(of_rank(rank, stages, timeline));
  return result;
}

}  // namespace sluice
