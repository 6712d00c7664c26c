#include "harness/program/pytorch_table_check.h"

#include <map>
#include <optional>
#include <set>

namespace sluice {

namespace {

using Cells = std::vector<std::vector<TableCell>>;

std::string text_of(const TableCell& cell) {
  return cell.ops.empty() ? std::to_string(cell.stage.value) + cell.action : to_text(cell.ops.front());
}

class StageCheck {
 public:
  StageCheck(const Cells& cells, bool communication) : cells_(cells), communication_(communication) {}

  std::vector<Violation> faults() {
    bool sharded = false;
    for (const auto& row : cells_)
      for (const TableCell& cell : row) sharded = sharded || cell.action == "UNSHARD";
    for (std::size_t r = 0; r < cells_.size(); ++r) check_stages_of(r, sharded);
    return std::move(faults_);
  }

 private:
  void fault(Violation::Kind kind, std::size_t rank, const std::string& text) {
    faults_.push_back({kind, on_rank(rank) + text});
  }

  void check_stages_of(std::size_t r, bool sharded) {
    using enum Violation::Kind;
    std::map<int, std::size_t> last;                 // stage -> cell of its last backward
    std::set<int> unsharded, reduced, on_this_rank;  // stages
    std::optional<int> pending;                      // stage whose reduction has begun
    const std::vector<TableCell>& row = cells_[r];
    for (std::size_t c = 0; c < row.size(); ++c)
      for (const Op& op : row[c].ops) {
        on_this_rank.insert(op.stage.value);
        if (op.kind != OpKind::forward) last[op.stage.value] = c;
      }
    for (std::size_t c = 0; c < row.size(); ++c) {
      const TableCell& cell = row[c];
      if (sharded)
        for (const Op& op : cell.ops)
          if (!unsharded.contains(op.stage.value))
            fault(wrong_order, r, to_text(op) + " runs while the weights of its stage are sharded");
      if (cell.kind != TableCell::Kind::of_stage) continue;
      const int stage = cell.stage.value;
      if (!on_this_rank.contains(stage)) {
        fault(wrong_rank, r, text_of(cell) + ": the stage is on another rank");
      } else if (cell.action == "UNSHARD") {
        if (!unsharded.insert(stage).second) fault(duplicate_op, r, text_of(cell) + ": the weights are there already");
      } else if (cell.action == "RESHARD") {
        if (unsharded.erase(stage) == 0 && !reduced.contains(stage))
          fault(wrong_order, r, text_of(cell) + ": the weights are sharded already");
      } else if (cell.action == "REDUCE_GRAD") {
        if (last.contains(stage) && last.at(stage) > c)
          fault(wrong_order, r, text_of(cell) + " comes before " + text_of(row[last.at(stage)]));
        if (communication_ && pending)
          fault(wrong_order, r, text_of(cell) + " begins before " + std::to_string(*pending) + "WAIT_REDUCE_GRAD");
        pending = stage;
        reduced.insert(stage);
        unsharded.erase(stage);
      } else {
        if (pending != stage) fault(wrong_order, r, text_of(cell) + " waits for no reduction");
        pending.reset();
      }
    }
    if (communication_ && pending) fault(missing_op, r, std::to_string(*pending) + "WAIT_REDUCE_GRAD is missing");
    if (sharded)
      for (const auto& [stage, cell] : last)
        if (!reduced.contains(stage)) fault(missing_op, r, std::to_string(stage) + "REDUCE_GRAD is missing");
  }

  const Cells& cells_;
  const bool communication_;
  std::vector<Violation> faults_;
};

}  // namespace

std::vector<Violation> faults_of_stages(const Cells& cells, bool communication) {
  return StageCheck(cells, communication).faults();
}

}  // namespace sluice
