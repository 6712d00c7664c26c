#include "harness/program/sharding_instructions.h"

#include <algorithm>
#include <map>

namespace sluice {

namespace {

// From a gather to the last op that reads the copy.
struct Visit {
  StageId stage;
  std::size_t first, last;
};

// The op that begins, or ends, the step of op k: a pair is one step.
std::size_t step_begin(const std::vector<Op>& ops, std::size_t k) { return k > 0 && ops[k - 1].overlapped ? k - 1 : k; }
std::size_t step_end(const std::vector<Op>& ops, std::size_t k) { return ops[k].overlapped ? k + 1 : k; }

// In order of their first ops. Two that one pair touches are one.
std::vector<Visit> visits(const Program& program, const std::vector<Op>& ops, const std::vector<Collective>& gathers) {
  std::vector<Visit> result;
  if (program.sharding.gather == Sharding::Gather::after_step) return result;
  std::map<StageId, std::size_t> open;  // stage -> its last visit so far
  auto next = gathers.begin();
  for (std::size_t k = 0; k < ops.size(); ++k) {
    const Op& op = ops[k];
    const bool gathered = next != gathers.end() && next->op == k;
    if (gathered) ++next;
    if (op.kind == OpKind::weight_gradient || !program.sharded(op.stage)) continue;
    const auto found = open.find(op.stage);
    const bool resident = found != open.end() && (!gathered || step_begin(ops, k) <= result[found->second].last);
    if (resident) {
      result[found->second].last = step_end(ops, k);
    } else {
      open[op.stage] = result.size();
      result.push_back({op.stage, step_begin(ops, k), step_end(ops, k)});
    }
  }
  return result;
}

Instruction collective(Opcode opcode, const Op& op) {
  Instruction i{.opcode = opcode, .stage = op.stage, .micro = op.micro};
  i.channel = op.stage.value;
  return i;
}

}  // namespace

ShardingInstructions sharding_instructions(const Program& program, const std::vector<Op>& ops) {
  ShardingInstructions result;
  if (std::ranges::none_of(ops, [&](const Op& op) { return program.sharded(op.stage); })) return result;
  result.before.resize(ops.size());
  result.after.resize(ops.size());
  const RankCollectives where = collectives(Schedule{{ops}, program.microbatches}, program.sharding).front();
  const auto of_stage = [&](std::size_t step, StageId stage) -> const Op& {
    return ops[step].stage == stage ? ops[step] : ops[step + 1];
  };
  std::map<StageId, std::size_t> freed;  // the op before which the stage's last copy was dropped
  for (const Visit& visit : visits(program, ops, where.gathers)) {
    std::size_t at = visit.first;
    for (int k = 0; k < program.sharding.prefetch && at > freed[visit.stage]; ++k) at = step_begin(ops, at - 1);
    result.before[at].push_back(collective(Opcode::gather_weights, of_stage(visit.first, visit.stage)));
    const std::size_t last_step = step_begin(ops, visit.last);
    Instruction drop = collective(Opcode::free_weights, of_stage(last_step, visit.stage));
    drop.channel = -1;
    result.after[visit.last].push_back(drop);
    freed[visit.stage] = visit.last + 1;
  }
  for (const Collective& c : where.reductions)
    if (program.sharded(c.stage))
      result.after[step_end(ops, c.op)].push_back(collective(Opcode::reduce_scatter, ops[c.op]));
  return result;
}

}  // namespace sluice
