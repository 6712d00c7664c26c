// The commands of `sluice`: their flags, with help and examples.
#pragma once

#include "harness/cli/add_command.h"

namespace sluice {

// Puts every command to `app`. When one is parsed, `chosen` becomes the call of it. Both must live until then.
void add_commands(CLI::App& app, Chosen& chosen);

// A flag of a command that was called otherwise before: what to write now. Empty: never was one.
std::string new_name_of(const std::string& command, const std::string& flag);

}  // namespace sluice
