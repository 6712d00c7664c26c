#include "harness/base/stop.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <mutex>
#include <thread>

namespace sluice {

static thread_local const StopScope* current_scope = nullptr;

StopScope::StopScope(const std::atomic<bool>* cancel, std::optional<Seconds> limit)
    : outer_(current_scope), cancel_(cancel), limit_(limit) {
  current_scope = this;
}

StopScope::~StopScope() { current_scope = outer_; }

std::optional<Seconds> StopScope::left() const {
  std::optional<Seconds> least = outer_ ? outer_->left() : std::nullopt;
  if (!limit_) return least;
  const double gone = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const Seconds own(std::max(0.0, limit_->value - gone));
  return least ? std::min(*least, own) : own;
}

std::optional<Seconds> time_left() { return current_scope ? current_scope->left() : std::nullopt; }

void StopScope::check() const {
  if (cancel_ && cancel_->load(std::memory_order_relaxed)) throw Stopped(Stopped::Kind::cancelled, "interrupted");
  if (limit_ && std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() >= limit_->value)
    throw Stopped(Stopped::Kind::timed_out, "took longer than " + to_text(*limit_));
  if (outer_) outer_->check();
}

NoStopScope::NoStopScope(bool active) : outer_(current_scope) {
  if (active) current_scope = nullptr;
}

NoStopScope::~NoStopScope() { current_scope = outer_; }

void check_stop() {
  static thread_local unsigned calls = 0;
  if (current_scope && ++calls % 64 == 0) current_scope->check();
}

void stop_now() {
  if (current_scope) current_scope->check();
}

static std::atomic<bool> interrupt_flag{false};

const std::atomic<bool>& interrupted() { return interrupt_flag; }

void handle_signals() {
  const auto handler = [](int signal) {
    if (interrupt_flag.exchange(true)) {
      std::signal(signal, SIG_DFL);
      std::raise(signal);
    }
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (signal == SIGHUP && action.sa_handler == SIG_IGN) continue;  // nohup(1) has chosen so
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

static std::mutex scratch_mutex;
static std::filesystem::path scratch_folder;

void set_scratch_folder(const std::filesystem::path& folder) {
  const std::lock_guard lock(scratch_mutex);
  scratch_folder = folder;
}

void end_after_signal(Seconds grace, const std::string& message) {
  std::thread([grace, message] {
    while (!interrupt_flag.load()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::this_thread::sleep_for(std::chrono::duration<double>(grace.value));
    const std::string line = message + "\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    const std::lock_guard lock(scratch_mutex);
    std::error_code none;  // twice: another thread may still write there
    for (int i = 0; i < 2 && !scratch_folder.empty(); ++i) std::filesystem::remove_all(scratch_folder, none);
    ::_exit(1);
  }).detach();
}

}  // namespace sluice
