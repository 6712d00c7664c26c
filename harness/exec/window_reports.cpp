#include "harness/exec/window_reports.h"

#include <algorithm>

namespace sluice {

// The note of an activation is the end; that of a gradient the seconds of the sender and of all ranks behind it.

bool can_report(const Program& program) {
  if (program.rule.synchronous() || program.graph.size() != program.rank_count() || program.rank_count() < 2)
    return false;
  for (std::size_t s = 0; s < program.graph.size(); ++s) {
    const auto& ranks = program.placement.stages[s];
    const auto& next = program.graph.successors[s];
    if (ranks.size() != 1 || ranks.front() != Rank(s) || program.graph.microbatches_per_op_of(StageId(s)) != 1)
      return false;
    if (s + 1 < program.graph.size() ? std::ranges::count(next, StageId(s + 1)) == 0 : !next.empty()) return false;
  }
  return true;
}

WindowReports::WindowReports(const Program& program, Rank rank, const WindowOptions* options)
    : program_(program), rank_(rank.index()), last_(program.rank_count() - 1) {
  if (options && options->updates > 0 && can_report(program)) options_ = options;
}

std::int64_t WindowReports::update_of(const Instruction& i) const {
  return i.opcode == Opcode::optimizer_step ? i.micro.value : i.micro.value / program_.microbatches_per_update;
}

bool WindowReports::leaves_out(const Instruction& i) const { return end_ && update_of(i) >= *end_; }

void WindowReports::computed(const Instruction& op, double seconds) {
  seconds_ += seconds;
  if (op.opcode == Opcode::forward) begun_ = std::max(begun_, update_of(op) + 1);
  const bool ends_micro = op.opcode == Opcode::backward || op.opcode == Opcode::input_gradient;
  const std::int64_t microbatches = std::int64_t{options_->updates} * program_.microbatches_per_update;
  if (!ends_micro || (op.micro.value + 1) % microbatches != 0) return;
  report_ = {seconds_};
  report_.insert(report_.end(), from_next_.begin(), from_next_.end());
  seconds_ = 0;
}

void WindowReports::stepped(const Instruction& step) {
  if (rank_ != 0 || end_ || (step.micro.value + 1) % options_->updates != 0) return;
  if (report_.size() != program_.rank_count() || begun_ >= program_.updates) return;
  const std::optional<std::int64_t> end = options_->decide(report_, begun_);
  // One more micro-batch carries the end to the other ranks.
  if (end && std::max(*end, begun_ + 1) < program_.updates) end_ = std::max(*end, begun_ + 1);
}

void WindowReports::received(const Message& message) {
  if (!message.note) return;
  if (message.note->size() == 1 && rank_ > 0 && message.note->front() < 0) {
    end_ = static_cast<std::int64_t>(-message.note->front());
  } else {
    from_next_ = *message.note;
  }
}

void WindowReports::add_to(const Instruction& send, Message& message) {
  if (send.opcode == Opcode::send_activation && end_ && !told_ && send.peer_stage.index() == rank_ + 1) {
    message.note = std::make_shared<const std::vector<double>>(1, -static_cast<double>(*end_));
    told_ = true;
  }
  if (send.opcode == Opcode::send_gradient && !report_.empty() && send.peer_stage.index() + 1 == rank_) {
    message.note = std::make_shared<const std::vector<double>>(std::move(report_));
    report_.clear();
  }
}

}  // namespace sluice
