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

// What a member of a group of `ranks` holds of `whole` bytes of a stage's parameters, or of state that has a few values
// for each of them.
Bytes shard_of(Bytes whole, const StageMemory& stage, std::size_t ranks) {
  if (stage.weights == Bytes(0)) return Bytes(0);
  const Bytes shard = shard_elements(stage.weights.value / stage.weight_element.value, ranks) * stage.weight_element;
  const double values = static_cast<double>(whole.value) / static_cast<double>(stage.weights.value);
  return Bytes(std::llround(static_cast<double>(shard.value) * values));
}

class MemoryOfRank {
 public:
  MemoryOfRank(const Program& program, std::size_t rank, const std::vector<StageMemory>& stages, bool timeline)
      : program_(program), instructions_(program.ranks[rank]), stages_(stages), timeline_(timeline) {
    for (const Instruction& i : instructions_) {
      if (i.opcode == Opcode::send_stepped || i.opcode == Opcode::receive_stepped) continue;  // of no stage
      if (program.forward_only && !is_compute(i.opcode)) continue;
      Versions& v = versions_[i.stage];
      if (reads_weights(i.opcode))
        ++(i.prediction >= 0 ? v.prediction_uses_left[i.prediction] : v.uses_left[i.version]);
      if (i.opcode == Opcode::optimizer_step) v.newest = i.version;
    }
    for (auto& [stage, v] : versions_) {
      for (int k = 1; k <= program.retained_versions[stage.index()]; ++k) ++v.uses_left[v.newest - k];
      v.newest = 0;
      const StageMemory& whole = stages[stage.index()];
      for (const InterfaceValue& value : whole.interface.received) ++readers_here_[value.layer];
      const bool weight_gradients_only = program.placement.has_weight_gradient_rank(stage) &&
                                         program.placement.weight_gradient_ranks[stage.index()] == Rank(rank);
      if (!weight_gradients_only) now_.weights += whole.frozen;
      if (program.sharded(stage)) {
        share(stage, whole);
        continue;
      }
      if (program.forward_only) {
        now_.weights += whole.weights;
        now_.buffers += whole.waiting;
        continue;
      }
      now_.gradients += whole.gradients;
      if (weight_gradients_only) weight_gradients_only_.insert(stage);
      if (weight_gradients_only_.contains(stage)) continue;  // only the sum is here
      now_.weights += whole.weights;
      now_.optimizer += whole.optimizer;
    }
    result_.peak = now_;
  }

  RankMemory run() {
    for (std::size_t k = 0; k < instructions_.size(); ++k) {
      run(k);
      if (timeline_ && !result_.timeline.empty()) result_.timeline.back().left = now_.total() + data_;
    }
    result_.peak.host = max_on_host_;
    // The rest of the peak of everything. (Inference has nothing but weights and buffers.)
    if (!program_.forward_only) result_.peak.buffers = std::max(most_ - result_.peak.total(), Bytes(0));
    return std::move(result_);
  }

 private:
  void run(std::size_t k) {
    const Instruction& i = instructions_[k];
    of_op_ = Bytes(0);
    if (program_.forward_only) {
      if (is_compute(i.opcode)) pass(k, i);
      return;
    }
    if (is_compute(i.opcode) || i.opcode == Opcode::optimizer_step) visit(k, i);
    if (i.opcode == Opcode::send_weight_gradient) copy_gradient_sum(i.stage);
    if (is_of_sharded_stage(i.opcode)) gather_or_scatter(k, i);
    if (is_stash_move(i.opcode)) move_stash(k, i);
    if (i.opcode == Opcode::send_stash || i.opcode == Opcode::receive_stash) {
      const StageMemory& stage = memory_of(i);
      if (i.opcode == Opcode::send_stash) {  // with the data feed's samples, which the other rank counts as its own
        now_.activations -= stage.weight_stash;
        data_ -= stage.interface.data_until_weight_gradient;
      } else {
        now_.activations += stage.weight_stash + stage.interface.data_until_weight_gradient;
      }
      note(k);
    }
  }

  // Of the instruction's stage, for what one op of it takes.
  const StageMemory& memory_of(const Instruction& i) const {
    return i.opcode == Opcode::optimizer_step ? stages_[i.stage.index()] : memory_of(i.stage, i.micro);
  }
  const StageMemory& memory_of(StageId id, Micro micro) const {
    const StageMemory& stage = stages_[id.index()];
    if (!stage.of_size.empty()) return stage.of_size[program_.sizes.index_of(micro)];
    return stage.sequence_chunks.empty() ? stage : stage.sequence_chunks[program_.sequence_chunk_of(micro)];
  }

