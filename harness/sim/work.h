// Work: a task of known seconds at full speed, whose speed changes while it runs, piecewise constant. It is integrated
// exactly: its end at constant speed is known at every time.
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
  // When it ends at constant speed.
  double end() const { return speed_ > 0 ? since_ + left_ / speed_ : std::numeric_limits<double>::infinity(); }
  double speed() const { return speed_; }

 private:
  double left_ = 0, since_ = 0, speed_ = 1;
};

}  // namespace sluice
