// What `sluice` does, for main() and for tests that run commands without starting a program.
#pragma once

namespace sluice {

// Runs the command that the arguments ask for and returns its exit code; every error becomes one line on stderr.
// Sets the process's terminate handler, ignores SIGXFSZ, and opens /dev/null for standard files that are closed.
int sluice_main(int argc, char** argv);

}  // namespace sluice
