#include "harness/program/pytorch_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json_reader.h"
#include "harness/base/visible_text.h"
#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/message_order.h"
#include "harness/program/pytorch_table_check.h"

namespace sluice {

namespace {

constexpr std::string_view kPair = "OVERLAP_F_B";

std::string rank_list(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i].value);
  return text;
}

void reject_what_pytorch_cannot_run(const Schedule& schedule, const Program& program, const std::string& where) {
  const auto reject = [&](const std::string& what) {
    throw InputError(
        where, what,
        "choose a system whose schedule PyTorch can run: 1f1b, interleaved_1f1b, zero_bubble, gpipe, hanayo, ...");
  };
  const StageGraph& graph = program.graph;
  if (!program.rule.synchronous())
    reject("updates without a flush: PyTorch would run its order as a synchronous schedule, with another result");
  if (std::ranges::all_of(schedule.ranks, [](const std::vector<Op>& ops) {
        return std::ranges::all_of(ops, [](const Op& op) { return op.kind == OpKind::forward; });
      }))
    reject("runs forward only: PyTorch's schedules train");
  if (program.sequence_chunks > 1) reject("cuts sequences into chunks: PyTorch's ops are of whole micro-batches");
  for (std::size_t s = 0; s < graph.size(); ++s) {
    const std::string stage = "stage " + std::to_string(s);
    const std::vector<Rank>& ranks = program.placement.stages[s];
    if (ranks.size() > 1) reject(stage + " is on ranks " + rank_list(ranks) + ": PyTorch gives a stage one rank");
    if (program.placement.has_weight_gradient_rank(StageId(s)))
      reject("the weight gradients of " + stage + " are made on another rank: PyTorch makes them on the stage's own");
    if (graph.microbatches_per_op_of(StageId(s)) > 1)
      reject(stage + " takes " + std::to_string(graph.microbatches_per_op_of(StageId(s))) +
             " micro-batches at once: PyTorch takes one at a time");
    const bool chained = graph.successors[s].empty() ? s + 1 == graph.size()
                                                     : graph.successors[s] == std::vector<StageId>{StageId(s + 1)};
    if (!chained) reject("its stages are no chain: PyTorch sends from a stage to the next only");
  }
}

// The messages that communication cells name.
constexpr std::array<std::pair<std::string_view, Opcode>, 4> kMessages = {{{"SEND_F", Opcode::send_activation},
                                                                           {"RECV_F", Opcode::receive_activation},
                                                                           {"SEND_B", Opcode::send_gradient},
                                                                           {"RECV_B", Opcode::receive_gradient}}};

// "0SEND_F1", "5I2".
std::string cell_text(const Instruction& i) {
  for (const auto& [kind, opcode] : kMessages)
    if (i.opcode == opcode) return std::to_string(i.stage.value) + std::string(kind) + std::to_string(i.micro.value);
  return to_text(i);
}

std::string row_of(const std::vector<Op>& ops) {
  std::string row;
  for (const std::string& step : step_texts(ops)) {
    if (!row.empty()) row += ",";
    row += step;
    if (step.starts_with('(')) row += kPair;
  }
  return row + "\n";
}

