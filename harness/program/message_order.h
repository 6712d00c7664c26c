// Where sends and receives stand among a rank's ops, for runtimes whose sends wait for their receives.
#pragma once

#include "harness/program/program.h"

namespace sluice {

// The same program with its sends and receives in an order that ends whether sends are buffered or wait for their
// receives, and in which both ends of every channel have its messages in the same order (check_messages). There always
// is one. The program runs in steps: in each, every rank that has its inputs runs its next op (or pair), the lowest
// rank first, and a message stands on both ranks where its sender has made it, as PyTorch's runtime places them
// (_add_send_recv). All ranks then have their messages in the order of one common list, so that the earliest one not
// yet exchanged never waits for another. Receives come earlier than lowering puts them: a rank may wait in one that
// its next op does not need. The program must pass its check. Takes O(n log p) for n instructions of p ranks.
Program in_rendezvous_order(const Program& program);

}  // namespace sluice
