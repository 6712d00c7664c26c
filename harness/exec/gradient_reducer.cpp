#include "harness/exec/gradient_reducer.h"

#include <algorithm>
#include <optional>

namespace sluice {

namespace {

// The ops of a rank that make the last gradients that a reduction sums, to the reduction.
std::map<std::size_t, std::size_t> last_gradients(const std::vector<Instruction>& instructions, std::size_t stages) {
  std::map<std::size_t, std::size_t> result;
  std::vector<std::optional<std::size_t>> last(stages);
  for (std::size_t k = 0; k < instructions.size(); ++k) {
    std::optional<std::size_t>& op = last[instructions[k].stage.index()];
    if (makes_weight_gradient(instructions[k].opcode)) op = k;
    if (instructions[k].opcode == Opcode::reduce_gradients && op) result[*op] = k;
  }
  return result;
}

// Whether all ranks come to the reductions of a flush in compatible orders. Where they do not (Chimera's two
// directions), ranks that reduce one stage at a time would wait for one another for ever.
bool in_one_order(const Program& program) {
  const std::size_t stages = program.placement.stages.size();
  std::vector<std::vector<StageId>> orders;
  for (const auto& rank : program.ranks) {
    std::vector<StageId>& order = orders.emplace_back();
    for (const auto& [op, reduction] : last_gradients(rank, stages)) order.push_back(rank[reduction].stage);
    std::ranges::reverse(order);  // the next one is the last of the list
  }
  for (;;) {
    bool left = false, moved = false;
    for (const auto& order : orders) {
      if (order.empty()) continue;
      left = true;
      const StageId stage = order.back();
      const bool next_everywhere = std::ranges::all_of(orders, [&](const std::vector<StageId>& other) {
        return std::ranges::count(other, stage) == 0 || other.back() == stage;
      });
      if (!next_everywhere) continue;
      for (auto& other : orders)
        if (!other.empty() && other.back() == stage) other.pop_back();
      moved = true;
      break;
    }
    if (!left) return true;
    if (!moved) return false;
  }
}

}  // namespace

// Tensor-parallel sums and all-to-alls inside ops are collectives of the same transport, which runs one at a time.
GradientReducer::GradientReducer(const Program& program, Rank rank, Transport& transport)
    : program_(program), rank_(rank), transport_(transport) {
  const std::vector<Instruction>& own = program.ranks[rank.index()];
  if (program.tensor > 1 || program.spreads_experts ||
      std::ranges::count(own, Opcode::reduce_gradients, &Instruction::opcode) == 0)
    return;
  if (program.rule.synchronous() && !in_one_order(program)) return;
  for (const auto& [op, reduction] : last_gradients(own, program.placement.stages.size()))
    early_[op] = own[reduction].channel;
}

GradientReducer::~GradientReducer() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int GradientReducer::member(StageId stage) const {
  const auto& ranks = program_.placement.stages[stage.index()];
  return static_cast<int>(std::ranges::find(ranks, rank_) - ranks.begin());
}

void GradientReducer::compute(std::size_t k, Worker& worker) {
  const Instruction& op = program_.ranks[rank_.index()][k];
  const auto group = early_.find(k);
  const auto ready = [&](const Worker::Buffer& bucket) {
    posted_.insert(group->second);
    queued_ = transport_.begin_all_reduce(group->second, member(op.stage), bucket.data, bucket.count, bucket.type);
    if (!queued_) post(group->second, bucket);
  };
  if (group == early_.end() || !worker.compute_in_buckets(op, ready)) worker.compute(op);
}

void GradientReducer::post(std::int32_t group, const Worker::Buffer& bucket) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    jobs_.push_back({group, bucket});
  }
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });  // on the rank's core, where that is pinned
}

void GradientReducer::reduce(const Instruction& reduction, Worker& worker) {
  const bool in_buckets = posted_.erase(reduction.channel) > 0;
  if (in_buckets && queued_) return transport_.finish_all_reduces(reduction.channel, member(reduction.stage));
  if (thread_.joinable()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return failure_ || (in_buckets ? std::ranges::count(jobs_, reduction.channel, &Job::group) == 0 : jobs_.empty());
    });
    if (failure_) std::rethrow_exception(failure_);
  }
  if (in_buckets) return;
  for (const Worker::Buffer& g : worker.shared_gradients(reduction.stage))
    transport_.all_reduce(reduction.channel, member(reduction.stage), g.data, g.count, g.type);
}

void GradientReducer::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
    if (jobs_.empty() || failure_) return;
    const Job job = jobs_.front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      // A group's number is the stage's (Instruction::channel of collectives).
      transport_.all_reduce(job.group, member(StageId(job.group)), job.bucket.data, job.bucket.count, job.bucket.type);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    jobs_.pop_front();
    changed_.notify_all();
    if (failure_) return;
  }
}

}  // namespace sluice
