// What a chain of ranks tells its first rank while a program runs, and what that may answer: after every window of
// updates, each rank's seconds of forwards and backwards; and after how many updates the run shall end, drained. Both
// travel with the program's own messages: reports with gradients, the end with activations. So every rank knows of the
// end before it could begin a micro-batch that is left out, between threads and between processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

struct WindowOptions {
  int updates = 0;  // of a window; 0: no reports
  // On the first rank's thread, between updates: every rank's seconds of the window that has ended. Returns the update
  // after which the run ends, or none; asked no more once it has. begun: updates whose forward has begun.
  std::function<std::optional<std::int64_t>(const std::vector<double>& compute, std::int64_t begun)> decide;
};

// Whether reports can travel so: a chain with one stage a rank, in order, drained by its end.
bool can_report(const Program& program);

// Of one rank, in one run of the program.
class WindowReports {
 public:
  // options: null or without updates: nothing is reported, and no call does anything.
  WindowReports(const Program& program, Rank rank, const WindowOptions* options);

  bool active() const { return options_ != nullptr; }
  // Whether the instruction belongs to a micro-batch that is left out.
  bool leaves_out(const Instruction& i) const;
  void computed(const Instruction& op, double seconds);
  void stepped(const Instruction& step);  // may decide
  void received(const Message& message);
  void add_to(const Instruction& send, Message& message);
  // The updates of the run, where it ended early.
  std::optional<std::int64_t> end() const { return end_; }

 private:
  std::int64_t update_of(const Instruction& i) const;

  const Program& program_;
  const WindowOptions* options_ = nullptr;
  std::size_t rank_, last_;
  double seconds_ = 0;             // of the window so far
  std::int64_t begun_ = 0;         // updates whose forward this rank has begun
  std::vector<double> report_;     // of the ranks from this one on, of the window that has just ended
  std::vector<double> from_next_;  // of the ranks behind it
  std::optional<std::int64_t> end_;
  bool told_ = false;  // the next rank knows the end
};

}  // namespace sluice
