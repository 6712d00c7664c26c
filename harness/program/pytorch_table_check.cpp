#include "harness/program/pytorch_table_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace sluice {

namespace {

using Cells = std::vector<std::vector<TableCell>>;

std::string text_of(const TableCell& cell) {
  if (!cell.ops.empty()) return to_text(cell.ops.front());
  const bool of_message = cell.is_message() || cell.is_wait();
  return std::to_string(cell.stage.value) + cell.action + (of_message ? std::to_string(cell.micro.value) : "");
}

class CellCheck {
 public:
  CellCheck(const Cells& cells, const OrderFromTable& table) : cells_(cells), table_(table) {}

  std::vector<Violation> faults() {
    if (table_.communication) {
      check_messages();
      if (faults_.empty()) check_waits();
      if (faults_.empty()) check_order_of_pairs();
      if (faults_.empty()) check_progress();
    }
    check_stages();
    return std::move(faults_);
  }

 private:
  void fault(Violation::Kind kind, std::size_t rank, const std::string& text) {
    faults_.push_back({kind, on_rank(rank) + text});
  }

  Rank home(std::int64_t stage) const { return table_.placement.stages[static_cast<std::size_t>(stage)].front(); }

  // Every message across ranks is sent once after the op that makes it, and received once before the op that needs it.
  void check_messages() {
    const std::size_t stages = table_.graph.size();
    for (std::size_t r = 0; r < cells_.size(); ++r) {
      std::map<std::string, std::size_t> at;  // of a message's text: its cell
      for (std::size_t c = 0; c < cells_[r].size(); ++c) {
        if (!cells_[r][c].is_message()) continue;
        const std::string text = text_of(cells_[r][c]);
        if (!at.emplace(text, c).second) fault(Violation::Kind::duplicate_op, r, text + " is there twice");
      }
      for (std::size_t c = 0; c < cells_[r].size(); ++c)
        for (const Op& op : cells_[r][c].ops) {
          const bool forward = op.kind == OpKind::forward;
          if (op.kind == OpKind::weight_gradient) continue;
          const std::size_t s = op.stage.index();
          const bool has_source = forward ? s > 0 : s + 1 < stages, has_sink = forward ? s + 1 < stages : s > 0;
          const std::size_t before = s > 0 ? s - 1 : s;  // read only where there is one
          const std::size_t source = forward ? before : s + 1, sink = forward ? s + 1 : before;
          const std::string direction = forward ? "F" : "B", micro = std::to_string(op.micro.value);
          const auto expect = [&](const std::string& kind, bool earlier) {
            const std::string text = std::to_string(s) + kind + direction + micro;
            const auto found = at.find(text);
            if (found == at.end()) {
              fault(Violation::Kind::missing_op, r, text + " is missing");
              return;
            }
            if (earlier ? found->second > c : found->second < c)
              fault(Violation::Kind::wrong_order, r, text + " comes " + (earlier ? "after " : "before ") + to_text(op));
            at.erase(found);
          };
          if (has_source && table_.placement.stages[source].front() != Rank(r)) expect("RECV_", true);
          if (has_sink && table_.placement.stages[sink].front() != Rank(r)) expect("SEND_", false);
        }
      for (const auto& [text, c] : at)
        fault(Violation::Kind::wrong_rank, r, text + " belongs to no op of this rank that needs it");
    }
  }

  void check_waits() {
    for (std::size_t r = 0; r < cells_.size(); ++r) {
      std::set<std::string> pending;  // sends, by the text of their wait
      for (const TableCell& cell : cells_[r]) {
        if (cell.action.starts_with("SEND_")) {
          TableCell wait = cell;
          wait.action = "WAIT_" + cell.action;
          pending.insert(text_of(wait));
        } else if (cell.is_wait() && pending.erase(text_of(cell)) == 0) {
          fault(Violation::Kind::wrong_order, r, text_of(cell) + " waits for no send before it");
        }
      }
      for (const std::string& wait : pending)
        fault(Violation::Kind::missing_op, r, wait + " is missing: PyTorch wants a wait after every send");
    }
  }

  // The rank at the other end of a message, and the receive that belongs to a send.
  Rank peer(const TableCell& cell) const { return home(cell.stage.value + to_other(cell)); }
  static int to_other(const TableCell& cell) { return cell.action == "SEND_F" || cell.action == "RECV_B" ? 1 : -1; }
  static std::string receive_of(const TableCell& send) {
    return std::to_string(send.stage.value + to_other(send)) + "RECV_" + send.action.back() +
           std::to_string(send.micro.value);
  }

