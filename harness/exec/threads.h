// Ranks as threads of one process: a single-producer single-consumer ring a channel, handles passed
// without a copy.
#pragma once

#include <memory>

#include "harness/core/program.h"
#include "harness/exec/transport.h"

namespace sluice {

std::unique_ptr<Transport> make_thread_transport(const Program& program);

}  // namespace sluice
