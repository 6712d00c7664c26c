#include "harness/sim/memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace sluice {

namespace {

// The weight tensors of one stage that some later instruction of the program still reads.
struct Versions {
  std::map<std::int32_t, int> uses_left;  // of versions; an entry goes when nothing is left
  std::map<std::int32_t, int> prediction_uses_left;
  std::set<std::int32_t> predicted;  // made and still read
  std::int32_t newest = 0;
  int most = 0;  // extra() so far
  // Besides the newest: old versions that must stay, and predictions.
  int extra() const {
    int n = static_cast<int>(predicted.size());
    for (const auto& [version, uses] : uses_left) {
      if (version >= newest) break;
      ++n;
    }
    return n;
  }
};

// What a member of a group of `ranks` holds of `whole` bytes of a stage's 4-byte parameters, or of
// state that has a few values for each of them.
Bytes shard_of(Bytes whole, Bytes weights, std::size_t ranks) {
  if (weights == Bytes(0)) return Bytes(0);
  const Bytes shard(4 * shard_elements(weights.value / 4, ranks));
  const double values = static_cast<double>(whole.value) / static_cast<double>(weights.value);
  return Bytes(std::llround(static_cast<double>(shard.value) * values));
}

class OfRank {
 public:
  OfRank(const Program& program, std::size_t rank, const std::vector<StageMemory>& stages,
         bool timeline)
      : program_(program),
        instructions_(program.ranks[rank]),
        stages_(stages),
        timeline_(timeline) {
    for (const Instruction& i : instructions_) {
      Versions& v = versions_[i.stage];
      if (reads_weights(i.what))
        ++(i.prediction >= 0 ? v.prediction_uses_left[i.prediction] : v.uses_left[i.version]);
      if (i.what == Do::optimizer_step) v.newest = i.version;
    }
    for (auto& [stage, v] : versions_) {
      for (int k = 1; k <= program.carried[stage.index()]; ++k) ++v.uses_left[v.newest - k];
      v.newest = 0;
      const StageMemory& whole = stages[stage.index()];
      if (program.sharded(stage)) {
        share(stage, whole);
        continue;
      }
      now_.weights += whole.weights;
      now_.gradients += whole.gradients;
      now_.optimizer += whole.optimizer;
    }
    result_.peak = now_;
  }

  RankMemory run() {
    for (std::size_t k = 0; k < instructions_.size(); ++k) {
      const Instruction& i = instructions_[k];
      if (is_compute(i.what) || i.what == Do::optimizer_step)
        visit(k, i);
      else if (i.what >= Do::gather_weights)
        gather_or_scatter(k, i);
    }
    return std::move(result_);
  }

 private:
  // Always on the rank of a sharded stage.
  void share(StageId stage, const StageMemory& whole) {
    const std::size_t ranks = program_.placement.stages[stage.index()].size();
    const auto part = [&](Bytes of) { return shard_of(of, whole.weights, ranks); };
    const auto n = static_cast<std::int64_t>(ranks);
    whole_weights_[stage] = part(whole.weights) * n;
    whole_gradients_[stage] = part(whole.gradients) * n;
    now_.weights += part(whole.weights);
    now_.gradients += part(whole.gradients);
    now_.optimizer += part(whole.optimizer);
    if (kept()) {
      now_.weights += part(whole.weights) * (n - 1);
      now_.gathered += part(whole.weights) * (n - 1);
    }
  }
  bool kept() const { return program_.sharding.gather == Sharding::Gather::after_step; }

  void gather_or_scatter(std::size_t k, const Instruction& i) {
    if (i.what == Do::reduce_scatter) {
      if (!filled_.erase(i.stage)) return;
      now_.gradients -= whole_gradients_[i.stage];
      now_.unscattered -= whole_gradients_[i.stage];
    } else if (!kept()) {
      const Bytes copy = whole_weights_[i.stage] * (i.what == Do::gather_weights ? 1 : -1);
      now_.weights += copy;
      now_.gathered += copy;
    }
    note(k);
  }

  // The first gradient since the last reduce-scatter makes the whole vector's.
  void fill_gradients(StageId stage) {
    if (!program_.sharded(stage) || !filled_.insert(stage).second) return;
    now_.gradients += whole_gradients_[stage];
    now_.unscattered += whole_gradients_[stage];
  }

  void visit(std::size_t k, const Instruction& i) {
    const StageMemory& stage = stages_[i.stage.index()];
    Versions& v = versions_[i.stage];
    const bool reads = reads_weights(i.what);
    if (reads && i.prediction >= 0) v.predicted.insert(i.prediction);
    if (i.what == Do::forward) {
      now_.activations += i.checkpoint ? stage.input : stage.stash;
      result_.peak_in_flight = std::max(result_.peak_in_flight, ++in_flight_);
    }
    if (i.what == Do::recompute) now_.activations += stage.stash - stage.input;
    if (i.what == Do::optimizer_step) v.newest = i.version;
    if (i.what == Do::backward || i.what == Do::weight_gradient) fill_gradients(i.stage);
    count(v, stage);
    note(k);
    if (reads && i.prediction >= 0) {
      if (--v.prediction_uses_left[i.prediction] == 0) v.predicted.erase(i.prediction);
    } else if (reads && --v.uses_left[i.version] == 0) {
      v.uses_left.erase(i.version);
    }
    switch (i.what) {
      case Do::backward:
        now_.activations -= stage.stash;
        --in_flight_;
        break;
      case Do::input_gradient:
        now_.activations += stage.weight_stash - stage.stash;
        --in_flight_;
        note(k);
        break;
      case Do::weight_gradient:
        now_.activations -= stage.weight_stash;
        break;
      default:
        break;
    }
  }

  void count(Versions& v, const StageMemory& stage) {
    const int extra = v.extra();
    result_.peak_versions = std::max(result_.peak_versions, 1 + extra);
    if (extra <= v.most) return;
    now_.versions += (extra - v.most) * stage.weights;
    v.most = extra;
  }

  void note(std::size_t k) {
    now_.instruction = k;
    if (now_.total() > result_.peak.total()) result_.peak = now_;
    if (timeline_) result_.timeline.push_back(now_);
  }

  const Program& program_;
  const std::vector<Instruction>& instructions_;
  const std::vector<StageMemory>& stages_;
  const bool timeline_;
  std::map<StageId, Versions> versions_;
  std::map<StageId, Bytes> whole_weights_, whole_gradients_;  // of sharded stages
  std::set<StageId> filled_;                                  // whose whole gradients exist
  MemoryPoint now_{};
  RankMemory result_;
  int in_flight_ = 0;
};

}  // namespace

std::vector<RankMemory> memory(const Program& program, const std::vector<StageMemory>& stages,
                               bool timeline) {
  std::vector<RankMemory> result;
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    result.push_back(OfRank(program, r, stages, timeline).run());
  return result;
}

}  // namespace sluice
