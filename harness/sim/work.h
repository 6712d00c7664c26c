// Work: something that takes a known time at full speed and is done at a speed that changes while it runs, piecewise
// constant. Integrated exactly: its end is known at every moment as long as the speed stays what it is.
#pragma once

#include <limits>

namespace sluice {

class Work {
 public:
  Work() = default;
  // seconds: at speed 1. now: when it begins.
  Work(double seconds, double now, double speed) : left_(seconds), since_(now), speed_(speed) {}

  void change_speed(double now, double speed) {
    left_ -= (now - since_) * speed_;
    since_ = now;
    speed_ = speed;
  }
  // When it is done if the speed stays.
  double end() const { return speed_ > 0 ? since_ + left_ / speed_ : std::numeric_limits<double>::infinity(); }
  double speed() const { return speed_; }

 private:
  double left_ = 0, since_ = 0, speed_ = 1;
};

}  // namespace sluice
