// Runs another program with a list of arguments, without a shell.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "harness/base/quantities.h"

namespace sluice {

struct ProgramEnd {
  int error = 0;  // errno if it could not be started
  int code = 0;   // its exit code, or 128 + the signal that ended it
  bool out_of_time = false;
  std::string output;  // the first `max_output` bytes
  bool ok() const { return error == 0 && code == 0; }
};

struct ProgramOptions {
  bool with_errors = false;  // its stderr is part of the output; false: it is discarded
  std::size_t max_output = 1 << 20;
  Seconds limit{0};  // killed after this long; 0: never
};

// words: the program (searched in PATH if it has no slash) and its arguments. Its stdin is empty. Returns when it has
// ended. A signal that ends this process also ends the program.
ProgramEnd run_program(const std::vector<std::string>& words, const ProgramOptions& options = {});

// Call in a forked child: it gets SIGTERM when the forking thread ends. parent: the process that forked it.
void end_with_parent(pid_t parent);

}  // namespace sluice