  // A sequence's first backward is of its last chunk: it leaves gradients of the keys and values of all the others.
  void leave_key_value_gradients(const Instruction& i) {
    const std::vector<StageMemory>& chunks = stages_[i.stage.index()].sequence_chunks;
    if (chunks.empty() || program_.sequence_chunk_of(i.micro) + 1 < program_.sequence_chunks) return;
    for (std::size_t c = 0; c + 1 < chunks.size(); ++c) now_.activations += chunks[c].key_value_gradients;
  }
  // Its own backward is the last to add to a chunk's.
  void drop_key_value_gradients(const Instruction& i) {
    if (program_.sequence_chunk_of(i.micro) + 1 < program_.sequence_chunks)
      now_.activations -= memory_of(i).key_value_gradients;
  }

  // What the op has while it runs in addition to what is resident before it: its messages, the data that micro-batches
  // in flight keep, and what it allocates.
  void count_temporaries(const Instruction& i) {
    const StageMemory& stage = memory_of(i);
    const Temporaries& t = stage.temporaries;
    if (!t.any()) return;
    Bytes own, messages;
    for (const InterfaceValue& v : stage.interface.sent)
      if (v.has_gradient) messages += v.bytes;
    switch (i.opcode) {
      case Opcode::forward:
        own = (i.checkpoint ? t.unstashed : t.forward) + stage.input;
        break;
      case Opcode::recompute:
        own = t.forward;
        break;
      case Opcode::backward:
        own = (stage.batched_microbatches > 0 ? t.input_gradient : t.backward) + messages;
        break;
      case Opcode::input_gradient:
        own = t.input_gradient + messages;
        break;
      case Opcode::weight_gradient:
        if (stage.batched_microbatches == 0) own = t.weight_gradient;
        break;
      case Opcode::optimizer_step:
        own = program_.sharded(i.stage) ? shard_of(t.step, stage, members(i.stage)) : t.step;
        break;
      default:
        break;
    }
    allocate(own);
  }
  // What an op has for a while.
  void allocate(Bytes own) {
    of_op_ = std::max(of_op_, now_.total() + data_ + own);
    most_ = std::max(most_, of_op_);
  }
  std::size_t members(StageId stage) const { return program_.placement.stages[stage.index()].size(); }

  // Always on the rank of a sharded stage.
  void share(StageId stage, const StageMemory& whole) {
    const std::size_t ranks = program_.placement.stages[stage.index()].size();
    const auto part = [&](Bytes of) { return shard_of(of, whole, ranks); };
    const auto n = static_cast<std::int64_t>(ranks);
    whole_weights_[stage] = part(whole.weights) * n;
    whole_gradients_[stage] = part(whole.gradients) * n;
    now_.weights += part(whole.weights);
    now_.gradients += part(whole.gradients);
    now_.optimizer += part(whole.optimizer);
    if (always_whole()) {
      now_.weights += part(whole.weights) * (n - 1);
      now_.gathered += part(whole.weights) * (n - 1);
    }
  }
  bool always_whole() const { return program_.sharding.gather == Sharding::Gather::after_step; }

  void gather_or_scatter(std::size_t k, const Instruction& i) {
    if (i.opcode == Opcode::reduce_scatter) {
      run_pending(i.stage);
      if (!filled_.erase(i.stage)) return;
      now_.gradients -= whole_gradients_[i.stage];
      now_.unscattered -= whole_gradients_[i.stage];
    } else if (!always_whole()) {
      const Bytes copy = whole_weights_[i.stage] * (i.opcode == Opcode::gather_weights ? 1 : -1);
      now_.weights += copy;
      now_.gathered += copy;
    }
    note(k);
  }

  void move_stash(std::size_t k, const Instruction& i) {
    Bytes& moved = moved_[{i.stage, i.micro}];
    switch (i.opcode) {
      case Opcode::stash_out:
        moved = memory_of(i).stash - staying_bytes(memory_of(i), i.micro);
        now_.host += moved;
        max_on_host_ = std::max(max_on_host_, now_.host);
        break;
      case Opcode::stash_free:
        now_.activations -= moved;
        break;
      default:
        now_.activations += moved;
    }
    note(k);
  }

