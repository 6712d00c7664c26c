// The commands of `sluice`: their flags, with help and examples.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace sluice {

// The command that the arguments choose, once they are parsed.
using Chosen = std::function<int()>;

// Puts every command to `app`. When one is parsed, `chosen` becomes the call of it. Both must live until then.
void add_commands(CLI::App& app, Chosen& chosen);

// A flag of a command that was called otherwise before: what to write now. Empty: never was one.
std::string new_name_of(const std::string& command, const std::string& flag);

}  // namespace sluice
