// The places of sends and receives among a rank's ops, for runtimes whose sends wait for their receives.
#pragma once

#include "harness/program/program.h"

namespace sluice {

// The same program with its sends and receives in an order without deadlock, both if sends are buffered and if they
// wait for their receives, in which both ends of every channel have its messages in the same order (check_messages).
// Such an order always exists. The program runs in steps: in each, every rank with all inputs runs its next op (or
// pair), the lowest rank first, and a message is placed on both ranks where its sender has made it, as in PyTorch's
// runtime (_add_send_recv). All ranks then have their messages in the order of one common list, so the earliest message
// that is not yet exchanged never waits for another. Receives are earlier than after lowering: a rank may wait in one
// that its next op does not need. The program must pass its check. Takes O(n log p) for n instructions of p ranks.
Program in_rendezvous_order(const Program& program);

}  // namespace sluice
