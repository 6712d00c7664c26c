// The `sluice` program, for main() and for tests that run commands without starting a process.
#pragma once

namespace sluice {

// Runs the command of the arguments and returns its exit code; every error becomes one line on stderr. Sets the
// process's terminate handler, ignores SIGXFSZ, and opens /dev/null for closed standard files.
int sluice_main(int argc, char** argv);

}  // namespace sluice
