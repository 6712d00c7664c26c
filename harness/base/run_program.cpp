#include "harness/base/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

int milliseconds_left(Clock::time_point begin, Seconds limit) {
  if (limit.value <= 0) return -1;
  const double gone = std::chrono::duration<double>(Clock::now() - begin).count();
  return static_cast<int>(std::clamp(1e3 * (limit.value - gone), 0.0, 1e9));
}

// Reads until the other end is closed; false: the time ran out first.
bool read_output(int pipe, const ProgramOptions& options, Clock::time_point begin, std::string& output) {
  std::array<char, 4096> block;
  for (;;) {
    pollfd wait{pipe, POLLIN, 0};
    const int ready = ::poll(&wait, 1, milliseconds_left(begin, options.limit));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return false;
    const ssize_t n = ::read(pipe, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    const std::size_t room = options.max_output - std::min(options.max_output, output.size());
    output.append(block.data(), std::min(room, static_cast<std::size_t>(n)));
  }
}

// In the child, between fork and exec: only calls that are safe while other threads hold locks. Writes errno to
// `failure` where the program cannot be started.
[[noreturn]] void become(char* const* arguments, const ProgramOptions& options, int output, int failure, pid_t parent) {
  end_with_parent(parent);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(options.with_errors ? output : nothing, STDERR_FILENO);
  if (nothing > STDERR_FILENO) ::close(nothing);
  ::execvp(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

void end_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);  // it has ended already
}

ProgramEnd run_program(const std::vector<std::string>& words, const ProgramOptions& options) {
  ProgramEnd end;
  if (words.empty()) return {.error = ENOENT};
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::array<int, 2> pipe{}, failure{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {.error = errno};
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) {
    end.error = errno;
    for (const int file : pipe) ::close(file);
    return end;
  }
  const Clock::time_point begin = Clock::now();
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) become(arguments.data(), options, pipe[1], failure[1], parent);
  if (child < 0) end.error = errno;
  ::close(pipe[1]);
  ::close(failure[1]);
  if (child > 0) {  // ends with the exec, which closes the other end
    int error = 0;
    ssize_t n;
    do n = ::read(failure[0], &error, sizeof error);
    while (n < 0 && errno == EINTR);
    if (n == sizeof error) {
      end.error = error;
      ::waitpid(child, nullptr, 0);
    }
  }
  ::close(failure[0]);
  if (end.error == 0) {
    end.out_of_time = !read_output(pipe[0], options, begin, end.output);
    if (end.out_of_time) ::kill(child, SIGKILL);
  }
  ::close(pipe[0]);
  if (end.error != 0) return end;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return {.error = errno};
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

}  // namespace sluice
