#include "harness/case/this_machine.h"

#include <algorithm>
#include <thread>

#include "harness/base/json.h"
#include "harness/exec/session.h"
#include "harness/model/throttle.h"
#include "harness/sim/latency_cluster.h"

namespace sluice {

// What the case slows down for good, as planners see it.
static void slow_down(Cluster& cluster, const RunCase& c) {
  const std::vector<double> slowdowns = parse_slowdowns(c.slowdown, c.ranks, "slowdown");
  for (std::size_t d = 0; d < slowdowns.size(); ++d) cluster.devices[d].speed /= slowdowns[d];
  const Throttle throttle = Throttle::parse(c.throttle, c.ranks, "throttle");
  if (throttle.empty()) return;
  cluster.one_machine.reset();  // its messages pass through no link
  list_links(cluster);
  for (Link& link : cluster.links) {
    const LinkThrottle t = throttle.between(link.from, link.to);
    link.bandwidth = std::min(link.bandwidth, t.rate);
    link.latency += t.latency;
  }
}

// Ranks take this machine's GPUs in equal parts (device_of_rank in exec/torch).
static void add_gpus(Cluster& cluster, int ranks) {
  const Json gpus = describe_cuda()["devices"];
  const auto n = static_cast<int>(gpus.size());
  for (Device& device : cluster.devices) {
    device.name = "GPU of this machine";
    if (n > 0) device.memory = Bytes(gpus[0]["memory_bytes"].get<std::int64_t>() / ((ranks + n - 1) / n));
  }
  if (n > 0 && n < ranks) cluster.one_machine = Cluster::OneMachine{.cores = n};
}

Cluster this_machine(const RunCase& c) {
  Cluster cluster = latency_cluster(c.ranks, Seconds(2e-6));
  cluster.name = kThisMachine;
  for (Device& device : cluster.devices) {
    device.name = "cpu thread";
    // Shared by all ranks: it is the operating system that rejects, not the plan.
    device.memory = Bytes(std::int64_t{1} << 50);
  }
  if (is_on_gpus(c))
    add_gpus(cluster, c.ranks);
  else
    cluster.one_machine = Cluster::OneMachine{
        .between_processes = c.cluster == kThisMachineProcesses || c.transport == TransportKind::mpi,
        .cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()))};
  slow_down(cluster, c);
  return cluster;
}

}  // namespace sluice
