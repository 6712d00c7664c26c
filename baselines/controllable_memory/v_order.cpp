#include "baselines/controllable_memory/v_order.h"

#include <algorithm>

#include "harness/base/index.h"

namespace sluice {

namespace {

bool goes_down(Pass pass) { return pass == Pass::forward_down || pass == Pass::backward_down; }

}  // namespace

// A rank's slots while its ops move: who is in each, and what the rank holds before it. Weight gradients that have no
// slot yet take every free slot in which one waits.
class VOrder::Line {
 public:
  explicit Line(std::vector<Occupant> slots, bool weight_gradients_placed)
      : slots_(std::move(slots)), placed_(weight_gradients_placed), before_(slots_.size() + 1) {
    for (int t = 0; t < count_of(slots_); ++t) before_[t + 1] = after(before_[t], t);
  }

  bool free(int slot) const { return slots_[slot] == Occupant::none; }

  // Moves an op to an earlier free slot, unless the rank would then hold more than `most`; whether it did. No more than
  // `most` are held before the move, so that only the slots in which something changes are looked at.
  bool move(int from, int to, int most) {
    std::swap(slots_[from], slots_[to]);
    changed_.clear();
    Held held = before_[to];
    for (int t = to; t < count_of(slots_); ++t) {
      held = after(held, t);
      if (held.activations > most) {
        std::swap(slots_[from], slots_[to]);
        return false;
      }
      if (t >= from && held == before_[t + 1]) break;
      changed_.push_back(held);
    }
    std::copy(changed_.begin(), changed_.end(), before_.begin() + to + 1);
    return true;
  }

  int peak() const {
    return std::max_element(before_.begin(), before_.end(),
                            [](const Held& a, const Held& b) { return a.activations < b.activations; })
        ->activations;
  }

 private:
  struct Held {
    int activations = 0, waiting = 0;  // weight gradients that wait
    friend bool operator==(const Held&, const Held&) = default;
  };

  Held after(Held held, int slot) const {
    switch (slots_[slot]) {
      case Occupant::forward:
        ++held.activations;
        break;
      case Occupant::input_gradient:
        ++held.waiting;
        break;
      case Occupant::weight_gradient:
        --held.activations;
        break;
      case Occupant::none:
        if (!placed_ && held.waiting > 0) --held.activations, --held.waiting;
    }
    return held;
  }