// PyTorch waits for the send of an activation after the backward of its micro-batch, and for all others at the end. It
// divides a stage's gradients by the micro-batches in REDUCE_GRAD, also where nothing is reduced.
std::string row_with_messages(const std::vector<Instruction>& rank) {
  std::string row;
  const auto add = [&](const std::string& cell) { row += (row.empty() ? "" : ",") + cell; };
  const auto add_wait = [&](const Instruction& send) {
    add(cell_text(send).insert(std::to_string(send.stage.value).size(), "WAIT_"));
  };
  std::vector<Instruction> sends;
  std::unordered_map<std::uint64_t, bool> waited;  // of activations, by stage and micro-batch
  const auto key = [](const Instruction& i) { return std::uint64_t{i.stage.index()} << 32 | i.micro.index(); };
  for (std::size_t k = 0; k < rank.size(); ++k) {
    const Instruction* i = &rank[k];
    if (is_scheduled(i->opcode)) {
      const std::size_t first = k;
      if (i->overlapped) {
        i = &rank[++k];
        add("(" + to_text(rank[first]) + ";" + to_text(*i) + ")" + std::string(kPair));
      } else {
        add(to_text(*i));
      }
      for (std::size_t part = first; part <= k; ++part)
        if (const auto sent = reads_stash(rank[part].opcode) ? waited.find(key(rank[part])) : waited.end();
            sent != waited.end()) {
          Instruction send = rank[part];
          send.opcode = Opcode::send_activation;
          add_wait(send);
          sent->second = true;
        }
    } else if (is_along_edge(i->opcode)) {
      add(cell_text(*i));
      if (is_send(i->opcode)) sends.push_back(*i);
      if (i->opcode == Opcode::send_activation) waited[key(*i)] = false;
    } else if (i->opcode == Opcode::optimizer_step) {
      const std::string stage = std::to_string(i->stage.value);
      add(stage + "REDUCE_GRAD");
      add(stage + "WAIT_REDUCE_GRAD");
    }
  }
  for (const Instruction& send : sends)
    if (send.opcode == Opcode::send_gradient || !waited[key(send)]) add_wait(send);
  return row + "\n";
}

