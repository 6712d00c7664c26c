#include "harness/exec/nccl/communicators.h"

#include <algorithm>

namespace sluice {

CommunicatorPlan plan_communicators(const Program& program) {
  CommunicatorPlan plan;
  plan.of_rank.resize(program.rank_count());
  const auto add = [&](Communicator communicator) {
    const auto number = static_cast<int>(plan.communicators.size());
    for (const Rank r : communicator.members) plan.of_rank[r.index()].push_back(number);
    plan.communicators.push_back(std::move(communicator));
    return number;
  };
  for (std::size_t c = 0; c < program.channels.size(); ++c) {
    const Channel& channel = program.channels[c];
    plan.of_channel.push_back(
        add({.use = Communicator::Use::channel, .index = static_cast<int>(c), .members = {channel.from, channel.to}}));
  }
  const std::vector<std::vector<Rank>> groups = collective_groups(program);
  for (std::size_t g = 0; g < groups.size(); ++g)
    plan.of_group.push_back(
        groups[g].size() < 2
            ? -1
            : add({.use = Communicator::Use::group, .index = static_cast<int>(g), .members = groups[g]}));
  return plan;
}

std::size_t max_streams(const CommunicatorPlan& plan) {
  std::size_t most = 0;
  for (const std::vector<int>& own : plan.of_rank) most = std::max(most, own.size());
  return most + 1;
}

}  // namespace sluice
