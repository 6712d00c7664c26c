// `sluice check NAME`: the contract in a child process, so that an endless loop, a crash or a schedule without end of a
// system that is being written ends with a sentence.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>

#include "harness/base/error.h"
#include "harness/base/run_program.h"
#include "harness/case/contract.h"
#include "harness/cli/check.h"
#include "harness/cli/commands.h"

namespace sluice {

namespace {

std::string counted(std::size_t n, const char* noun) { return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s"); }

// The report as a person reads it.
std::string text_of(const System& system, const ContractReport& report) {
  std::string text;
  for (const ContractFault& fault : report.faults) {
    text += fault.problem.empty() ? "fault: " : "fault at " + fault.problem + ": ";
    text += fault.text + "\n";
    for (std::size_t begin = 0; begin < fault.drawing.size();) {
      const std::size_t end = std::min(fault.drawing.find('\n', begin), fault.drawing.size());
      text += "  " + fault.drawing.substr(begin, end - begin) + "\n";
      begin = end + 1;
    }
  }
  for (const auto& [rejection, problem] : report.rejections)
    text += "rejects " + problem + " (and others): " + rejection + "\n";
  text += report.needs_buffered_sends.empty()
              ? "messages: no deadlock, with buffered sends and with sends that wait for their receives\n"
              : "messages: no deadlock with buffered sends. If sends wait for their receives, only in rendezvous order "
                "(harness/README.md: Messages); the executor's own order would deadlock: " +
                    report.needs_buffered_sends + "\n";
  for (const std::string& note : report.notes) text += "note: " + note + "\n";
  return text + fmt::format("{}: {}, {} accepted, {} rejected\n", system.name, counted(report.faults.size(), "fault"),
                            counted(static_cast<std::size_t>(report.taken), "problem"), report.rejected);
}

void send(int pipe, char kind, const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  std::string message(1, kind);
  message.append(reinterpret_cast<const char*>(&size), sizeof size);
  message += text;
  for (std::size_t sent = 0; sent < message.size();) {
    const ssize_t n = ::write(pipe, message.data() + sent, message.size() - sent);
    if (n <= 0) ::_exit(3);
    sent += static_cast<std::size_t>(n);
  }
}

// Lets this process map 8 GiB more than it has mapped, so that a schedule that grows for ever ends. What is mapped
// already counts for nothing: sanitizers and CUDA reserve terabytes of addresses before main() begins.
void limit_memory() {
  std::size_t mapped_pages = 0;
  std::ifstream("/proc/self/statm") >> mapped_pages;
  if (mapped_pages == 0) return;  // no /proc: the limit on time remains
  const rlim_t most = mapped_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{8} << 30);
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

[[noreturn]] void run_child(int pipe, const System& system) {
  ::signal(SIGINT, SIG_DFL);
  limit_memory();
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ContractOptions options;
  options.progress = [pipe](const std::string& problem) { send(pipe, 'p', problem); };
  try {
    const ContractReport report = check_contract(system, options);
    send(pipe, report.faults.empty() ? 'y' : 'n', text_of(system, report));
  } catch (const std::exception& e) {
    send(pipe, 'n', fmt::format("fault: {}\n", e.what()));
  }
  ::_exit(0);
}

}  // namespace

CheckOutcome check_system(const System& system, double seconds) {
  int ends[2];
  if (::pipe(ends) != 0) throw RunError(std::string("pipe: ") + std::strerror(errno));
  std::fflush(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) throw RunError("no more processes can be started here (ulimit -u); end others first");
  if (child == 0) {
    end_with_parent(parent);
    ::close(ends[0]);
    run_child(ends[1], system);
  }
  ::close(ends[1]);
  std::string received, problem;
  CheckOutcome outcome;
  bool finished = false;
  using Steady = std::chrono::steady_clock;
  auto since = Steady::now();  // the present problem was begun
  while (true) {
    const double left = seconds - std::chrono::duration<double>(Steady::now() - since).count();
    pollfd waiting{ends[0], POLLIN, 0};
    const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(left * 1000) + 1) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      ::kill(child, SIGKILL);
      outcome.text = fmt::format(
          "fault at {}: no answer within {:g} seconds: a loop of its plan, schedule or theory does not end\n", problem,
          seconds);
      break;
    }
    char buffer[65'536];
    const ssize_t n = ::read(ends[0], buffer, sizeof buffer);
    if (n <= 0) break;
    received.append(buffer, static_cast<std::size_t>(n));
    std::uint32_t size = 0;
    while (received.size() >= 1 + sizeof size) {
      std::memcpy(&size, received.data() + 1, sizeof size);
      if (received.size() < 1 + sizeof size + size) break;
      const char kind = received[0];
      const std::string text = received.substr(1 + sizeof size, size);
      received.erase(0, 1 + sizeof size + size);
      since = Steady::now();
      if (kind == 'p') {
        problem = text;
      } else {
        finished = true;
        outcome = {kind == 'y', text};
      }
    }
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!finished && outcome.text.empty())
    outcome.text = fmt::format("fault at {}: it ends the program{}\n", problem,
                               WIFSIGNALED(status) ? fmt::format(" ({})", ::strsignal(WTERMSIG(status))) : "");
  return outcome;
}

int check_command(const CheckArguments& a) {
  if (!(a.seconds > 0) || a.seconds > 1e6) throw InputError("--seconds", "must be greater than 0");
  bool all = true;
  for (const System* system : systems_named(a.systems, /*inference=*/true, "check")) {
    const CheckOutcome outcome = check_system(*system, a.seconds);
    fmt::print("{}", outcome.text);
    all = all && outcome.holds;
  }
  return all ? 0 : 1;
}

}  // namespace sluice
