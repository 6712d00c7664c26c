// The flags of `sluice trace`.
#pragma once

#include "harness/cli/add_command.h"

namespace sluice {

void add_trace_command(CLI::App& app, Chosen& chosen);

}  // namespace sluice
