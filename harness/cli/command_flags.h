// The commands of `sluice`: their flags, with help and examples.
#pragma once

#include "harness/cli/add_command.h"

namespace sluice {

// Adds every command to `app`. Parsing one sets `chosen` to its call. Both must live until then.
void add_commands(CLI::App& app, Chosen& chosen);

// The current name of a flag of a command that had another name before. Empty: there is none.
std::string new_name_of(const std::string& command, const std::string& flag);

}  // namespace sluice
