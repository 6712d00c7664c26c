#include "harness/cli/exit_codes.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "harness/base/error.h"
#include "harness/base/error_words.h"
#include "harness/base/read_text.h"
#include "harness/base/stop.h"
#include "harness/base/visible_text.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/exec/process_group.h"

namespace sluice {

void print_error(std::string text) {
  constexpr std::size_t kBeginning = 1500, kEnd = 500;
  if (text.size() > kBeginning + kEnd) text = text.substr(0, kBeginning) + " [...] " + text.substr(text.size() - kEnd);
  while (text.ends_with('\n')) text.pop_back();
  for (char& c : text)
    if (c == '\n') c = ' ';
  std::fprintf(stderr, "error: %s\n", visible(text).c_str());
}

void print_while_joined(AgreedError& error, ProcessGroup& processes) {
  if (processes.rank() == 0 && launch_from_environment().rank == 0) print_error(error.what());
  error.printed = true;
  processes.barrier();
}

namespace {

int stdout_failed(int error) {
  print_error("stdout: cannot be written: " + errno_text(error));
  return kFailed;
}

// Everything that was printed has arrived: a full disk behind a redirection must not pass for done.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return stdout_failed(errno);
}

int defect(const std::string& what) {
  print_error("internal error: " + what + "; this is a defect of sluice, please report it");
  return kDefect;
}

}  // namespace

int guarded(const std::function<int()>& command) {
  try {
    return flushed(command());
  } catch (const AgreedError& e) {  // all processes of a job throw it: one line is enough
    if (!e.printed && launch_from_environment().rank == 0) print_error(e.what());
    return kBadInput;
  } catch (const InputError& e) {
    print_error(e.what());
    return kBadInput;
  } catch (const RunError& e) {
    print_error(e.what());
    return kFailed;
  } catch (const Stopped& e) {
    print_error(e.what());
    return kFailed;
  } catch (const std::bad_alloc& e) {
    print_error(words_of(e));
    return kFailed;
  } catch (const std::filesystem::filesystem_error& e) {
    print_error(words_of(e));
    return kBadInput;
  } catch (const std::system_error& e) {
    // fmt::print, where what it prints no longer fits into the buffer.
    if (std::ferror(stdout) != 0) return stdout_failed(e.code().value());
    print_error(words_of(e));
    return kFailed;
  } catch (const std::logic_error& e) {
    return defect(e.what());
  } catch (const std::exception& e) {
    print_error(words_of(e));
    return kFailed;
  }
}

}  // namespace sluice
