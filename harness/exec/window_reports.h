// Reports of a chain of ranks to its first rank while a program runs, and the first rank's answer: after every window
// of updates, each rank's seconds of forwards and backwards; and the number of updates after which the run ends,
// drained. Both travel with the program's own messages: reports with gradients, the end with activations. So every rank
// knows the end before it could begin a micro-batch beyond it, between threads and between processes.
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
  // On the first rank's thread, between updates: every rank's seconds of the last window. Returns the update after
  // which the run ends, or none; not called after that. begun: updates whose forward has begun.
  std::function<std::optional<std::int64_t>(const std::vector<double>& compute, std::int64_t begun)> decide;
};

// Whether reports can travel in this way: a chain with one stage per rank, in order, drained at its end.
bool can_report(const Program& program);

// For one rank, in one run of the program.
class WindowReports {
 public:
  // options: null or without updates: no reports, and all calls do nothing.
  WindowReports(const Program& program, Rank rank, const WindowOptions* options);

  bool active() const { return options_ != nullptr; }
  // Whether the instruction belongs to a micro-batch beyond the end.
  bool leaves_out(const Instruction& i) const;
  void computed(const Instruction& op, double seconds);
  void stepped(const Instruction& step);  // may decide the end
  void received(const Message& message);
  void add_to(const Instruction& send, Message& message);
  // The number of updates of the run, if it ended early.
  std::optional<std::int64_t> end() const { return end_; }

 private:
  std::int64_t update_of(const Instruction& i) const;

  const Program& program_;
  const WindowOptions* options_ = nullptr;
  std::size_t rank_, last_;
  double seconds_ = 0;             // of the window so far
  std::int64_t begun_ = 0;         // updates whose forward this rank has begun
  std::vector<double> report_;     // of the ranks from this one on, for the last window
  std::vector<double> from_next_;  // of the ranks behind it
  std::optional<std::int64_t> end_;
  bool told_ = false;  // the next rank knows the end
};

}  // namespace sluice