  std::vector<Occupant> slots_;
  bool placed_;
  std::vector<Held> before_;  // [slot]: what the rank holds when the slot begins
  std::vector<Held> changed_;
};

VOrder::VOrder(const BuildingBlock& block, int microbatches) : p_(count_of(block)), m_(microbatches) {
  for (const auto& of_rank : block) {
    auto& slots = slots_.emplace_back();
    for (const Pass pass : kPasses)
      for (int i = 0; i < m_; ++i) slots[index_of(pass)].push_back(of_rank[index_of(pass)] + kBlockInterval * i);
  }
}

int VOrder::stage_of(int rank, Pass pass) const {
  return pass == Pass::forward_down || pass == Pass::backward_up ? rank : 2 * p_ - 1 - rank;
}

// Who is in each slot of a rank.
std::vector<VOrder::Occupant> VOrder::occupants(int rank) const {
  int last = 0;
  for (const auto& of_pass : slots_[rank])
    if (m_ > 0) last = std::max(last, of_pass.back());
  if (!weight_gradient_slots_.empty()) last = std::max(last, weight_gradient_slots_[rank].back());
  std::vector<Occupant> at(last + 1, Occupant::none);
  for (const Pass pass : kPasses)
    for (const int slot : slots_[rank][index_of(pass)])
      at[slot] = index_of(pass) < 2 ? Occupant::forward : Occupant::input_gradient;
  if (!weight_gradient_slots_.empty())
    for (const int slot : weight_gradient_slots_[rank]) at[slot] = Occupant::weight_gradient;
  return at;
}

std::vector<int> VOrder::free_slots_for_weight_gradients(int rank) const {
  std::vector<int> taken;
  int waiting = 0, slot = 0;
  for (const Occupant occupant : occupants(rank)) {
    if (occupant == Occupant::input_gradient) ++waiting;
    if (occupant == Occupant::none && waiting > 0) --waiting, taken.push_back(slot);
    ++slot;
  }
  while (waiting-- > 0) taken.push_back(slot++);
  return taken;
}

void VOrder::place_weight_gradients() {
  std::vector<std::vector<int>> placed;
  for (int r = 0; r < p_; ++r) placed.push_back(free_slots_for_weight_gradients(r));
  weight_gradient_slots_ = std::move(placed);
}

int VOrder::peak() const {
  int most = 0;
  for (int r = 0; r < p_; ++r) most = std::max(most, Line(occupants(r), !weight_gradient_slots_.empty()).peak());
  return most;
}

std::vector<VOrder::Event> VOrder::events() const {
  std::vector<Event> all;
  for (int r = 0; r < p_; ++r) {
    for (int kind = 0; kind < kWeightGradient; ++kind)
      for (int i = 0; i < m_; ++i) all.push_back({slots_[r][kind][i], r, kind, i});
    if (weight_gradient_slots_.empty()) continue;
    for (int i = 0; i < 2 * m_; ++i) all.push_back({weight_gradient_slots_[r][i], r, kWeightGradient, i});
  }
  std::sort(all.begin(), all.end());
  return all;
}

// The first slot in which the inputs of one of the four passes are there: from the neighbouring rank, or, where the
// micro-batch turns, from the pass before on the same rank.
int VOrder::inputs_there(int rank, int kind, int micro) const {
  const int neighbour = goes_down(static_cast<Pass>(kind)) ? rank - 1 : rank + 1;
  int slot = kind == 0 ? 0 : slots_[rank][kind - 1][micro] + 1;
  if (neighbour >= 0 && neighbour < p_) slot = std::max(slot, slots_[neighbour][kind][micro] + 1);
  return slot;
}

// The first slot that an op may move to: after its inputs, and after the same op of the micro-batch before.
int VOrder::earliest(const Event& event) const {
  const auto& slots = slots_[event.rank];
  if (event.kind < kWeightGradient) {
    const int inputs = inputs_there(event.rank, event.kind, event.micro);
    return event.micro == 0 ? inputs : std::max(inputs, slots[event.kind][event.micro - 1] + 1);
  }
  // The n-th weight gradient of a rank comes after its n-th input gradient, whatever their stages.
  std::size_t down = 0, up = 0;
  int input_gradient = 0;
  for (int n = 0; n <= event.micro; ++n) {
    const bool take_down = up == slots[3].size() || (down < slots[2].size() && slots[2][down] < slots[3][up]);
    input_gradient = take_down ? slots[2][down++] : slots[3][up++];
  }
  const int before = event.micro == 0 ? -1 : weight_gradient_slots_[event.rank][event.micro - 1];
  return 1 + std::max(input_gradient, before);
}

// One pass over all ops in the order of their slots before any moved. Up to the first backward on stage 0 is the
// warm-up, which packs together with its weight gradients; after the last forward of stage 0 is the end, which packs
// both with and without them; what is between stays.
void VOrder::pack(bool with_weight_gradients, std::optional<int> most) {
  if (with_weight_gradients) place_weight_gradients();
  const int allowed = std::max(peak(), most.value_or(0));
  std::vector<Line> lines;
  for (int r = 0; r < p_; ++r) lines.emplace_back(occupants(r), with_weight_gradients);
  enum { warm_up, steady, end } phase = warm_up;
  for (const Event& event : events()) {
    if (phase == warm_up && event.rank == 0 && event.kind == index_of(Pass::backward_up)) phase = steady;
    if (phase == steady) {
      if (event.kind == index_of(Pass::forward_down) && event.micro == m_ - 1) phase = end;
      continue;
    }
    if (phase == warm_up && !with_weight_gradients) continue;
    int& slot = event.kind == kWeightGradient ? weight_gradient_slots_[event.rank][event.micro]
                                              : slots_[event.rank][event.kind][event.micro];
    Line& line = lines[event.rank];
    for (int to = earliest(event); to < event.slot; ++to)
      if (line.free(to) && line.move(event.slot, to, allowed)) {
        slot = to;
        break;
      }
  }
  if (!with_weight_gradients) place_weight_gradients();
  squeeze();
  weight_gradient_slots_.clear();
}

// Every op as early as its inputs and its rank's order allow.
void VOrder::squeeze() {
  std::vector<int> free_from(p_, 0);
  for (const Event& event : events()) {
    const bool weight_gradient = event.kind == kWeightGradient;
    const int start =
        std::max(free_from[event.rank], weight_gradient ? 0 : inputs_there(event.rank, event.kind, event.micro));
    (weight_gradient ? weight_gradient_slots_[event.rank] : slots_[event.rank][event.kind])[event.micro] = start;
    free_from[event.rank] = start + 1;
  }
}

void VOrder::improve(std::optional<int> most) {
  pack(true, most);
  pack(false, most);
}

std::vector<std::vector<Op>> VOrder::ops() const {
  std::vector<std::vector<Op>> all(p_);
  for (int r = 0; r < p_; ++r) {
    std::vector<std::pair<int, Op>> at;  // slot and op
    for (const Pass pass : kPasses)
      for (int i = 0; i < m_; ++i) {
        const int stage = stage_of(r, pass);
        at.emplace_back(slots_[r][index_of(pass)][i],
                        index_of(pass) < 2 ? forward_op(stage, i) : input_gradient_op(stage, i));
      }
    std::sort(at.begin(), at.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const int first_stage = stage_of(r, Pass::backward_down), second_stage = stage_of(r, Pass::backward_up);
    int waiting[2] = {0, 0}, done[2] = {0, 0};
    const auto weight_gradient = [&] {
      const int of = waiting[0] > 0 ? 0 : 1;
      --waiting[of];
      all[r].push_back(weight_gradient_op(of == 0 ? first_stage : second_stage, done[of]++));
    };
    int slot = 0;
    for (const auto& [own_slot, op] : at) {
      for (; slot < own_slot; ++slot)
        if (waiting[0] + waiting[1] > 0) weight_gradient();
      all[r].push_back(op);
      slot = own_slot + 1;
      if (op.kind == OpKind::input_gradient) ++waiting[op.stage.value == first_stage ? 0 : 1];
    }
    while (waiting[0] + waiting[1] > 0) weight_gradient();
  }
  return all;
}

}  // namespace sluice
