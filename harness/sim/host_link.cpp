#include "harness/sim/host_link.h"

#include <algorithm>

#include "harness/base/error.h"

namespace sluice {

HostLinks::HostLinks(const Program& program, const Costs& costs) : program_(program), costs_(costs) {
  if (!program.offloads) return;
  if (costs.host_copies.empty())
    throw InputError("cluster", "a system moves activations to the host, and a device has no link to it",
                     "add \"host_bandwidth\": \"16GB/s\" (each way) to the device, or host=16GB/s to flat:N");
  microbatches_ = static_cast<std::size_t>(program.microbatches);
  links_.resize(program.ranks.size());
  for (Link& link : links_) link.copied.assign(program.graph.size() * microbatches_, 0);
  trace_.resize(program.ranks.size());
}

double HostLinks::move(std::size_t r, const Instruction& i, double now, bool traced) {
  double& over = copied(r, i);
  if (i.opcode == Opcode::stash_free) return std::max(now, over);
  Link& link = links_[r];
  const double start = std::max(now, link.free_at);
  link.free_at = over = start + costs_.at(program_, i.micro).host_copies[i.stage.index()].value;
  end_ = std::max(end_, over);
  if (traced) trace_[r].push_back({i, start, over});
  return now;
}

}  // namespace sluice
