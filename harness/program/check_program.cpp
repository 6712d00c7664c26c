#include "harness/program/check_program.h"

#include <algorithm>
#include <map>
#include <set>

#include "harness/base/error.h"
#include "harness/program/check_program_parts.h"

namespace sluice {

namespace {

// Whether a message's channel exists and has the message's rank at the right end.
bool uses_own_channel(const Program& program, std::size_t rank, const Instruction& i) {
  if (i.channel < 0 || static_cast<std::size_t>(i.channel) >= program.channels.size()) return false;
  const Channel& channel = program.channels[i.channel];
  return (is_send(i.opcode) ? channel.from : channel.to) == Rank(rank);
}

void check_own_channels(const Program& program, std::size_t rank, std::vector<Violation>& found) {
  for (const Instruction& i : program.ranks[rank])
    if (is_message(i.opcode) && !uses_own_channel(program, rank, i))
      found.push_back(
          {Violation::Kind::wrong_rank, on_rank(rank) + to_text(i) + " uses a channel that is not its own"});
}

// Every version that a rank reads exists then: the newest, an older one of this run, or one retained from the last run.
void check_versions(const Program& program, std::size_t rank, std::vector<Violation>& found) {
  std::map<StageId, std::int32_t> newest;
  std::set<std::pair<StageId, std::int32_t>> predicted;
  for (const Instruction& i : program.ranks[rank]) {
    if (i.opcode == Opcode::optimizer_step) newest[i.stage] = i.version;
    if (!is_compute(i.opcode)) continue;
    const std::int32_t now = newest[i.stage];
    const int retained =
        i.stage.index() < program.retained_versions.size() ? program.retained_versions[i.stage.index()] : 0;
    const auto reads = [&] {
      return on_rank(rank) + to_text(i) + " reads weight version " + std::to_string(i.version) + " of stage " +
             std::to_string(i.stage.value);
    };
    if (i.version < -retained || i.version > now)
      found.push_back({Violation::Kind::missing_version, reads() + ", whose newest is " + std::to_string(now)});
    else if (i.prediction >= 0 && predicted.insert({i.stage, i.prediction}).second && i.version != now)
      found.push_back({Violation::Kind::missing_version,
                       reads() + " to predict from, but the optimizer is at version " + std::to_string(now)});
  }
}

// What is sent on a channel is what is received from it, in the same order.
void check_both_ends(const Program& program, InstructionText text, std::vector<Violation>& found) {
  std::vector<std::vector<const Instruction*>> sent(program.channels.size()), received(program.channels.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    for (const Instruction& i : program.ranks[r])
      if (is_message(i.opcode) && uses_own_channel(program, r, i))
        (is_send(i.opcode) ? sent : received)[i.channel].push_back(&i);
  for (std::size_t c = 0; c < program.channels.size(); ++c) {
    const std::string name = "channel " + std::to_string(program.channels[c].from.value) + " -> " +
                             std::to_string(program.channels[c].to.value) + ": ";
    if (sent[c].size() != received[c].size()) {
      found.push_back({Violation::Kind::deadlock, name + std::to_string(sent[c].size()) + " sends, " +
                                                      std::to_string(received[c].size()) + " receives"});
      continue;
    }
    for (std::size_t k = 0; k < sent[c].size(); ++k) {
      const Instruction &s = *sent[c][k], &d = *received[c][k];
      if (d.opcode == matching_receive(s.opcode) && s.stage == d.peer_stage && s.peer_stage == d.stage &&
          s.micro == d.micro)
        continue;
      found.push_back({Violation::Kind::wrong_order, name + "message " + std::to_string(k) + " is " + text(s) +
                                                         ", but its receiver expects " + text(d)});
      break;
    }
  }
}

// The members of a group have the same collectives in the same order.
void check_collectives(const Program& program, std::vector<Violation>& found) {
  const std::vector<std::vector<Rank>> groups = collective_groups(program);
  std::map<std::pair<std::size_t, Rank>, std::vector<const Instruction*>> lists;
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    for (const Instruction& i : program.ranks[r])
      if (is_collective(i.opcode)) lists[{static_cast<std::size_t>(i.channel), Rank(r)}].push_back(&i);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& members = groups[g];
    const auto& first = lists[{g, members.front()}];
    for (const Rank member : members) {
      const auto& list = lists[{g, member}];
      const auto differs = std::ranges::mismatch(
          first, list, {}, [](const Instruction* i) { return i->opcode; },
          [](const Instruction* i) { return i->opcode; });
      if (differs.in1 == first.end() && differs.in2 == list.end()) continue;
      const auto at = [](const auto& it, const auto& of) {
        return it == of.end() ? std::string("at its end") : "at " + to_text(**it);
      };
      found.push_back(
          {Violation::Kind::deadlock, "collective " + std::to_string(differs.in1 - first.begin()) + " of " +
                                          (g < program.graph.size() ? "stage " + std::to_string(g) : "the steps") +
                                          ": rank " + std::to_string(members.front().value) + " is " +
                                          at(differs.in1, first) + ", rank " + std::to_string(member.value) + " " +
                                          at(differs.in2, list) + "; its ranks need the same number of micro-batches"});
      break;
    }
  }
}

}  // namespace

std::vector<Violation> check(const Program& program) {
  std::vector<Violation> found;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    check_own_channels(program, r, found);
    check_versions(program, r, found);
  }
  check_both_ends(program, plain_text, found);
  if (program.sharding.active()) {
    for (std::size_t r = 0; r < program.ranks.size(); ++r) check_sharding(program, Rank(r), found);
    check_collectives(program, found);
  }
  if (program.offloads)
    for (std::size_t r = 0; r < program.ranks.size(); ++r) check_stash_moves(program, Rank(r), found);
  if (found.empty()) run_without_time(program, SendEnd::buffered, plain_text, found);
  return found;
}

std::vector<Violation> check_messages(const Program& program, SendEnd sends, InstructionText text) {
  std::vector<Violation> found;
  check_both_ends(program, text, found);
  if (found.empty()) run_without_time(program, sends, text, found);
  return found;
}

Program checked(Program program) {
  const bool replicated =
      std::ranges::any_of(program.placement.stages, [](const auto& ranks) { return ranks.size() > 1; });
  const bool waits = program.rule.synchronous() ? replicated && program.sharding.active()
                                                : replicated || !program.placement.weight_gradient_ranks.empty();
  if (!waits && !program.offloads) return program;
  const auto found = check(program);
  if (!found.empty()) throw InputError("schedule", found.front().text);
  return program;
}

}  // namespace sluice
