#include "harness/pipeline/schedule.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "harness/base/error.h"

namespace sluice {

Schedule empty_schedule(int ranks, int microbatches) {
  return {.ranks = std::vector<std::vector<Op>>(ranks), .microbatches = microbatches};
}

bool has_pairs(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks,
                             [](const std::vector<Op>& ops) { return std::ranges::any_of(ops, &Op::overlapped); });
}

Schedule forwards_of(const Schedule& schedule) {
  Schedule result = empty_schedule(static_cast<int>(schedule.ranks.size()), schedule.microbatches);
  result.forward_only = true;
  result.sequence_chunks = schedule.sequence_chunks;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
    for (Op op : schedule.ranks[r]) {
      op.overlapped = false;
      if (op.kind == OpKind::forward) result.ranks[r].push_back(op);
    }
  return result;
}

// Who runs a micro-batch must not depend on how often the schedule was repeated before it.
static void repeat_replicas(Placement& placement, const StageGraph& graph, int microbatches, int times) {
  bool in_turn = placement.replica_of.empty(), several_at_once = false;
  for (std::size_t s = 0; s < graph.size(); ++s) {
    const int at_once = graph.microbatches_per_op_of(StageId(s));
    several_at_once = several_at_once || at_once > 1;
    in_turn = in_turn && microbatches / at_once % static_cast<int>(placement.stages[s].size()) == 0;
  }
  if (in_turn) return;
  if (several_at_once)
    throw InputError("microbatches",
                     std::to_string(microbatches) + " micro-batches are no whole number of rounds over the replicas",
                     "choose a multiple of the replicas of every stage");
  std::vector<std::size_t> once = placement.replica_of;
  for (std::size_t i = once.size(); i < static_cast<std::size_t>(microbatches); ++i) once.push_back(i);
  placement.replica_of.clear();
  for (int k = 0; k < times; ++k) placement.replica_of.insert(placement.replica_of.end(), once.begin(), once.end());
}

PlacedSchedule repeated(const Schedule& schedule, const StageGraph& graph, const Placement& placement, int times) {
  PlacedSchedule result{schedule, placement};
  result.schedule.microbatches = schedule.microbatches * times;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    std::vector<Op>& ops = result.schedule.ranks[r];
    ops.reserve(schedule.ranks[r].size() * static_cast<std::size_t>(times));
    for (int k = 1; k < times; ++k)
      for (Op op : schedule.ranks[r]) {
        op.micro.value += k * schedule.microbatches / graph.microbatches_per_op_of(op.stage);
        ops.push_back(op);
      }
  }
  repeat_replicas(result.placement, graph, schedule.microbatches, times);
  return result;
}

static constexpr std::string_view kLetters = "FBIW";  // in OpKind's order

char letter(OpKind kind) { return kLetters[static_cast<std::size_t>(kind)]; }

std::string micro_text(Micro micro, int sequence_chunks) {
  if (sequence_chunks == 1) return std::to_string(micro.value);
  return std::to_string(micro.value / sequence_chunks) + "." + std::to_string(micro.value % sequence_chunks);
}

std::string to_text(const Op& op, int sequence_chunks) {
  return std::to_string(op.stage.value) + letter(op.kind) + micro_text(op.micro, sequence_chunks);
}

Op parse_op(std::string_view text) {
  const auto bad = [&] {
    return InputError("", "'" + std::string(text) + "' is not an op", "write stage, F|B|I|W, micro-batch, like 5I2");
  };
  Op op;
  const char* const end = text.data() + text.size();
  const auto stage = std::from_chars(text.data(), end, op.stage.value);
  if (stage.ec != std::errc() || stage.ptr == end || op.stage.value < 0) throw bad();
  const std::size_t kind = kLetters.find(*stage.ptr);
  if (kind == std::string_view::npos) throw bad();
  op.kind = static_cast<OpKind>(kind);
  const auto micro = std::from_chars(stage.ptr + 1, end, op.micro.value);
  if (micro.ec != std::errc() || micro.ptr != end || op.micro.value < 0) throw bad();
  // Tables are made by stage and micro-batch: a slip of the keyboard must not ask for all memory.
  if (op.stage.value > 1'000'000 || op.micro.value > 1'000'000) throw bad();
  return op;
}

std::vector<std::string> step_texts(const std::vector<Op>& ops, int sequence_chunks) {
  std::vector<std::string> steps;
  for (std::size_t k = 0; k < ops.size(); ++k) {
    const bool second = k > 0 && ops[k - 1].overlapped;
    if (second) {
      steps.back() += ";" + to_text(ops[k], sequence_chunks) + ")";
    } else {
      steps.push_back((ops[k].overlapped ? "(" : "") + to_text(ops[k], sequence_chunks));
    }
  }
  return steps;
}

