#include "harness/run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/quantities.h"

namespace sluice {

ProgressStyle parse_progress(const std::string& text) {
  if (text == "auto") return isatty(STDERR_FILENO) ? ProgressStyle::bar : ProgressStyle::plain;
  if (text == "bar") return ProgressStyle::bar;
  if (text == "plain") return ProgressStyle::plain;
  if (text == "none") return ProgressStyle::none;
  const std::vector<std::string> known = {"auto", "bar", "plain", "none"};
  throw InputError("--progress", "unknown value '" + text + "'", suggestion(text, known));
}

Progress::Progress(ProgressStyle style, std::size_t cases)
    : style_(style), cases_(cases), start_(std::chrono::steady_clock::now()), case_start_(start_), drawn_(start_) {}

void Progress::begin(std::size_t index, const std::string& name) {
  const std::lock_guard lock(mutex_);
  index_ = index;
  name_ = name;
  fraction_ = 0;
  case_start_ = std::chrono::steady_clock::now();
  if (style_ == ProgressStyle::plain) fmt::print(stderr, "[{}/{}] {}\n", index + 1, cases_, name);
  draw(true);
}

void Progress::update(double fraction) {
  const std::lock_guard lock(mutex_);
  fraction_ = fraction;
  draw(false);
}

void Progress::end(const std::string& outcome) {
  const std::lock_guard lock(mutex_);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - case_start_).count();
  if (style_ == ProgressStyle::none) return;
  if (style_ == ProgressStyle::bar) fmt::print(stderr, "\r\033[K[{}/{}] {}  ", index_ + 1, cases_, name_);
  fmt::print(stderr, "{}{}  ({})\n", style_ == ProgressStyle::plain ? "      " : "", outcome,
             to_text(Seconds(seconds)));
}

void Progress::note(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (style_ == ProgressStyle::bar) fmt::print(stderr, "\r\033[K");
  fmt::print(stderr, "{}\n", line);
}

void Progress::draw(bool force) {
  if (style_ != ProgressStyle::bar) return;
  const auto now = std::chrono::steady_clock::now();
  if (!force && now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  const double done = (static_cast<double>(index_) + fraction_) / static_cast<double>(std::max<std::size_t>(cases_, 1));
  const double spent = std::chrono::duration<double>(now - start_).count();
  const int width = 24, filled = static_cast<int>(done * width);
  // Cases differ in length, so the time left is an estimate; before 3 % it would only flicker.
  const std::string left = done > 0.03 ? "about " + to_text(Seconds(spent * (1 - done) / done)) + " left" : "";
  fmt::print(stderr, "\r\033[K[{}{}] {:3.0f} %  {}  {}/{} {}", std::string(static_cast<std::size_t>(filled), '#'),
             std::string(static_cast<std::size_t>(width - filled), '.'), 100 * done, left, index_ + 1, cases_, name_);
  std::fflush(stderr);
}

static std::atomic<bool> interrupt_flag{false};

const std::atomic<bool>& interrupted() { return interrupt_flag; }

void install_interrupt_handler() {
  const auto handler = [](int signal) {
    if (interrupt_flag.exchange(true)) {
      std::signal(signal, SIG_DFL);
      std::raise(signal);
    }
  };
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
}

}  // namespace sluice
