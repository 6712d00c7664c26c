// The program: it runs the command that the command line asks for, and every error becomes one line on stderr.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <system_error>

#include "harness/base/error.h"
#include "harness/cli/command_line.h"
#include "harness/exec/mpi/mpi.h"

namespace {

// Always one line, whatever the text holds.
void print_error(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  std::fprintf(stderr, "error: %s\n", text.c_str());
}

// Everything that was printed has arrived: a full disk behind a redirection must not pass for done.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  print_error(std::string("stdout: cannot be written: ") + std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return flushed(sluice::parse_command_line(argc, argv)());
  } catch (const sluice::AgreedError& e) {  // all processes of a job throw it: one line is enough
    if (sluice::launch_from_environment().rank == 0) print_error(e.what());
    return 2;
  } catch (const sluice::InputError& e) {
    print_error(e.what());
    return 2;
  } catch (const sluice::RunError& e) {
    print_error(e.what());
    return 1;
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
    return 1;
  } catch (const std::system_error& e) {
    // fmt::print, where what it prints no longer fits into the buffer.
    const bool full = std::ferror(stdout) != 0;
    print_error((full ? "stdout: cannot be written: " : "internal error: ") +
                (full ? e.code().message() : std::string(e.what())));
    return 1;
  } catch (const std::exception& e) {
    print_error(std::string("internal error: ") + e.what());
    return 1;
  }
}
