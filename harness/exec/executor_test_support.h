// What the executor's tests share: workers that do no arithmetic but note what arrives where, and
// random problems for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <thread>

#include "harness/base/error.h"
#include "harness/exec/executor.h"
#include "harness/exec/threads.h"
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

enum class Place {
  none,
  begin_run,
  begin_iteration,
  compute,
  take,
  put,
  gradients,
  step,
  end_run,
  begin_gather,
  free_weights,
  begin_reduce_scatter,
  end_reduce_scatter,
  add_reduced
};

std::string to_text(Place place) {
  static const char* const names[] = {"none",
                                      "begin_run",
                                      "begin_iteration",
                                      "compute",
                                      "take",
                                      "put",
                                      "gradients",
                                      "step",
                                      "end_run",
                                      "begin_gather",
                                      "free_weights",
                                      "begin_reduce_scatter",
                                      "end_reduce_scatter",
                                      "add_reduced"};
  return names[static_cast<std::size_t>(place)];
}

// What a message says about itself, for the receiver to compare with what it waits for.
struct Letter {
  bool gradient;
  StageId from, to;
  Micro micro;
  int iteration;
};

struct FakeOptions {
  Place throws = Place::none;
  int throwing_rank = -1;
  bool odd_exception = false;  // throws an int instead of a std::exception
  int throwing_iteration = 0;
  ElementType type = ElementType::float64;
  std::optional<std::int64_t> diverges;  // throws Diverged{this} instead
  std::size_t slice = 3;                 // elements of one member's, of a sharded stage
  bool in_buckets = false;               // hands out the elements of a gradient one by one
};

// Keeps a log of every call and checks what it is handed. A stage's "gradient" is the sum of its micro-batches' numbers
// (from 1), so after a reduction every replica must hold the sum of all. Of a sharded stage, slice k of the weights
// says "member k, after n steps", and slice k of the gradient is k + 1 times the sum.
class FakeWorker : public Worker {
 public:
  FakeWorker(Rank rank, const FakeOptions& options) : rank_(rank), options_(options) {}

  std::vector<Instruction> log;  // compute, take, put, step, in order
  std::vector<std::string> errors;
  std::thread::id thread;
  int calls_after_throw = 0;
  int gathers = 0, frees = 0, scatters = 0, buckets = 0;

