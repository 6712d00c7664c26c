// Schedule: for every rank the list of compute ops it runs, in order. It has a text form: "5I2" is stage 5, input
// gradient, micro-batch 2. Systems give compute ops only; lowering (harness/program/program.h) adds
// communication, reductions and optimizer steps.
//   F forward, B whole backward, I input gradient, W weight gradient (B = I + W, unsplit).
// B never means the input gradient here, unlike in the zero-bubble and ZeroPP papers. If sequences are cut into k
// chunks that run one after the other, an op works on one chunk: "5F2.1" is the forward of chunk 1 of micro-batch 2.
// Op::micro is then the chunk's number in the schedule, 2 k + 1, and a schedule of m micro-batches counts m k of them.
// Forwards of a micro-batch follow the order of its chunks, backwards the reverse. "(5F1;2B0)" is an overlapped pair
// (DualPipe): one step of the rank. It begins when the inputs of both ops are available and passes on the outputs of
// both at its end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/ids.h"

namespace sluice {

enum class OpKind : std::uint8_t { forward, backward, input_gradient, weight_gradient };

struct Op {
  OpKind kind = OpKind::forward;
  StageId stage;
  Micro micro;
  bool overlapped = false;  // with the next op of its rank: this is the first of a pair
  friend bool operator==(const Op&, const Op&) = default;
};

inline Op forward_op(int stage, int micro) { return {OpKind::forward, StageId(stage), Micro(micro)}; }
inline Op backward_op(int stage, int micro) { return {OpKind::backward, StageId(stage), Micro(micro)}; }
inline Op input_gradient_op(int stage, int micro) { return {OpKind::input_gradient, StageId(stage), Micro(micro)}; }
inline Op weight_gradient_op(int stage, int micro) { return {OpKind::weight_gradient, StageId(stage), Micro(micro)}; }

struct Schedule {
  std::vector<std::vector<Op>> ranks;
  int microbatches = 0;       // if sequences are cut: times the chunks of each
  bool forward_only = false;  // inference: only F
  int sequence_chunks = 1;    // of every micro-batch's sequences
  int whole_microbatches() const { return microbatches / sequence_chunks; }
  std::vector<Op>& ops(Rank rank) { return ranks[rank.index()]; }
  const std::vector<Op>& ops(Rank rank) const { return ranks[rank.index()]; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

Schedule empty_schedule(int ranks, int microbatches);

// An order that needs no memory: it computes op k (from 0) of a rank.
struct OpRule {
  std::function<Op(int rank, std::int64_t k)> op;
  std::int64_t ops = 0;  // of every rank in an update
  Op operator()(int rank, std::int64_t k) const { return op(rank, k); }
  explicit operator bool() const { return static_cast<bool>(op); }
};

using StageOrders = std::vector<std::vector<Op>>;  // per stage, its compute ops in the order they run in

// Whether any two ops run as an overlapped pair.
bool has_pairs(const Schedule& schedule);

// The forwards of a schedule in the order of its ranks, without all other ops: the system's inference.
Schedule forwards_of(const Schedule& schedule);

char letter(OpKind kind);  // F, B, I, W
// The number of a micro-batch in the text form: "2", or "2.1" if sequences are cut.
std::string micro_text(Micro micro, int sequence_chunks);
std::string to_text(const Op& op, int sequence_chunks = 1);  // "5I2", "5I2.1"
Op parse_op(std::string_view text);                          // of whole sequences; throws InputError
// The steps of a rank: "0F0", "(0F1;3B4)".
std::vector<std::string> step_texts(const std::vector<Op>& ops, int sequence_chunks = 1);
// One line per rank: "rank 0: 0F0 0F1 ..."; for inference after the line "forward only".
std::string to_text(const Schedule& s);

// The stage DAG: which stages feed which. A chain unless the plan says otherwise.
struct StageGraph {
  std::vector<std::vector<StageId>> predecessors, successors;  // each ascending
  // Per stage: number of the schedule's micro-batches that one of its ops takes at once; empty: one. With 4, "5F2" is
  // the forward of stage 5 for micro-batches 8 to 11.
  std::vector<int> microbatches_per_op = {};
  // Stages with copies of one weight that tied layers use (ModelGraph with_copies), ascending; in the order of
  // copied_layers().
  std::vector<std::vector<StageId>> copies = {};
  // A stage uses a weight of another stage, on all of its ranks.
  struct Loan {
    StageId reader, owner;
  };
  std::vector<Loan> loans = {};
  std::size_t size() const { return predecessors.size(); }
  int stages() const { return static_cast<int>(size()); }
  int microbatches_per_op_of(StageId stage) const {
    return microbatches_per_op.empty() ? 1 : microbatches_per_op[stage.index()];
  }
};

// The ops of a neighbour, and the messages between the two stages, that one op of a stage needs, as half-open ranges. A
// message holds the greatest common divisor of both stages' numbers of micro-batches per op.
struct MicroRange {
  int first, last;
};
int microbatches_per_message(const StageGraph& graph, StageId a, StageId b);
MicroRange neighbour_ops(const StageGraph& graph, StageId stage, Micro op, StageId neighbour);
MicroRange messages_of(const StageGraph& graph, StageId stage, Micro op, StageId neighbour);
// The op of `stage` that makes or takes a message between it and `neighbour`.
Micro op_of_message(const StageGraph& graph, StageId stage, Micro message, StageId neighbour);
StageGraph chain(int stages);
// Throws InputError at `where` for an edge out of range, a repeated edge or a cycle.
StageGraph stage_graph(int stages, const std::vector<std::pair<StageId, StageId>>& edges, const std::string& where);

// Which ranks hold a stage. Several are replicas, each for some of the micro-batches.
struct Placement {
  std::vector<std::vector<Rank>> stages;
  // Micro-batch i belongs to replica replica_of[i] of every stage; empty: to replica i mod replicas. A bidirectional
  // pipeline has two replicas of a stage, one for each direction.
  std::vector<std::size_t> replica_of = {};
  // Per stage, the rank that runs its W if it is not the rank of its F and I, else -1; empty: every stage's W run on
  // the rank of its F and I. Such a stage has one replica.
  std::vector<Rank> weight_gradient_ranks = {};
  Rank rank_of(StageId stage, Micro micro) const {
    const auto& ranks = stages[stage.index()];
    if (ranks.size() == 1) return ranks.front();
    const std::size_t replica = replica_of.empty() ? micro.index() : replica_of[micro.index()];
    return ranks[replica % ranks.size()];
  }
  bool has_weight_gradient_rank(StageId stage) const {
    return !weight_gradient_ranks.empty() && weight_gradient_ranks[stage.index()].value >= 0;
  }
  Rank rank_of(const Op& op) const {
    return op.kind == OpKind::weight_gradient && has_weight_gradient_rank(op.stage)
               ? weight_gradient_ranks[op.stage.index()]
               : rank_of(op.stage, op.micro);
  }
  int rank_count() const;
};

// A schedule and its placement repeated `times` times, each time with the following micro-batches. Throws InputError if
// the replicas of a stage do not divide its ops and stages take several micro-batches at once.
struct PlacedSchedule {
  Schedule schedule;
  Placement placement;
};
PlacedSchedule repeated(const Schedule& schedule, const StageGraph& graph, const Placement& placement, int times);

// Peaks of one rank, in micro-batches of one stage, or in chunks if sequences are cut. They depend only on the order,
// not on times. Zero if nothing is kept for a backward (inference).
struct RankPeak {
  int in_flight = 0;              // between F and the end of I or B
  int until_weight_gradient = 0;  // between F and the end of W or B
};
std::vector<RankPeak> peaks(const Schedule& schedule);

}  // namespace sluice
