// Progress of a sweep on stderr: a bar with the time left on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace sluice {

enum class ProgressStyle { bar, plain, none };
ProgressStyle parse_progress(const std::string& text);  // auto | bar | plain | none; throws InputError

class Progress {
 public:
  Progress(ProgressStyle style, std::size_t cases);
  // For a case, counted from 0; several may run at once. Thread-safe.
  void begin(std::size_t index, const std::string& name);
  void update(std::size_t index, double fraction);  // finished share of the case
  void end(std::size_t index, const std::string& outcome);
  void note(const std::string& line);  // a line that belongs to no case

 private:
  void draw(bool force);

  struct Running {
    std::string name;
    double fraction = 0;
    std::chrono::steady_clock::time_point start;
  };

  ProgressStyle style_;
  std::size_t cases_, begun_ = 0;
  std::size_t announced_ = 0;  // plain: the case that the last line began with
  std::map<std::size_t, Running> running_;
  std::chrono::steady_clock::time_point start_, drawn_;
  std::mutex mutex_;
};

}  // namespace sluice
