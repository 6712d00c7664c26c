#include "harness/base/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

extern char** environ;

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
    const std::size_t room = options.most_output - std::min(options.most_output, output.size());
    output.append(block.data(), std::min(room, static_cast<std::size_t>(n)));
  }
}

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& words, const ProgramOptions& options) {
  ProgramEnd end;
  if (words.empty()) return {.error = ENOENT};
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {.error = errno};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  if (options.with_errors)
    ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDERR_FILENO);
  else
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const Clock::time_point begin = Clock::now();
  pid_t child = 0;
  end.error = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
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