  void begin_run(const Program& program) override {
    program_ = &program;
    thread = std::this_thread::get_id();
    at(Place::begin_run);
    if (program.sharding.gather != Sharding::Gather::after_step) return;
    for (std::size_t s = 0; s < program.graph.size(); ++s)
      for (std::size_t k = 0; k < members(StageId(s)); ++k) fill_slice(StageId(s), k);
  }
  void begin_iteration(int iteration) override {
    iteration_ = iteration;
    arrived_.clear();
    at(Place::begin_iteration);
  }
  void compute(const Instruction& op) override {
    at(Place::compute);
    log.push_back(op);
    last_ = op;
    if (program_->sharded(op.stage) && reads_weights(op.opcode)) need_weights(op);
    // Everything the op reads from another rank has arrived.
    const auto& graph = program_->graph;
    if (op.opcode == Opcode::forward)
      for (const StageId p : graph.predecessors[op.stage.index()]) need(p, op, false);
    if (op.opcode == Opcode::backward || op.opcode == Opcode::input_gradient)
      for (const StageId s : graph.successors[op.stage.index()]) need(s, op, true);
    if (op.opcode == Opcode::backward || op.opcode == Opcode::weight_gradient) {
      doubles_[op.stage].assign(3, sum(op.stage) + op.micro.value + 1);
      floats_[op.stage].assign(3, static_cast<float>(sum(op.stage)));
    }
  }
  Message take(const Instruction& send) override {
    at(Place::take);
    log.push_back(send);
    if (last_.stage != send.stage || last_.micro != send.micro)
      errors.push_back(sluice::to_text(send) + " does not follow the op that makes it");
    return {std::make_shared<Letter>(
        Letter{send.opcode == Opcode::send_gradient, send.stage, send.peer_stage, send.micro, iteration_})};
  }
  void put(const Instruction& receive, Message message) override {
    at(Place::put);
    log.push_back(receive);
    const Letter& letter = *static_cast<Letter*>(message.payload.get());
    const bool gradient = receive.opcode == Opcode::receive_gradient;
    if (letter.gradient != gradient || letter.from != receive.peer_stage || letter.to != receive.stage ||
        letter.micro != receive.micro || letter.iteration != iteration_)
      errors.push_back(sluice::to_text(receive) + " got another message");
    if (!arrived_.insert({gradient, receive.peer_stage, receive.stage, receive.micro}).second)
      errors.push_back(sluice::to_text(receive) + " got its message twice");
  }
  Buffer gradients(StageId stage) override {
    at(Place::gradients);
    doubles_[stage].resize(3);
    floats_[stage].resize(3);
    if (options_.type == ElementType::float32) return {floats_[stage].data(), 3, ElementType::float32};
    return {doubles_[stage].data(), 3, ElementType::float64};
  }
  bool compute_in_buckets(const Instruction& op, const std::function<void(const Buffer&)>& ready) override {
    if (!options_.in_buckets) return false;
    compute(op);
    const Buffer all = gradients(op.stage);
    const std::size_t element = all.type == ElementType::float32 ? 4 : 8;
    for (std::size_t k = 0; k < all.count; ++k) {
      ready({static_cast<char*>(all.data) + k * element, 1, all.type});
      ++buckets;
    }
    return true;
  }
  Gathering begin_gather(StageId stage) override {
    at(Place::begin_gather);
    ++gathers;
    weights_[stage].assign(slice_elements() * members(stage), -1);
    fill_slice(stage, member(stage));
    std::vector<double>& shard = shards_[stage];  // others read it until the next step
    if (shard.empty() || shard[0] != weight(stage, member(stage)))
      shard.assign(slice_elements(), weight(stage, member(stage)));
    return {{weights_[stage].data(), slice_elements(), ElementType::float64}, {shard.data(), steps_[stage]}};
  }
  void free_weights(StageId stage) override {
    at(Place::free_weights);
    ++frees;
    weights_.erase(stage);
  }
  Buffer begin_reduce_scatter(StageId stage) override {
    at(Place::begin_reduce_scatter);
    ++scatters;
    auto& whole = whole_gradients_[stage];
    whole.clear();
    for (std::size_t k = 0; k < members(stage); ++k)
      whole.insert(whole.end(), slice_elements(), static_cast<double>(k + 1) * sum(stage));
    doubles_[stage].assign(3, 0);
    return {whole.data(), slice_elements(), ElementType::float64};
  }
  void end_reduce_scatter(StageId stage) override {
    at(Place::end_reduce_scatter);
    whole_gradients_.erase(stage);
  }
  void add_reduced(StageId stage, const void* sum) override {
    at(Place::add_reduced);
    const auto* const values = static_cast<const double*>(sum);
    auto& gradient = shard_gradients_[stage];
    gradient.resize(slice_elements());
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += values[i];
  }
  void step(const Instruction& step) override {
    at(Place::step);
    log.push_back(step);
    ++steps_[step.stage];
    if (program_->sharded(step.stage)) {
      const double n = program_->microbatches, all = n * (n + 1) / 2;
      const double own = static_cast<double>(member(step.stage) + 1) * all;
      if (shard_gradients_[step.stage] != std::vector<double>(slice_elements(), own))
        errors.push_back(sluice::to_text(step) + " sees another gradient than its slice's");
      if (sum(step.stage) != 0) errors.push_back(sluice::to_text(step) + " leaves gradients behind");
      shard_gradients_.erase(step.stage);
    } else if (program_->rule.synchronous()) {
      const double n = program_->microbatches, all = n * (n + 1) / 2;
      const bool replicated = program_->placement.stages[step.stage.index()].size() > 1;
      const bool narrow = replicated && options_.type == ElementType::float32;
      for (std::size_t i = 0; i < 3; ++i) {
        const double have = narrow ? static_cast<double>(floats_[step.stage][i]) : doubles_[step.stage][i];
        if (have != all) errors.push_back(sluice::to_text(step) + " sees a gradient of " + std::to_string(have));
      }
    }
    doubles_[step.stage].assign(3, 0);
    floats_[step.stage].assign(3, 0);
  }
  void end_run() override { at(Place::end_run); }

