// Progress of a sweep on stderr: a bar with the time left on a terminal, plain lines elsewhere. And the flag that
// Ctrl-C sets.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

namespace sluice {

enum class ProgressStyle { bar, plain, none };
ProgressStyle parse_progress(const std::string& text);  // auto | bar | plain | none; throws InputError

class Progress {
 public:
  Progress(ProgressStyle style, std::size_t cases);
  void begin(std::size_t index, const std::string& name);  // of a case, from 0
  void update(double fraction);                            // done of the current case; any thread
  void end(const std::string& outcome);                    // of the current case: one line
  void note(const std::string& line);                      // a line beside the cases

 private:
  void draw(bool force);

  ProgressStyle style_;
  std::size_t cases_, index_ = 0;
  std::string name_;
  double fraction_ = 0;
  std::chrono::steady_clock::time_point start_, case_start_, drawn_;
  std::mutex mutex_;
};

// Set by SIGINT and SIGTERM once installed; a second signal ends the process at once.
const std::atomic<bool>& interrupted();
void install_interrupt_handler();

}  // namespace sluice
