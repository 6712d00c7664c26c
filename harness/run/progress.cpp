#include "harness/run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/quantities.h"
#include "harness/base/visible_text.h"

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
    : style_(style), cases_(cases), start_(std::chrono::steady_clock::now()), drawn_(start_) {}

void Progress::begin(std::size_t index, const std::string& name) {
  const std::lock_guard lock(mutex_);
  // Cases that were skipped count as done; with several at a time the first that begin may do so in any order.
  begun_ = std::max(begun_, index + 1);
  running_[index] = {.name = visible(name), .start = std::chrono::steady_clock::now()};
  announced_ = index;
  if (style_ == ProgressStyle::plain) fmt::print(stderr, "[{}/{}] {}\n", index + 1, cases_, visible(name));
  draw(true);
}

void Progress::update(std::size_t index, double fraction) {
  const std::lock_guard lock(mutex_);
  running_[index].fraction = fraction;
  draw(false);
}

void Progress::end(std::size_t index, const std::string& outcome) {
  const std::lock_guard lock(mutex_);
  const Running ended = std::move(running_[index]);
  running_.erase(index);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - ended.start).count();
  if (style_ == ProgressStyle::none) return;
  std::string name = fmt::format("[{}/{}] {}  ", index + 1, cases_, ended.name);
  if (style_ == ProgressStyle::bar) fmt::print(stderr, "\r\033[K");
  if (style_ == ProgressStyle::plain && announced_ == index) name = "      ";  // its name stands right above
  announced_ = cases_;
  fmt::print(stderr, "{}{}  ({})\n", name, visible(outcome), to_text(Seconds(seconds)));
}

void Progress::note(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (style_ == ProgressStyle::bar) fmt::print(stderr, "\r\033[K");
  fmt::print(stderr, "{}\n", visible(line));
}

void Progress::draw(bool force) {
  if (style_ != ProgressStyle::bar || running_.empty()) return;
  const auto now = std::chrono::steady_clock::now();
  if (!force && now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  double cases_done = static_cast<double>(begun_ - running_.size());
  for (const auto& [index, running] : running_) cases_done += running.fraction;
  const double done = cases_done / static_cast<double>(std::max<std::size_t>(cases_, 1));
  const double spent = std::chrono::duration<double>(now - start_).count();
  const int width = 24, filled = static_cast<int>(done * width);
  // Cases differ in length, so the time left is an estimate; before 3 % it would only flicker.
  const std::string left = done > 0.03 ? "about " + to_text(Seconds(spent * (1 - done) / done)) + " left" : "";
  const auto& [index, first] = *running_.begin();
  const std::string others = running_.size() > 1 ? fmt::format(" and {} more", running_.size() - 1) : "";
  fmt::print(stderr, "\r\033[K[{}{}] {:3.0f} %  {}  {}/{} {}{}", std::string(static_cast<std::size_t>(filled), '#'),
             std::string(static_cast<std::size_t>(width - filled), '.'), 100 * done, left, index + 1, cases_,
             first.name, others);
  std::fflush(stderr);
}

}  // namespace sluice