 private:
  void at(Place place) {
    if (thrown_) ++calls_after_throw;
    if (std::this_thread::get_id() != thread && place != Place::begin_run)
      errors.push_back("called on a thread that is not the rank's");
    if (place != options_.throws || rank_.value != options_.throwing_rank) return;
    if (iteration_ < options_.throwing_iteration && place != Place::begin_run) return;
    thrown_ = true;
    if (options_.odd_exception) throw 42;
    if (options_.diverges) throw Diverged{*options_.diverges};
    throw std::runtime_error("thrown in " + to_text(place));
  }
  void need(StageId peer, const Instruction& op, bool gradient) {
    if (program_->placement.rank_of(peer, op.micro) == rank_) return;
    if (!arrived_.contains({gradient, peer, op.stage, op.micro}))
      errors.push_back(sluice::to_text(op) + " runs before its input is there");
  }
  std::size_t members(StageId stage) const { return program_->placement.stages[stage.index()].size(); }
  std::size_t member(StageId stage) const {
    const auto& ranks = program_->placement.stages[stage.index()];
    return static_cast<std::size_t>(std::ranges::find(ranks, rank_) - ranks.begin());
  }
  std::size_t slice_elements() const { return options_.slice; }
  double weight(StageId stage, std::size_t slice) { return static_cast<double>(1000000 * slice) + steps_[stage]; }
  void fill_slice(StageId stage, std::size_t slice) {
    auto& all = weights_[stage];
    all.resize(slice_elements() * members(stage));
    std::fill_n(all.begin() + static_cast<std::ptrdiff_t>(slice_elements() * slice), slice_elements(),
                weight(stage, slice));
  }
  void need_weights(const Instruction& op) {
    const auto found = weights_.find(op.stage);
    bool whole = found != weights_.end();
    for (std::size_t k = 0; whole && k < members(op.stage); ++k) {
      const std::span slice(found->second.data() + k * slice_elements(), slice_elements());
      whole = std::ranges::count(slice, weight(op.stage, k)) == std::ssize(slice);
    }
    if (!whole) errors.push_back(sluice::to_text(op) + " reads weights that are not gathered");
  }
  double sum(StageId stage) {
    auto& values = doubles_[stage];
    values.resize(3);
    return values[0];
  }

  Rank rank_;
  FakeOptions options_;
  const Program* program_ = nullptr;
  int iteration_ = 0;
  bool thrown_ = false;
  Instruction last_;
  std::set<std::tuple<bool, StageId, StageId, Micro>> arrived_;
  std::map<StageId, std::vector<double>> doubles_;
  std::map<StageId, std::vector<float>> floats_;
  std::map<StageId, int> steps_;
  std::map<StageId, std::vector<double>> weights_, shards_, whole_gradients_, shard_gradients_;
};

inline std::vector<std::unique_ptr<Worker>> fakes(const Program& program, const FakeOptions& options = {}) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t r = 0; r < program.rank_count(); ++r)
    workers.push_back(std::make_unique<FakeWorker>(Rank(r), options));
  return workers;
}

inline FakeWorker& fake(const std::unique_ptr<Worker>& worker) { return static_cast<FakeWorker&>(*worker); }

inline Execution run(const Program& program, const std::vector<std::unique_ptr<Worker>>& workers,
                     const ExecuteOptions& options = {}) {
  const auto transport = make_thread_transport(program);
  return execute(program, *transport, workers, options);
}

// Every rank's log must be its program, `iterations` times, without the collectives and frees
// (which the worker is not told as instructions).
inline void expect_whole_program(const Program& program, const std::vector<std::unique_ptr<Worker>>& workers,
                                 int iterations) {
  for (std::size_t r = 0; r < workers.size(); ++r) {
    const FakeWorker& worker = fake(workers[r]);
    EXPECT_EQ(worker.errors, std::vector<std::string>{}) << "rank " << r;
    std::size_t place = 0;
    for (int k = 0; k < iterations; ++k)
      for (const Instruction& i : program.ranks[r]) {
        if (is_collective(i.opcode) || i.opcode == Opcode::free_weights) continue;
        ASSERT_LT(place, worker.log.size()) << "rank " << r;
        ASSERT_EQ(to_text(worker.log[place++]), to_text(i)) << "rank " << r << ", iteration " << k;
      }
    EXPECT_EQ(place, worker.log.size()) << "rank " << r;
  }
}