  // The I or B has waited for the way back.
  void leave_host(const Instruction& i) {
    const auto moved = moved_.find({i.stage, i.micro});
    if (moved == moved_.end()) return;
    now_.host -= moved->second;
    moved_.erase(moved);
  }

  // A forward makes values that other stages of the rank are still to read, and reads some.
  void read_interface(const StageMemory& stage, Micro micro) {
    for (const InterfaceValue& v : stage.interface.sent) unread_[{v.layer, micro}] = readers_here_[v.layer];
    for (const InterfaceValue& v : stage.interface.received) --unread_[{v.layer, micro}];
  }

  // Of a stash that is to move: what another stage of the rank keeps, too, or is still to read.
  Bytes staying_bytes(const StageMemory& stage, Micro micro) const {
    Bytes bytes;
    for (const auto* values : {&stage.interface.received, &stage.interface.sent})
      for (const InterfaceValue& v : *values) {
        const auto holders = holders_.find({v.layer, micro});
        if (!v.until_input_gradient || holders == holders_.end()) continue;
        const auto readers = unread_.find({v.layer, micro});
        if (holders->second > 1 || (readers != unread_.end() && readers->second > 0)) bytes += v.bytes;
      }
    return bytes;
  }

  // The first gradient since the last reduce-scatter makes the whole vector's.
  void fill_gradients(StageId stage) {
    if (!program_.sharded(stage) || !filled_.insert(stage).second) return;
    now_.gradients += whole_gradients_[stage];
    now_.unscattered += whole_gradients_[stage];
  }

  // A forward of inference, which leaves nothing behind.
  void pass(std::size_t k, const Instruction& i) {
    const Bytes live = stages_[i.stage.index()].live;
    now_.buffers += live;
    note(k);
    now_.buffers -= live;
  }

  void visit(std::size_t k, const Instruction& i) {
    const StageMemory& stage = memory_of(i);
    Versions& v = versions_[i.stage];
    if (i.opcode == Opcode::optimizer_step) run_pending(i.stage);
    count_temporaries(i);
    const bool reads = reads_weights(i.opcode);
    if (i.opcode == Opcode::forward && !i.checkpoint) data_ += stage.interface.data_until_weight_gradient;
    if (i.opcode == Opcode::recompute) data_ += stage.interface.data_until_weight_gradient;
    if (reads && i.prediction >= 0) v.predicted.insert(i.prediction);
    if (i.opcode == Opcode::forward) {
      now_.activations += i.checkpoint ? stage.input : stage.stash;
      if (!i.checkpoint) hold_interface(stage, i.micro);
      if (program_.offloads) read_interface(stage, i.micro);
      result_.peak_in_flight = std::max(result_.peak_in_flight, ++in_flight_);
    }
    if (i.opcode == Opcode::recompute) now_.activations += stage.stash - stage.input;
    if (i.opcode == Opcode::optimizer_step) v.newest = i.version;
    if (makes_weight_gradient(i.opcode)) fill_gradients(i.stage);
    count(v, stage);
    note(k);
    if (reads && i.prediction >= 0) {
      if (--v.prediction_uses_left[i.prediction] == 0) v.predicted.erase(i.prediction);
    } else if (reads && --v.uses_left[i.version] == 0) {
      v.uses_left.erase(i.version);
    }
    if (program_.offloads && reads_stash(i.opcode)) leave_host(i);
    switch (i.opcode) {
      case Opcode::backward:
      case Opcode::input_gradient: {
        // W is an op of its own, or waits for the product of a batch.
        const bool is_whole = i.opcode == Opcode::backward, later = !is_whole || stage.batched_microbatches > 0;
        --in_flight_;
        if (is_whole) data_ -= stage.interface.data_until_weight_gradient;
        now_.activations += (later ? stage.weight_stash : Bytes(0)) - stage.stash;
        leave_key_value_gradients(i);
        drop_key_value_gradients(i);
        release_interface(stage, i.micro, true, !later);
        if (is_whole && later) pending_[i.stage].push_back(i.micro);
        if (later || program_.sequence_chunks > 1) note(k);  // what is left may be more than the stash was
        break;
      }
      case Opcode::weight_gradient:
        if (!weight_gradients_only_.contains(i.stage)) data_ -= stage.interface.data_until_weight_gradient;
        if (stage.batched_microbatches > 0) {
          pending_[i.stage].push_back(i.micro);
          if (!next_is_weight_gradient(k)) run_pending(i.stage);
          break;
        }
        now_.activations -= stage.weight_stash;
        if (weight_gradients_only_.contains(i.stage)) now_.activations -= stage.interface.data_until_weight_gradient;
        release_interface(stage, i.micro, false, true);
        break;
      default:
        break;
    }
  }

