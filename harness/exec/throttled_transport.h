// A transport whose messages take the time of slower links: each waits, after the earlier ones of its channel, for the
// tokens of the link's bucket, and for the latency. Sends still do not wait.
#pragma once

#include <functional>
#include <memory>

#include "harness/exec/disturbance.h"
#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

// bytes_of: bytes of a message. program and disturbance outlive the transport. A separate thread gives a message to
// `inner` at its arrival time, so it works between threads and between processes.
std::unique_ptr<Transport> make_throttled_transport(std::unique_ptr<Transport> inner, const Program& program,
                                                    const Disturbance& disturbance,
                                                    std::function<double(const Message&)> bytes_of);

}  // namespace sluice
