// Ranks as threads of one process: a single-producer single-consumer ring a channel, handles passed
// without a copy.
#pragma once

#include <memory>

#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

std::unique_ptr<Transport> make_thread_transport(const Program& program);

}  // namespace sluice