class TableReader {
 public:
  TableReader(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  OrderFromTable read() {
    for (std::size_t begin = text_.starts_with("\xef\xbb\xbf") ? 3u : 0u; begin < text_.size();) {  // a BOM
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      read_line(std::string_view(text_).substr(begin, end - begin));
      begin = end + 1;
    }
    // An empty last line is the end of the file; an empty one before it, a rank without an op.
    while (!cells_.empty() && cells_.back().empty()) cells_.pop_back();
    make_order();
    result_.faults = check(result_.schedule, result_.graph, result_.placement);
    if (result_.communication && result_.faults.empty()) check_cells();
    if (result_.communication && result_.faults.empty()) {
      check_order_of_messages();
      result_.messages_out_of_order = !result_.faults.empty();
    }
    if (result_.faults.empty()) result_.faults = faults_of_stages(cells_, result_.communication);
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(std::size_t line, std::size_t cell, const std::string& what, const std::string& advice) {
    throw InputError(file_ + ": line " + std::to_string(line + 1) + ", cell " + std::to_string(cell + 1), what, advice);
  }

  void read_line(std::string_view line) {
    std::vector<TableCell>& row = cells_.emplace_back();
    const std::size_t number = cells_.size() - 1;
    if (line.find_first_not_of(" \r\t") == std::string_view::npos) return;
    for (std::size_t begin = 0, index = 0; begin <= line.size(); ++index) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      std::string_view text = line.substr(begin, end - begin);
      begin = end + 1;
      while (!text.empty() && (text.back() == '\r' || text.back() == ' ' || text.back() == '"')) text.remove_suffix(1);
      while (!text.empty() && (text.front() == ' ' || text.front() == '"')) text.remove_prefix(1);
      row.push_back(read_cell(std::string(text), number, index));
    }
  }

  TableCell read_cell(const std::string& text, std::size_t line, std::size_t index) {
    static const std::string advice = "write an action like 5F2, (5F1;2B0)OVERLAP_F_B or 0SEND_F1";
    if (text.empty()) return {};
    const auto quoted = [&] { return "'" + shortened(text, 60) + "'"; };
    try {
      if (text.starts_with('(')) {
        const std::size_t middle = text.find(';'), close = text.find(')');
        if (middle == std::string::npos || close == std::string::npos || middle > close ||
            text.substr(close + 1) != kPair)
          fail(line, index, quoted() + " is no pair", advice);
        TableCell cell{TableCell::Kind::compute, {parse_op(text.substr(1, middle - 1))}, {}};
        cell.ops.push_back(parse_op(text.substr(middle + 1, close - middle - 1)));
        cell.ops.front().overlapped = true;
        return cell;
      }
      const std::size_t letters = text.find_first_not_of("0123456789");
      if (letters == 0 || letters == std::string::npos) fail(line, index, quoted() + " is no action", advice);
      const std::size_t digits = std::min(text.find_first_of("0123456789", letters), text.size());
      const std::string kind = text.substr(letters, digits - letters);
      if (kind.size() == 1) return {TableCell::Kind::compute, {parse_op(text)}, {}};
      // Stage and micro-batch have the bounds of an op's.
      const Op op = parse_op(text.substr(0, letters) + "F" + (digits < text.size() ? text.substr(digits) : "0"));
      for (const auto& [name, opcode] : kMessages)
        if (kind == name && digits < text.size()) return {TableCell::Kind::message, {}, {opcode, op.stage, op.micro}};
      if (digits < text.size() && (kind == "WAIT_SEND_F" || kind == "WAIT_SEND_B"))
        return {TableCell::Kind::wait,
                {},
                {kind.back() == 'F' ? Opcode::send_activation : Opcode::send_gradient, op.stage, op.micro}};
      static const std::array<std::string, 4> known = {"UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};
      if (std::ranges::count(known, kind) == 0) fail(line, index, quoted() + " is no action", advice);
      return {.kind = TableCell::Kind::of_stage, .action = kind, .stage = op.stage};
    } catch (const InputError& e) {
      if (std::string_view(e.what()).starts_with(file_)) throw;
      fail(line, index, quoted() + " is no action", advice);
    }
  }

  void make_order() {
    Schedule& schedule = result_.schedule;
    schedule = empty_schedule(static_cast<int>(cells_.size()), 0);
    std::vector<std::vector<Rank>>& stages = result_.placement.stages;
    for (std::size_t r = 0; r < cells_.size(); ++r)
      for (std::size_t c = 0; c < cells_[r].size(); ++c) {
        result_.communication = result_.communication || cells_[r][c].kind == TableCell::Kind::message;
        for (const Op& op : cells_[r][c].ops) {
          if (op.stage.value >= 65'536) fail(r, c, "stage " + std::to_string(op.stage.value) + " is too many", "");
          if (stages.size() <= op.stage.index()) stages.resize(op.stage.index() + 1);
          std::vector<Rank>& home = stages[op.stage.index()];
          if (home.empty()) home.emplace_back(r);
          if (home.front() != Rank(r))
            fail(r, c,
                 to_text(op) + ": stage " + std::to_string(op.stage.value) + " is on rank " +
                     std::to_string(home.front().value) + " already",
                 "a stage has one rank");
          schedule.microbatches = std::max(schedule.microbatches, op.micro.value + 1);
          schedule.ranks[r].push_back(op);
        }
      }
    if (stages.empty()) throw InputError(file_, "holds no action", "write one line per rank: 0F0,0F1,0B0,0B1");
    for (std::size_t s = 0; s < stages.size(); ++s)
      if (stages[s].empty())
        throw InputError(file_, "no rank has stage " + std::to_string(s),
                         "number the " + std::to_string(stages.size()) + " stages from 0 without a gap");
    result_.graph = chain(static_cast<int>(stages.size()));
  }

  // Every message across ranks is sent once after the op that makes it, and received once before the op that needs it;
  // a wait for a send comes after it, and where a table has waits, every send has one.
  void check_cells() {
    const bool waits = std::ranges::any_of(cells_, [](const std::vector<TableCell>& row) {
      return std::ranges::any_of(row, [](const TableCell& cell) { return cell.kind == TableCell::Kind::wait; });
    });
    for (std::size_t r = 0; r < cells_.size(); ++r) check_cells_of_ops(r);
    for (std::size_t r = 0; waits && result_.faults.empty() && r < cells_.size(); ++r) check_waits(r);
  }

  using CellsOfMessages = std::unordered_map<std::uint64_t, std::size_t>;  // by key()
  static std::uint64_t key(const TableMessage& m) {
    return ((std::uint64_t{m.stage.index()} << 8 | static_cast<std::uint64_t>(m.opcode)) << 32) | m.micro.index();
  }
  static std::string text_of(const TableMessage& m) {
    return cell_text({.opcode = m.opcode, .stage = m.stage, .micro = m.micro});
  }
  void fault(std::size_t r, Violation::Kind kind, const std::string& text) {
    result_.faults.push_back({kind, on_rank(r) + text});
  }

  void check_cells_of_ops(std::size_t r) {
    const std::vector<TableCell>& row = cells_[r];
    CellsOfMessages at;
    for (std::size_t c = 0; c < row.size(); ++c)
      if (row[c].kind == TableCell::Kind::message && !at.emplace(key(row[c].message), c).second)
        fault(r, Violation::Kind::duplicate_op, text_of(row[c].message) + " is there twice");
    const auto expect = [&](const Op& op, Opcode opcode, std::size_t c) {
      const TableMessage m{opcode, op.stage, op.micro};
      const auto found = at.find(key(m));
      if (found == at.end()) return fault(r, Violation::Kind::missing_op, text_of(m) + " is missing");
      if (is_send(opcode) ? found->second < c : found->second > c)
        fault(r, Violation::Kind::wrong_order,
              text_of(m) + " comes " + (is_send(opcode) ? "before " : "after ") + to_text(op));
      at.erase(found);
    };
    const auto elsewhere = [&](int stage) {
      return stage >= 0 && stage < result_.graph.stages() &&
             result_.placement.stages[static_cast<std::size_t>(stage)].front() != Rank(r);
    };
    for (std::size_t c = 0; c < row.size(); ++c)
      for (const Op& op : row[c].ops) {
        if (op.kind == OpKind::weight_gradient) continue;
        const bool forward = op.kind == OpKind::forward;
        if (elsewhere(op.stage.value + (forward ? -1 : 1)))
          expect(op, forward ? Opcode::receive_activation : Opcode::receive_gradient, c);
        if (elsewhere(op.stage.value + (forward ? 1 : -1)))
          expect(op, forward ? Opcode::send_activation : Opcode::send_gradient, c);
      }
    for (std::size_t c = 0; c < row.size(); ++c)
      if (const auto found = row[c].kind == TableCell::Kind::message ? at.find(key(row[c].message)) : at.end();
          found != at.end() && found->second == c)
        fault(r, Violation::Kind::wrong_rank, text_of(row[c].message) + " belongs to no op of this rank that needs it");
  }

  void check_waits(std::size_t r) {
    CellsOfMessages sent;  // not waited for yet
    for (const TableCell& cell : cells_[r]) {
      if (cell.kind == TableCell::Kind::message && is_send(cell.message.opcode)) sent.emplace(key(cell.message), 0);
      if (cell.kind == TableCell::Kind::wait && sent.erase(key(cell.message)) == 0)
        fault(r, Violation::Kind::wrong_order,
              "a wait for " + text_of(cell.message) + " stands where that is not under way");
    }
    for (const TableCell& cell : cells_[r])
      if (cell.kind == TableCell::Kind::message && sent.contains(key(cell.message)))
        fault(r, Violation::Kind::missing_op, text_of(cell.message) + " has no wait, as other sends of the table have");
  }

  // The cells as instructions. Every message has its other end on another rank, by check_cells().
  Program program_of_cells() const {
    Program program{
        .graph = result_.graph, .placement = result_.placement, .microbatches = result_.schedule.microbatches};
    std::map<std::pair<Rank, Rank>, std::int32_t> channel_of;
    const auto rank_of = [&](StageId stage) { return result_.placement.stages[stage.index()].front(); };
    for (const std::vector<TableCell>& row : cells_) {
      std::vector<Instruction>& rank = program.ranks.emplace_back();
      for (const TableCell& cell : row) {
        for (const Op& op : cell.ops)
          rank.push_back(
              {.opcode = opcode_of(op.kind), .overlapped = op.overlapped, .stage = op.stage, .micro = op.micro});
        if (cell.kind != TableCell::Kind::message) continue;
        const TableMessage& m = cell.message;
        const bool send = is_send(m.opcode),
                   up = m.opcode == Opcode::receive_activation || m.opcode == Opcode::send_gradient;
        const StageId peer(m.stage.value + (up ? -1 : 1));
        const Rank own = rank_of(m.stage), other = rank_of(peer);
        const auto [channel, fresh] =
            channel_of.try_emplace(send ? std::pair(own, other) : std::pair(other, own), program.channels.size());
        if (fresh) program.channels.push_back({channel->first.first, channel->first.second});
        rank.push_back(
            {.opcode = m.opcode, .stage = m.stage, .micro = m.micro, .peer_stage = peer, .channel = channel->second});
      }
    }
    return program;
  }

  void check_order_of_messages() {
    const Program program = program_of_cells();
    result_.faults = check_messages(program, SendEnd::buffered, cell_text);
    if (!result_.faults.empty()) return;
    result_.faults = check_messages(program, SendEnd::rendezvous, cell_text);
    for (Violation& fault : result_.faults) fault.text = "where a send waits for its receive, " + fault.text;
  }

  const std::string& text_;
  const std::string& file_;
  std::vector<std::vector<TableCell>> cells_;
  OrderFromTable result_;
};

}  // namespace

PyTorchTable pytorch_table(const Schedule& schedule, const Program& program, const std::string& where,
                           TableFormat format) {
  reject_what_pytorch_cannot_run(schedule, program, where);
  PyTorchTable table;
  if (format == TableFormat::compute_comms) {
    for (const std::vector<Instruction>& rank : in_rendezvous_order(program).ranks)
      table.csv += row_with_messages(rank);
  } else {
    for (const std::vector<Op>& ops : schedule.ranks) table.csv += row_of(ops);
  }
  if (program.rule.recompute != WeightRule::Recompute::none)
    table.lost.push_back("recomputation: put the stages' modules under torch.utils.checkpoint");
  if (program.sharding.active()) table.lost.push_back("sharded weights: put the stages' modules under fully_shard");
  return table;
}

OrderFromTable read_pytorch_table(const std::string& text, const std::string& file) {
  return TableReader(text, file).read();
}

// Whether the only fault of a table is that of PyTorch 2.15's for Schedule1F1B: on the last rank, F of micro-batch
// j + 1 stands where F of j belongs.
static bool is_pytorchs_1f1b(const OrderFromTable& table) {
  Schedule mended = table.schedule;
  for (Op& op : mended.ranks.back()) {
    if (op.kind != OpKind::forward) continue;
    if (op.micro.value == 0) return false;
    op.micro = Micro(op.micro.value - 1);
  }
  mended.microbatches -= 1;
  return check(mended, table.graph, table.placement).empty();
}

OrderFromTable read_valid_table(const std::string& file) {
  OrderFromTable table = read_pytorch_table(read_text_file(file), file);
  const std::vector<Violation>& faults = table.faults;
  if (!faults.empty()) {
    constexpr std::size_t shown = 5;
    std::string text = faults.size() == 1 ? "1 fault" : std::to_string(faults.size()) + " faults";
    for (std::size_t i = 0; i < std::min(shown, faults.size()); ++i) text += (i == 0 ? ": " : "; ") + faults[i].text;
    if (faults.size() > shown) text += "; and so on";
    if (is_pytorchs_1f1b(table))
      throw InputError(file,
                       text +
                           "; this is a fault of PyTorch: the table that it makes for Schedule1F1B numbers the "
                           "forwards of the last rank from 1, and the class itself runs them from 0",
                       "make the table with sluice schedule -s 1f1b --csv");
    throw InputError(file, text,
                     table.messages_out_of_order
                         ? "without its sends and receives, sluice schedule --from FILE --csv --messages "
                           "writes the table with them in an order that ends"
                         : "");
  }
  return table;
}

}  // namespace sluice
