// Stopping before the end, because of a signal or because a case has used up its time. Whatever may run for long
// (planners, searches, the virtual clock) asks check_stop() in its loops and needs to know no more.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "harness/base/quantities.h"

namespace sluice {

class Stopped : public std::runtime_error {
 public:
  enum class Kind { cancelled, timed_out };
  Stopped(Kind k, const std::string& reason) : std::runtime_error(reason), kind(k) {}
  Kind kind;
};

// While it lives, check_stop() on this thread throws once `cancel` is set (null: never) or `limit` has passed since the
// scope was made. A scope within another one obeys both. It belongs to the thread that made it, and ends before the one
// around it does.
class StopScope {
 public:
  StopScope(const std::atomic<bool>* cancel, std::optional<Seconds> limit);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  // What is left of its own limit and of those around it, at least 0; nothing where there is none.
  std::optional<Seconds> left() const;
  void check() const;  // throws Stopped

 private:
  const StopScope* outer_;
  const std::atomic<bool>* cancel_;
  std::optional<Seconds> limit_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// While it lives, nothing stops this thread: for work that all processes of a job must do, or none.
class NoStopScope {
 public:
  explicit NoStopScope(bool active);
  ~NoStopScope();
  NoStopScope(const NoStopScope&) = delete;
  NoStopScope& operator=(const NoStopScope&) = delete;

 private:
  const StopScope* outer_;
};

// What is left to this thread by the limits of its scopes; nothing: it has none.
std::optional<Seconds> time_left();

// Throws Stopped if the scopes of this thread say so. Cheap enough for a loop whose round takes 20 ns: the clock is
// read at every 64th call.
void check_stop();

// The same for rounds that take long: the clock is read at every call.
void stop_now();

// Set by the first Ctrl-C, SIGTERM or SIGHUP once handle_signals() was called; the second ends the process at once.
const std::atomic<bool>& interrupted();
void handle_signals();

// For work that cannot ask: this long after the first signal the process says `message` on stderr and ends with exit
// code 1, whatever it is doing. Nothing that is stored is in danger: the store survives a kill.
void end_after_signal(Seconds grace, const std::string& message);

// A folder with temporary files, which end_after_signal removes before it ends the process.
void set_scratch_folder(const std::filesystem::path& folder);

}  // namespace sluice
