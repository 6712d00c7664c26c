#include "harness/cli/sluice_main.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/error_words.h"
#include "harness/cli/command_line.h"
#include "harness/cli/exit_codes.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/run/job.h"

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

// The processes of an MPI job get the same command line: what is wrong with it is told once. They meet where
// run_command makes its Job; shards and --dry-run have none.
std::function<int()> parse_in_job(int argc, char** argv) {
  try {
    return parse_command_line(argc, argv);
  } catch (const InputError& error) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const bool joins = launch_from_environment().size > 1 && mpi_built() && !words.empty() && words.front() == "run" &&
                       std::ranges::none_of(words, [](const std::string& word) {
                         return word.starts_with("--shard") || word == "--dry-run";
                       });
    if (!joins) throw;
    Job job;
    try {
      agree_on_error(&job.processes(), [&] { throw InputError(error); });
    } catch (AgreedError& agreed) {
      print_while_joined(agreed, job.processes());
      throw;
    }
    throw;
  }
}

}  // namespace

int sluice_main(int argc, char** argv) {
  std::set_terminate(end_with_words);
  open_standard_files();
  // A file that may not grow any more (ulimit -f) is an error of write(), like a full disk, and is told as one.
  std::signal(SIGXFSZ, SIG_IGN);
  return guarded([&] { return parse_in_job(argc, argv)(); });
}

}  // namespace sluice