// Rank r = stage r; rank r runs min(p - 1 - r, m) forwards before its first backward.
inline Program one_f_one_b(int ranks, int microbatches, const WeightRule& rule = {}) {
  return lower(example_1f1b(ranks, microbatches), chain(ranks), one_stage_per_rank(ranks), rule);
}

// One stage on every rank, micro-batch i on rank i mod p.
inline Program data_parallel(int ranks, int microbatches) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks)),
                    .microbatches = microbatches};
  Placement placement{.stages = {{}}};
  for (int r = 0; r < ranks; ++r) placement.stages[0].emplace_back(r);
  for (int i = 0; i < microbatches; ++i) {
    auto& ops = schedule.ranks[i % ranks];
    ops.push_back(forward_op(0, i));
    ops.push_back(backward_op(0, i));
  }
  return lower(schedule, chain(1), placement, WeightRule{});
}

// A random stage DAG on random ranks, some stages replicated, some backwards split, in an order drawn op by op from
// those whose inputs are done: free of deadlock by construction and unlike anything a system would do. None: the draw
// reduces two stages in different orders, and lower() rightly rejects it.
inline std::optional<Program> random_program(std::mt19937& random) {
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int stages = 1 + draw(7), ranks = 1 + draw(6), microbatches = 1 + draw(9);
  std::vector<std::pair<StageId, StageId>> edges;
  for (int s = 1; s < stages; ++s) {
    std::set<int> before{draw(s)};
    if (draw(2) == 0) before.insert(draw(s));
    for (const int p : before) edges.push_back({StageId(p), StageId(s)});
  }
  std::ranges::sort(edges);
  const StageGraph graph = stage_graph(stages, edges, "test");
  Placement placement;
  for (int s = 0; s < stages; ++s) {
    std::vector<Rank> all;
    for (int r = 0; r < ranks; ++r) all.emplace_back(r);
    std::ranges::shuffle(all, random);
    all.resize(draw(3) == 0 ? 1 + draw(ranks) : 1);
    placement.stages.push_back(all);
  }
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks)),
                    .microbatches = microbatches};
  std::vector<Op> left;
  for (int s = 0; s < stages; ++s)
    for (int i = 0; i < microbatches; ++i) {
      left.push_back(forward_op(s, i));
      if (draw(2) == 0) {
        left.push_back(backward_op(s, i));
      } else {
        left.push_back({OpKind::input_gradient, StageId(s), Micro(i)});
        left.push_back({OpKind::weight_gradient, StageId(s), Micro(i)});
      }
    }
  std::set<std::tuple<int, int, int>> done;  // stage, micro, 0: F, 1: I or B
  const auto is_done = [&](StageId s, Micro i, int what) { return done.contains({s.value, i.value, what}); };
  const auto ready = [&](const Op& op) {
    if (op.kind == OpKind::forward)
      return std::ranges::all_of(graph.predecessors[op.stage.index()],
                                 [&](StageId p) { return is_done(p, op.micro, 0); });
    if (op.kind == OpKind::weight_gradient) return is_done(op.stage, op.micro, 1);
    return is_done(op.stage, op.micro, 0) &&
           std::ranges::all_of(graph.successors[op.stage.index()], [&](StageId s) { return is_done(s, op.micro, 1); });
  };
  while (!left.empty()) {
    const auto k = static_cast<std::ptrdiff_t>(random() % left.size());
    const Op op = left[k];
    if (!ready(op)) continue;
    left.erase(left.begin() + k);
    if (op.kind != OpKind::weight_gradient)
      done.insert({op.stage.value, op.micro.value, op.kind == OpKind::forward ? 0 : 1});
    schedule.ranks[placement.rank_of(op.stage, op.micro).index()].push_back(op);
  }
  try {
    return lower(schedule, graph, placement, WeightRule{});
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace
}  // namespace sluice
