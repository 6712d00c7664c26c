// The command line of `sluice`: its commands and flags, their help, and what is said about a wrong one.
#pragma once

#include <functional>

namespace sluice {

// The command that the arguments ask for, to be called for its exit code; help that they ask for is printed first.
// Throws InputError.
std::function<int()> parse_command_line(int argc, char** argv);

}  // namespace sluice
