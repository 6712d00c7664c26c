// A transport whose messages take as long as on slower links: each waits, behind the ones before it on its channel, for
// the tokens of the link's bucket, and for the latency. Sends still do not wait.
#pragma once

#include <functional>
#include <memory>

#include "harness/exec/disturbance.h"
#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

// bytes_of: how much a message holds. program and disturbance outlive the transport. A message is given to `inner`, on
// a thread of its own, when it would arrive, so that it works between threads and between processes.
std::unique_ptr<Transport> make_throttled_transport(std::unique_ptr<Transport> inner, const Program& program,
                                                    const Disturbance& disturbance,
                                                    std::function<double(const Message&)> bytes_of);

}  // namespace sluice
