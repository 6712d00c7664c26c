#include "harness/sim/communication.h"

#include <algorithm>
#include <map>

namespace sluice {

std::vector<SentBytes> sent_bytes(const Program& program, const Costs& costs) {
  std::map<std::pair<StageId, StageId>, double> edges;
  for (const SimulatedEdge& e : costs.edges) edges[std::minmax(e.from, e.to)] += static_cast<double>(e.bytes.value);
  const auto message = [&](const Instruction& i) {
    const auto found = edges.find(std::minmax(i.stage, i.peer_stage));
    return found == edges.end() ? 0 : found->second * micros_per_message(program.graph, i.stage, i.peer_stage);
  };
  const auto ring = [&](const Instruction& i) {
    const auto n = static_cast<double>(program.placement.stages[i.stage.index()].size());
    return static_cast<double>(costs.stages[i.stage.index()].parameters.value) * (n - 1) / n;
  };
  std::vector<SentBytes> result(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    SentBytes& sent = result[r];
    for (const Instruction& i : program.ranks[r]) {
      if (i.opcode == Opcode::send_activation || i.opcode == Opcode::send_gradient)
        sent.messages += message(i);
      else if (i.opcode == Opcode::gather_weights)
        sent.gathers += ring(i);
      else if (i.opcode == Opcode::reduce_scatter)
        sent.reductions += ring(i);
      else if (i.opcode == Opcode::reduce_gradients)
        sent.reductions += 2 * ring(i);
    }
    const double updates = std::max(program.updates, 1);
    sent.messages /= updates;
    sent.gathers /= updates;
    sent.reductions /= updates;
  }
  return result;
}

}  // namespace sluice
