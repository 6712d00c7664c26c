// The command line of `sluice`: its commands and flags, their help, and the errors of a wrong one.
#pragma once

#include <functional>

namespace sluice {

// The command of the arguments; calling it returns its exit code. Requested help is printed first. Throws InputError.
std::function<int()> parse_command_line(int argc, char** argv);

}  // namespace sluice
