// The NCCL communicators of a program, and the order in which every rank makes its own.
//
// A channel (one sender, one receiver, first in first out) gets a communicator and a stream of its own. NCCL's send is
// a rendezvous: the kernel waits on its stream until the receiver has posted the matching receive, and whatever is
// queued behind it on that stream or on that communicator waits too. The sends of a Program never wait. One
// communicator per channel restores that: a waiting send delays nothing but later sends of its own channel, which
// arrive later anyway; two ranks that send to each other use two communicators, and neither direction blocks the other.
// The replicas of a stage get one more communicator, for their collectives.
//
// Making a communicator, and the first message of a channel, block the host until the other members do the same. Every
// rank therefore makes its communicators in ascending order of one common list: the first unfinished one can always be
// finished, because none of its members waits for an earlier one (resource ordering against deadlock).
#pragma once

#include <cstddef>
#include <vector>

#include "harness/program/program.h"

namespace sluice {

struct Communicator {
  enum class Use { channel, group } use = Use::channel;
  int index = 0;              // of the program's channels, or of its collective_groups()
  std::vector<Rank> members;  // member k is NCCL rank k; channel: the sender, then the receiver
  bool operator==(const Communicator&) const = default;
};

struct CommunicatorPlan {
  std::vector<Communicator> communicators;  // the common order
  std::vector<int> of_channel;              // index into communicators
  std::vector<int> of_group;                // by group; -1: of one rank
  std::vector<std::vector<int>> of_rank;    // ascending
  bool operator==(const CommunicatorPlan&) const = default;
};

CommunicatorPlan plan_communicators(const Program& program);

// Max over the ranks of the number of streams: one per communicator, and one for compute. A GPU runs at most 32 in
// parallel (CUDA_DEVICE_MAX_CONNECTIONS); more would share a queue, and a send that waits for its receiver would then
// block another channel.
std::size_t max_streams(const CommunicatorPlan& plan);
inline constexpr std::size_t kConcurrentStreams = 32;

}  // namespace sluice