  void check_order_of_pairs() {
    std::map<std::pair<Rank, Rank>, std::vector<std::string>> sent, received;  // from, to: texts of receives
    for (std::size_t r = 0; r < cells_.size(); ++r)
      for (const TableCell& cell : cells_[r]) {
        if (!cell.is_message()) continue;
        if (cell.action.starts_with("SEND_"))
          sent[{Rank(r), peer(cell)}].push_back(receive_of(cell));
        else
          received[{peer(cell), Rank(r)}].push_back(text_of(cell));
      }
    for (const auto& [ranks, receives] : received) {
      const std::vector<std::string>& sends = sent[ranks];
      const auto [s, r] = std::ranges::mismatch(sends, receives);
      if (s == sends.end() || r == receives.end()) continue;
      fault(Violation::Kind::wrong_order, ranks.second.index(),
            *r + " would receive what is sent for " + *s + ": rank " + std::to_string(ranks.first.value) +
                " sends it first, and messages between two ranks match by their order");
    }
  }

  // Runs the table: sends and receives are posted, computing and WAIT_SEND wait for the other end.
  void check_progress() {
    std::set<std::string> posted;  // receives and, as the receives that they are for, sends with "sent "
    std::vector<std::size_t> at(cells_.size(), 0);
    const auto runs = [&](std::size_t r, const TableCell& cell) {
      if (cell.is_wait()) {
        TableCell send = cell;
        send.action = cell.action.substr(std::string("WAIT_").size());
        return posted.contains(receive_of(send));
      }
      return std::ranges::all_of(cell.ops, [&](const Op& op) {
        if (op.kind == OpKind::weight_gradient) return true;
        const bool forward = op.kind == OpKind::forward;
        const std::int64_t source = op.stage.value + (forward ? -1 : 1);
        if (source < 0 || source >= std::ssize(table_.placement.stages) || home(source) == Rank(r)) return true;
        return posted.contains("sent " + std::to_string(op.stage.value) + "RECV_" + (forward ? "F" : "B") +
                               std::to_string(op.micro.value));
      });
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < cells_.size(); ++r)
        for (; at[r] < cells_[r].size() && runs(r, cells_[r][at[r]]); ++at[r], moved = true) {
          const TableCell& cell = cells_[r][at[r]];
          if (cell.action.starts_with("SEND_")) posted.insert("sent " + receive_of(cell));
          if (cell.action.starts_with("RECV_")) posted.insert(text_of(cell));
        }
    }
    std::string waiting;
    for (std::size_t r = 0; r < cells_.size(); ++r)
      if (at[r] < cells_[r].size()) waiting += (waiting.empty() ? "" : ", ") + on_rank(r) + text_of(cells_[r][at[r]]);
    if (!waiting.empty())
      faults_.push_back({Violation::Kind::deadlock, "ranks wait for each other for ever (" + waiting + ")"});
  }

  // Sharded weights and reductions of gradients.
  void check_stages() {
    bool sharded = false;
    for (const auto& row : cells_)
      for (const TableCell& cell : row) sharded = sharded || cell.action == "UNSHARD";
    for (std::size_t r = 0; r < cells_.size(); ++r) check_stages_of(r, sharded);
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
      if (cell.action.empty() || cell.is_message() || cell.is_wait()) continue;
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
        if (table_.communication && pending)
          fault(wrong_order, r, text_of(cell) + " begins before " + std::to_string(*pending) + "WAIT_REDUCE_GRAD");
        pending = stage;
        reduced.insert(stage);
        unsharded.erase(stage);
      } else {
        if (pending != stage) fault(wrong_order, r, text_of(cell) + " waits for no reduction");
        pending.reset();
      }
    }
    if (table_.communication && pending) fault(missing_op, r, std::to_string(*pending) + "WAIT_REDUCE_GRAD is missing");
    if (sharded)
      for (const auto& [stage, cell] : last)
        if (!reduced.contains(stage)) fault(missing_op, r, std::to_string(stage) + "REDUCE_GRAD is missing");
  }

  const Cells& cells_;
  const OrderFromTable& table_;
  std::vector<Violation> faults_;
};

}  // namespace

std::vector<Violation> faults_of_cells(const Cells& cells, const OrderFromTable& table) {
  return CellCheck(cells, table).faults();
}

}  // namespace sluice