  // What is sent is a copy, because the sum goes on with the next update.
  void copy_gradient_sum(StageId id) {
    run_pending(id);
    const StageMemory& stage = stages_[id.index()];
    if (stage.temporaries.any()) allocate(stage.gradients);
  }

  // Batched weight gradients: the product of all micro-batches that wait, whose stashes go with it.
  void run_pending(StageId id) {
    const auto found = pending_.find(id);
    if (found == pending_.end() || found->second.empty()) return;
    const StageMemory& whole = stages_[id.index()];
    std::vector<Micro>& microbatches = found->second;
    const double part =
        static_cast<double>(microbatches.size()) / (whole.batched_microbatches * program_.sequence_chunks);
    const auto own = static_cast<double>(whole.temporaries.weight_gradient.value) * part;
    allocate(Bytes(std::llround(own)));
    for (const Micro micro : microbatches) {
      const StageMemory& stage = memory_of(id, micro);
      now_.activations -= stage.weight_stash;
      if (weight_gradients_only_.contains(id)) now_.activations -= stage.interface.data_until_weight_gradient;
      release_interface(stage, micro, false, true);
    }
    microbatches.clear();
  }

  // Whether the rank's next compute op is a weight gradient of the same stage, so that the batch goes on.
  bool next_is_weight_gradient(std::size_t k) const {
    const StageId stage = instructions_[k].stage;
    const auto next = std::find_if(instructions_.begin() + static_cast<std::ptrdiff_t>(k) + 1, instructions_.end(),
                                   [](const Instruction& i) { return is_compute(i.opcode); });
    return next != instructions_.end() && next->opcode == Opcode::weight_gradient && next->stage == stage;
  }

  // A value made on this rank that several of its stages hold takes its bytes once.
  void hold_interface(const StageMemory& stage, Micro micro) {
    for (const InterfaceValue& v : stage.interface.sent) holders_[{v.layer, micro}] = v.until_input_gradient ? 1 : 0;
    for (const InterfaceValue& v : stage.interface.received) {
      const auto found = holders_.find({v.layer, micro});
      if (found == holders_.end() || !v.until_input_gradient) continue;
      if (++found->second > 1) now_.activations -= v.bytes;
    }
  }
  // The end of I (`first`), of W (`second`), or of B (both).
  void release_interface(const StageMemory& stage, Micro micro, bool first, bool second) {
    for (const auto* values : {&stage.interface.received, &stage.interface.sent})
      for (const InterfaceValue& v : *values) {
        const bool released = first && second ? v.until_input_gradient
                              : first         ? v.until_input_gradient && !v.until_weight_gradient
                                              : v.until_input_gradient && v.until_weight_gradient;
        const auto found = holders_.find({v.layer, micro});
        if (!released || found == holders_.end() || found->second == 0) continue;
        if (--found->second > 0) now_.activations += v.bytes;
        if (found->second == 0) holders_.erase(found);
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
    now_.everything = std::max(of_op_, now_.total() + data_);
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
  std::set<StageId> weight_gradients_only_;                   // stages whose W only run here
  // (layer, micro-batch) -> stages that keep that output; only of layers that run here.
  std::map<std::pair<int, Micro>, int> holders_;
  std::map<int, int> readers_here_;                   // layer -> stages of the rank that receive its output
  std::map<std::pair<int, Micro>, int> unread_;       // of these, those that have not run their forward
  std::map<std::pair<StageId, Micro>, Bytes> moved_;  // of stashes with a copy on the host
  Bytes max_on_host_;
  std::map<StageId, std::vector<Micro>> pending_;  // micro-batches whose batched weight gradient is still to come
  MemoryPoint now_{};
  Bytes data_{0};   // of the data feed, kept by micro-batches in flight
  Bytes most_{0};   // of everything, so far
  Bytes of_op_{0};  // of everything while the op at hand runs; 0: not measured
  RankMemory result_;
  int in_flight_ = 0;
};

}  // namespace

std::vector<RankMemory> memory(const Program& program, const std::vector<StageMemory>& stages, bool timeline) {
  std::vector<RankMemory> result;
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    result.push_back(MemoryOfRank(program, r, stages, timeline).run());
  return result;
}

}  // namespace sluice