std::string to_text(const Schedule& schedule) {
  std::string text = schedule.forward_only ? "forward only\n" : "";
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    text += "rank " + std::to_string(r) + ":";
    for (const std::string& step : step_texts(schedule.ranks[r], schedule.sequence_chunks)) text += " " + step;
    text += "\n";
  }
  return text;
}

StageGraph chain(int stages) {
  StageGraph graph;
  graph.predecessors.resize(stages);
  graph.successors.resize(stages);
  for (int s = 1; s < stages; ++s) {
    graph.predecessors[s] = {StageId(s - 1)};
    graph.successors[s - 1] = {StageId(s)};
  }
  return graph;
}

StageGraph stage_graph(int stages, const std::vector<std::pair<StageId, StageId>>& edges, const std::string& where) {
  StageGraph graph;
  graph.predecessors.resize(stages);
  graph.successors.resize(stages);
  std::set<std::pair<StageId, StageId>> seen;
  for (const auto& [from, to] : edges) {
    const std::string edge = std::to_string(from.value) + " -> " + std::to_string(to.value);
    if (from.value < 0 || to.value < 0 || from.value >= stages || to.value >= stages)
      throw InputError(where, "edge " + edge + " names a stage that does not exist");
    if (!seen.insert({from, to}).second) throw InputError(where, "edge " + edge + " is given twice");
    graph.successors[from.index()].push_back(to);
    graph.predecessors[to.index()].push_back(from);
  }
  std::vector<std::size_t> waiting(graph.size());
  std::vector<std::size_t> ready;
  for (std::size_t s = 0; s < graph.size(); ++s) {
    std::ranges::sort(graph.successors[s]);
    std::ranges::sort(graph.predecessors[s]);
    waiting[s] = graph.predecessors[s].size();
    if (waiting[s] == 0) ready.push_back(s);
  }
  std::size_t done = 0;
  for (; !ready.empty(); ++done) {
    const std::size_t s = ready.back();
    ready.pop_back();
    for (const StageId next : graph.successors[s])
      if (--waiting[next.index()] == 0) ready.push_back(next.index());
  }
  if (done != graph.size()) {
    const auto stuck = std::ranges::find_if(waiting, [](std::size_t n) { return n > 0; }) - waiting.begin();
    throw InputError(where, "the stages form a cycle through stage " + std::to_string(stuck));
  }
  return graph;
}

int microbatches_per_message(const StageGraph& graph, StageId a, StageId b) {
  if (graph.microbatches_per_op.empty()) return 1;
  return std::gcd(graph.microbatches_per_op_of(a), graph.microbatches_per_op_of(b));
}

MicroRange neighbour_ops(const StageGraph& graph, StageId stage, Micro op, StageId neighbour) {
  if (graph.microbatches_per_op.empty()) return {op.value, op.value + 1};
  const int mine = graph.microbatches_per_op_of(stage), theirs = graph.microbatches_per_op_of(neighbour);
  return {op.value * mine / theirs, ((op.value + 1) * mine + theirs - 1) / theirs};
}

MicroRange messages_of(const StageGraph& graph, StageId stage, Micro op, StageId neighbour) {
  if (graph.microbatches_per_op.empty()) return {op.value, op.value + 1};
  const int per_op = graph.microbatches_per_op_of(stage) / microbatches_per_message(graph, stage, neighbour);
  return {op.value * per_op, (op.value + 1) * per_op};
}

Micro op_of_message(const StageGraph& graph, StageId stage, Micro message, StageId neighbour) {
  if (graph.microbatches_per_op.empty()) return message;
  const int per_op = graph.microbatches_per_op_of(stage) / microbatches_per_message(graph, stage, neighbour);
  return Micro(message.value / per_op);
}

int Placement::rank_count() const {
  int count = 0;
  for (const auto& ranks : stages)
    for (const Rank rank : ranks) count = std::max(count, rank.value + 1);
  for (const Rank rank : weight_gradient_ranks) count = std::max(count, rank.value + 1);
  return count;
}

std::vector<RankPeak> peaks(const Schedule& schedule) {
  std::vector<RankPeak> result;
  if (schedule.forward_only) return std::vector<RankPeak>(schedule.ranks.size());
  for (const auto& ops : schedule.ranks) {
    RankPeak now, peak;
    for (const Op& op : ops) {
      switch (op.kind) {
        case OpKind::forward:
          ++now.in_flight, ++now.until_weight_gradient;
          break;
        case OpKind::backward:
          --now.in_flight, --now.until_weight_gradient;
          break;
        case OpKind::input_gradient:
          --now.in_flight;
          break;
        case OpKind::weight_gradient:
          --now.until_weight_gradient;
          break;
      }
      peak.in_flight = std::max(peak.in_flight, now.in_flight);
      peak.until_weight_gradient = std::max(peak.until_weight_gradient, now.until_weight_gradient);
    }
    result.push_back(peak);
  }
  return result;
}

}  // namespace sluice
