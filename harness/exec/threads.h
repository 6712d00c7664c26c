// The transport between ranks that are threads of one process: one single-producer single-consumer ring per channel;
// messages are handed over without a copy.
#pragma once

#include <memory>

#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

std::unique_ptr<Transport> make_thread_transport(const Program& program);

}  // namespace sluice
