// What check(Program) asks of sharded stages; sharding.h has their rules.
#include <map>

#include "harness/program/check_program_parts.h"

namespace sluice {

namespace {

// Follows the sharded stages of one rank through its program.
class ShardingCheck {
 public:
  ShardingCheck(const Program& program, Rank rank, std::vector<Violation>& found)
      : program_(program),
        rank_(rank),
        found_(found),
        always_whole_(program.sharding.gather == Sharding::Gather::after_step) {}

  void run() {
    const auto& instructions = program_.ranks[rank_.index()];
    if (always_whole_)
      for (const Instruction& i : instructions)
        if (program_.sharded(i.stage)) gathered_[i.stage] = 0;
    for (const Instruction& i : instructions) visit(i);
    // The next run of the program reads the version that is then newest.
    for (const auto& [stage, version] : gathered_)
      if (!always_whole_ || version != newest_[stage])
        report("ends with version " + std::to_string(version) + " of the weights of stage " +
               std::to_string(stage.value) + " gathered" +
               (always_whole_ ? ", its step has made " + std::to_string(newest_[stage]) : ""));
  }

 private:
  void visit(const Instruction& i) {
    if (!program_.sharded(i.stage)) {
      if (is_of_sharded_stage(i.opcode)) report(to_text(i) + ", and the stage is not sharded");
      return;
    }
    if (reads_weights(i.opcode)) read(i);
    if (makes_weight_gradient(i.opcode)) ++unsummed_[i.stage];
    if (i.opcode == Opcode::gather_weights) gather(i);
    if (i.opcode == Opcode::free_weights && gathered_.erase(i.stage) == 0) report(to_text(i) + ": they are not there");
    if (i.opcode == Opcode::reduce_scatter) unsummed_[i.stage] = 0;
    if (i.opcode == Opcode::optimizer_step) step(i);
  }

  void read(const Instruction& i) {
    const auto copy = gathered_.find(i.stage);
    if (copy != gathered_.end() && copy->second == i.version) return;
    report(to_text(i) + " reads version " + std::to_string(i.version) + " of the weights of stage " +
           std::to_string(i.stage.value) +
           (copy == gathered_.end() ? ", which are not gathered" : ", gathered is " + std::to_string(copy->second)));
  }

  void gather(const Instruction& i) {
    if (i.version != newest_[i.stage])
      report(to_text(i) + " of version " + std::to_string(i.version) + ", the shards are at " +
             std::to_string(newest_[i.stage]));
    if (gathered_.contains(i.stage) && !always_whole_) report(to_text(i) + ": they are there");
    gathered_[i.stage] = i.version;
  }

  void step(const Instruction& i) {
    if (unsummed_[i.stage] > 0)
      report(to_text(i) + " misses " + std::to_string(unsummed_[i.stage]) +
             " gradients that no reduce_scatter has summed");
    newest_[i.stage] = i.version;
  }

  void report(const std::string& text) {
    found_.push_back({Violation::Kind::not_gathered, on_rank(rank_.index()) + text});
  }

  const Program& program_;
  const Rank rank_;
  std::vector<Violation>& found_;
  const bool always_whole_;          // Gather::after_step: the weights are whole except for a step
  std::map<StageId, int> gathered_;  // version of the copy that is there
  std::map<StageId, int> newest_;    // version of the shards
  std::map<StageId, int> unsummed_;  // gradients since the last reduce-scatter
};

}  // namespace

void check_sharding(const Program& program, Rank rank, std::vector<Violation>& found) {
  ShardingCheck(program, rank, found).run();
}

}  // namespace sluice
