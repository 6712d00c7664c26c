#include "harness/cli/sluice_main.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "harness/base/error_words.h"
#include "harness/cli/command_line.h"
#include "harness/cli/exit_codes.h"

namespace sluice {

namespace {

// Where the caller has closed stdin, stdout or stderr, the first file that is opened would take its number, and what is
// printed would go into that file: into the records, for one.
void open_standard_files() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(file, F_GETFD) < 0 && errno == EBADF)
        // The lowest free number: this one.
        [[maybe_unused]]
      const int opened = ::open("/dev/null", file == STDIN_FILENO ? O_RDONLY : O_WRONLY);
}

// An exception that no command can catch, of a thread or of a destructor: in our words, where it has some.
[[noreturn]] void end_with_words() {
  const std::exception_ptr error = std::current_exception();
  if (error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {  // no memory for the usual way to say it
      std::fprintf(stderr, "error: %s\n", kOutOfMemory);
      std::_Exit(kFailed);
    } catch (...) {
      std::_Exit(guarded([&]() -> int { std::rethrow_exception(error); }));
    }
  }
  print_error("internal error: ended without a reason; this is a defect of sluice, please report it");
  std::_Exit(kDefect);
}

}  // namespace

int sluice_main(int argc, char** argv) {
  std::set_terminate(end_with_words);
  open_standard_files();
  // A file that may not grow any more (ulimit -f) is an error of write(), like a full disk, and is told as one.
  std::signal(SIGXFSZ, SIG_IGN);
  return guarded([&] { return parse_command_line(argc, argv)(); });
}

}  // namespace sluice
