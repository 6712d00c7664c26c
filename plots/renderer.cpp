// See renderer.h.
#include "plots/renderer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "harness/base/error.h"

extern char** environ;

namespace sluice {

namespace fs = std::filesystem;

void write_whole_file(const fs::path& path, const std::string& content) {
  const fs::path temporary = path.string() + ".tmp";
  {
    std::ofstream file(temporary, std::ios::binary);
    file << content;
    file.flush();
    if (!file) {
      std::error_code ignored;
      fs::remove(temporary, ignored);
      throw RunError(path.string() + ": cannot be written; is the disk full?");
    }
  }
  fs::rename(temporary, path);
}

std::string read_whole_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

namespace {

struct Ended {
  int error = 0;  // errno if it could not be started
  int code = 0;   // exit code, or 128 + signal
};

// Runs a command without a shell; both its outputs go to `log`.
Ended run(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return {error, 0};
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return {errno, 0};
  return {0, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

}  // namespace

void render_charts(const Renderer& renderer, const fs::path& charts, const fs::path& bundle) {
  const fs::path log = charts / ".render.log";
  std::vector<std::string> command = renderer;
  command.push_back(charts.string());
  if (!bundle.empty()) command.insert(command.end(), {"--bundle", bundle.string()});
  const Ended ended = renderer.empty() ? Ended{ENOENT, 0} : run(command, log);
  const std::string output = read_whole_file(log).substr(0, 2000);
  std::error_code ignored;
  fs::remove(log, ignored);
  if (ended.error == 0 && ended.code == 0) return;

  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + word;
  const std::string where = "the charts are written as Vega-Lite specs to " + charts.string() + ", but ";
  const std::string python = renderer.empty() ? "python3" : renderer.front();
  // 3: render.py says that its package is missing. 127: what env(1) and shells say for "not found".
  if (ended.error == 0 && ended.code == 3)
    throw RunError(where + "the renderer lacks a package; run: " + python + " -m pip install vl-convert-python");
  if (ended.error != 0 || ended.code == 127)
    throw RunError(fmt::format(
        "{}the renderer '{}' cannot be started ({}); run ./quickstart to set it up, or: "
        "python3 -m pip install vl-convert-python && python3 plots/render.py {}",
        where, python, std::system_category().message(ended.error ? ended.error : ENOENT), charts.string()));
  throw RunError(fmt::format("{}rendering ended with code {}; run: {}\n{}", where, ended.code, line, output));
}

}  // namespace sluice
