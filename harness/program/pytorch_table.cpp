#include "harness/program/pytorch_table.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "harness/base/error.h"
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

void refuse_what_pytorch_cannot_run(const Schedule& schedule, const Program& program, const std::string& where) {
  const auto refuse = [&](const std::string& what) {
    throw InputError(
        where, what,
        "choose a system whose schedule PyTorch can run: 1f1b, interleaved_1f1b, zero_bubble, gpipe, hanayo, ...");
  };
  const StageGraph& graph = program.graph;
  if (!program.rule.synchronous())
    refuse("updates without a flush: PyTorch would run its order as a synchronous schedule, with another result");
  if (std::ranges::all_of(schedule.ranks, [](const std::vector<Op>& ops) {
        return std::ranges::all_of(ops, [](const Op& op) { return op.kind == OpKind::forward; });
      }))
    refuse("runs forward only: PyTorch's schedules train");
  if (program.sequence_chunks > 1) refuse("cuts sequences into chunks: PyTorch's ops are of whole micro-batches");
  for (std::size_t s = 0; s < graph.size(); ++s) {
    const std::string stage = "stage " + std::to_string(s);
    const std::vector<Rank>& ranks = program.placement.stages[s];
    if (ranks.size() > 1) refuse(stage + " is on ranks " + rank_list(ranks) + ": PyTorch gives a stage one rank");
    if (program.placement.has_weight_gradient_rank(StageId(s)))
      refuse("the weight gradients of " + stage + " are made on another rank: PyTorch makes them on the stage's own");
    if (graph.micros_per_op_of(StageId(s)) > 1)
      refuse(stage + " takes " + std::to_string(graph.micros_per_op_of(StageId(s))) +
             " micro-batches at once: PyTorch takes one at a time");
    const bool chained = graph.successors[s].empty() ? s + 1 == graph.size()
                                                     : graph.successors[s] == std::vector<StageId>{StageId(s + 1)};
    if (!chained) refuse("its stages are no chain: PyTorch sends from a stage to the next only");
  }
}

class TableReader {
 public:
  TableReader(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  OrderFromTable read() {
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      read_line(std::string_view(text_).substr(begin, end - begin));
      begin = end + 1;
    }
    // An empty last line is the end of the file; an empty one before it, a rank without an op.
    while (!cells_.empty() && cells_.back().empty()) cells_.pop_back();
    make_order();
    result_.faults = faults_of_cells(cells_, result_);
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
    try {
      if (text.starts_with('(')) {
        const std::size_t middle = text.find(';'), close = text.find(')');
        if (middle == std::string::npos || close == std::string::npos || middle > close ||
            text.substr(close + 1) != kPair)
          fail(line, index, "'" + text + "' is no pair", advice);
        TableCell cell{.ops = {parse_op(text.substr(1, middle - 1))}};
        cell.ops.push_back(parse_op(text.substr(middle + 1, close - middle - 1)));
        cell.ops.front().overlapped = true;
        return cell;
      }
      const std::size_t letters = text.find_first_not_of("0123456789");
      if (letters == 0 || letters == std::string::npos) fail(line, index, "'" + text + "' is no action", advice);
      const std::size_t digits = std::min(text.find_first_of("0123456789", letters), text.size());
      const std::string kind = text.substr(letters, digits - letters);
      if (kind.size() == 1) return {.ops = {parse_op(text)}};
      // Stage and micro-batch have the bounds of an op's.
      const Op op = parse_op(text.substr(0, letters) + "F" + (digits < text.size() ? text.substr(digits) : "0"));
      static const std::array<std::string, 6> of_messages = {"SEND_F", "RECV_F",      "SEND_B",
                                                             "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B"};
      static const std::array<std::string, 4> of_stages = {"UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};
      const bool of_message = std::ranges::count(of_messages, kind) > 0 && digits < text.size();
      if (!of_message && std::ranges::count(of_stages, kind) == 0)
        fail(line, index, "'" + text + "' is no action", advice);
      return {.action = kind, .stage = op.stage, .micro = op.micro};
    } catch (const InputError& e) {
      if (std::string_view(e.what()).starts_with(file_)) throw;
      fail(line, index, "'" + text + "' is no action", advice);
    }
  }

  void make_order() {
    Schedule& schedule = result_.schedule;
    schedule = empty_schedule(static_cast<int>(cells_.size()), 0);
    std::vector<std::vector<Rank>>& stages = result_.placement.stages;
    for (std::size_t r = 0; r < cells_.size(); ++r)
      for (std::size_t c = 0; c < cells_[r].size(); ++c) {
        result_.communication = result_.communication || cells_[r][c].is_message();
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
    if (stages.empty()) throw InputError(file_, "holds no action", "write a line a rank: 0F0,0F1,0B0,0B1");
    for (std::size_t s = 0; s < stages.size(); ++s)
      if (stages[s].empty())
        throw InputError(file_, "no rank has stage " + std::to_string(s),
                         "number the " + std::to_string(stages.size()) + " stages from 0 without a gap");
    result_.graph = chain(static_cast<int>(stages.size()));
  }

  const std::string& text_;
  const std::string& file_;
  std::vector<std::vector<TableCell>> cells_;
  OrderFromTable result_;
};

}  // namespace

PyTorchTable pytorch_table(const Schedule& schedule, const Program& program, const std::string& where) {
  refuse_what_pytorch_cannot_run(schedule, program, where);
  PyTorchTable table;
  for (const std::vector<Op>& ops : schedule.ranks) {
    std::string line;
    for (const std::string& step : step_texts(ops)) {
      if (!line.empty()) line += ",";
      line += step;
      if (step.starts_with('(')) line += kPair;
    }
    table.csv += line + "\n";
  }
  if (program.rule.recompute != WeightRule::Recompute::none)
    table.lost.push_back("recomputation: put the stages' modules under torch.utils.checkpoint");
  if (program.sharding.active()) table.lost.push_back("sharded weights: put the stages' modules under fully_shard");
  return table;
}

OrderFromTable read_pytorch_table(const std::string& text, const std::string& file) {
  return TableReader(text, file).read();
}

}  // namespace sluice
