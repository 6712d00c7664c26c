// Stopping early, because of a signal or because a case has used up its time. Code that may run for long (planners,
// searches, the virtual clock) calls check_stop() in its loops.
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

// During its life, check_stop() on this thread throws once `cancel` is set (null: never) or `limit` has passed since
// the scope was made. An inner scope also obeys the outer ones. It belongs to the thread that made it, and ends before
// the outer scope.
class StopScope {
 public:
  StopScope(const std::atomic<bool>* cancel, std::optional<Seconds> limit);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  // Time left of its own limit and of those of outer scopes, at least 0; nullopt: no limit.
  std::optional<Seconds> left() const;
  void check() const;  // throws Stopped

 private:
  const StopScope* outer_;
  const std::atomic<bool>* cancel_;
  std::optional<Seconds> limit_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// During its life, nothing stops this thread: for work that all processes of a job must do, or none.
class NoStopScope {
 public:
  explicit NoStopScope(bool active);
  ~NoStopScope();
  NoStopScope(const NoStopScope&) = delete;
  NoStopScope& operator=(const NoStopScope&) = delete;

 private:
  const StopScope* outer_;
};

// Time left to this thread by the limits of its scopes; nullopt: no limit.
std::optional<Seconds> time_left();

// Throws Stopped if a scope of this thread requires it. Cheap enough for a loop of 20 ns: it reads the clock at every
// 64th call.
void check_stop();

// The same for slow loops: it reads the clock at every call.
void stop_now();

// Set by the first Ctrl-C, SIGTERM or SIGHUP after handle_signals(); the second ends the process at once.
const std::atomic<bool>& interrupted();
void handle_signals();

// For code that cannot check: `grace` after the first signal the process prints `message` on stderr and ends with exit
// code 1, at any point of its work. Stored records are safe: the store survives a kill.
void end_after_signal(Seconds grace, const std::string& message);

// A folder with temporary files, which end_after_signal removes before it ends the process.
void set_scratch_folder(const std::filesystem::path& folder);

}  // namespace sluice
