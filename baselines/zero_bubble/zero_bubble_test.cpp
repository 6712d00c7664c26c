// The automatic scheduler of Zero bubble (variant=auto): within its memory, no worse than the
// h1 and h2 orders where they are best, and against every order there is on small cases.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "harness/pipeline/system.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

struct OpDurations {
  double f, i, w;
};

ScheduleProblem problem_of(const std::vector<OpDurations>& stages, int microbatches, double latency) {
  const int p = static_cast<int>(stages.size());
  ScheduleProblem problem{.graph = chain(p),
                          .placement = one_stage_per_rank(p),
                          .ranks = p,
                          .microbatches = microbatches,
                          .costs = {},
                          .latency = Seconds(latency)};
  for (const OpDurations& t : stages)
    problem.costs.push_back({Seconds(t.f), Seconds(t.i), Seconds(t.w), Seconds(0), Bytes(0)});
  return problem;
}

Schedule schedule_of(const ScheduleProblem& problem, const std::string& variant, int memory) {
  const System& system = find_system("zero_bubble", "test");
  return system.schedule(
      problem, resolve_options(system.options, {{"variant", variant}, {"memory", std::to_string(memory)}}, "test"));
}

// The longest of the ranks' own spans: what the search makes short.
double span_of(const ScheduleProblem& problem, const Schedule& schedule) {
  const Program program = lower(schedule, problem.graph, problem.placement, WeightRule{});
  return simulate(program, {problem.costs, {}}, latency_cluster(problem.ranks, problem.latency),
                  identity_devices(problem.ranks), {.trace = false})
      .bubble.max_span;
}

RC_GTEST_PROP(ZeroBubbleSearchTest, KeepsItsMemoryAndTheDependencies, ()) {
  const int p = *rc::gen::inRange(1, 7), m = *rc::gen::inRange(1, 20);
  const int memory = p + *rc::gen::inRange(0, p + 3);
  std::vector<OpDurations> stages;
  for (int s = 0; s < p; ++s)
    stages.push_back({static_cast<double>(*rc::gen::inRange(1, 20)), static_cast<double>(*rc::gen::inRange(1, 20)),
                      static_cast<double>(*rc::gen::inRange(1, 20))});
  const ScheduleProblem problem = problem_of(stages, m, *rc::gen::inRange(0, 5));
  const Schedule schedule = schedule_of(problem, "auto", memory);
  RC_ASSERT(check(schedule, problem.graph, problem.placement).empty());
  for (const RankPeak& peak : peaks(schedule)) RC_ASSERT(peak.until_weight_gradient <= memory);
}

TEST(ZeroBubbleSearchTest, AtEqualTimesItIsAsGoodAsH1AndH2) {
  for (int p = 2; p <= 8; ++p)
    for (int m = 2 * p; m <= 4 * p; ++m) {
      const ScheduleProblem problem = problem_of(std::vector<OpDurations>(p, {1, 1, 1}), m, 0);
      // ZB-1p: the bubble of h1 with its memory. ZB-2p: none.
      EXPECT_LE(span_of(problem, schedule_of(problem, "auto", p)), 3 * m + p - 1) << "p=" << p << " m=" << m;
      EXPECT_DOUBLE_EQ(span_of(problem, schedule_of(problem, "auto", 2 * p)), 3 * m) << "p=" << p << " m=" << m;
    }
}

TEST(ZeroBubbleSearchTest, UsesTheTimesItIsGiven) {
  // With enough memory no bubble is left although times differ, where the order made for equal
  // times keeps one.
  for (const OpDurations& t : {OpDurations{10, 12, 8}, OpDurations{2, 3, 2}}) {
    const ScheduleProblem problem = problem_of(std::vector<OpDurations>(4, t), 12, 0);
    const double work = 12 * (t.f + t.i + t.w);
    EXPECT_DOUBLE_EQ(span_of(problem, schedule_of(problem, "auto", 10)), work);
    EXPECT_GT(span_of(problem, schedule_of(problem, "h2", 0)), work);
  }
  // A slow last stage: the others wait for it, it waits for nobody.
  const ScheduleProblem slow = problem_of({{1, 1, 1}, {1, 1, 1}, {2, 2, 2}}, 8, 0.5);
  EXPECT_DOUBLE_EQ(span_of(slow, schedule_of(slow, "auto", 6)), 8 * 6);
}

// Of the F, I and W of one rank: the most that it holds, in micro-batches, where W keeps `share` of one.
double max_held(const std::vector<Op>& ops, double share) {
  double now = 0, most = 0;
  for (const Op& op : ops) {
    now += op.kind == OpKind::forward ? 1 : op.kind == OpKind::input_gradient ? share - 1 : -share;
    most = std::max(most, now);
  }
  return most;
}

RC_GTEST_PROP(ZeroBubbleSearchTest, HoldsNoMoreThanItsMemoryWhereWKeepsAShareAndIsNeverWorseThanAFixedOrder, ()) {
  const int p = *rc::gen::inRange(2, 7), m = *rc::gen::inRange(2, 24);
  const int memory = p + *rc::gen::inRange(0, p + 1);
  const double share = 0.1 * *rc::gen::inRange(1, 11);
  const OpDurations times{static_cast<double>(*rc::gen::inRange(5, 20)), static_cast<double>(*rc::gen::inRange(5, 20)),
                          static_cast<double>(*rc::gen::inRange(2, 20))};
  ScheduleProblem problem =
      problem_of(std::vector<OpDurations>(static_cast<std::size_t>(p), times), m, 0.1 * *rc::gen::inRange(0, 10));
  problem.weight_stash_share.assign(p, share);
  const Schedule searched = schedule_of(problem, "auto", memory);
  RC_ASSERT(check(searched, problem.graph, problem.placement).empty());
  for (const auto& ops : searched.ranks) RC_ASSERT(max_held(ops, share) <= memory + 1e-6);
  for (const char* variant : {"h1", "h2"}) {
    const Schedule fixed = schedule_of(problem, variant, 0);
    bool fits = true;
    for (const auto& ops : fixed.ranks) fits = fits && max_held(ops, share) <= memory + 1e-9;
    if (fits) RC_ASSERT(span_of(problem, searched) <= span_of(problem, fixed) * (1 + 1e-9));
  }
}

TEST(ZeroBubbleSearchTest, KnowsWhatEveryMessageTakes) {
  ScheduleProblem problem = problem_of(std::vector<OpDurations>(4, {10, 10, 8}), 12, 3);
  const Schedule by_latency = schedule_of(problem, "auto", 8);
  problem.latency = Seconds(0);
  const Schedule without = schedule_of(problem, "auto", 8);
  problem.messages.assign(4, Seconds(3));
  EXPECT_EQ(schedule_of(problem, "auto", 8), by_latency);
  problem.messages = {Seconds(0), Seconds(25), Seconds(0), Seconds(0)};
  const Schedule one_slow = schedule_of(problem, "auto", 8);
  EXPECT_TRUE(check(one_slow, problem.graph, problem.placement).empty());
  EXPECT_NE(one_slow, without);
}

// Every order of m F, I and W that respects F i before I i before W i and the memory.
void orders(int m, int memory, int counts[3], std::vector<Op>& ops, int stage, std::vector<std::vector<Op>>& all) {
  if (counts[2] == m) all.push_back(ops);
  constexpr OpKind kKinds[] = {OpKind::forward, OpKind::input_gradient, OpKind::weight_gradient};
  for (int k = 0; k < 3; ++k) {
    const int most = k == 0 ? std::min(m, counts[2] + memory) : counts[k - 1];
    if (counts[k] >= most) continue;
    ops.push_back({kKinds[k], StageId(stage), Micro(counts[k])});
    ++counts[k];
    orders(m, memory, counts, ops, stage, all);
    --counts[k];
    ops.pop_back();
  }
}

double shortest_span(const ScheduleProblem& problem, int memory) {
  std::vector<std::vector<std::vector<Op>>> choices;
  for (int s = 0; s < problem.ranks; ++s) {
    int counts[3] = {0, 0, 0};
    std::vector<Op> ops;
    orders(problem.microbatches, memory, counts, ops, s, choices.emplace_back());
  }
  double best = std::numeric_limits<double>::infinity();
  Schedule schedule = empty_schedule(problem.ranks, problem.microbatches);
  std::vector<std::size_t> at(choices.size(), 0);
  for (bool more = true; more;) {
    for (std::size_t s = 0; s < at.size(); ++s) schedule.ranks[s] = choices[s][at[s]];
    if (check(schedule, problem.graph, problem.placement).empty()) best = std::min(best, span_of(problem, schedule));
    more = false;
    for (std::size_t s = 0; s < at.size() && !more; ++s) {
      more = ++at[s] < choices[s].size();
      if (!more) at[s] = 0;
    }
  }
  return best;
}

TEST(ZeroBubbleSearchTest, FindsTheBestOfAllOrdersOnSmallCases) {
  const std::vector<std::vector<OpDurations>> cases = {
      {{1, 1, 1}, {1, 1, 1}}, {{2, 1, 1}, {2, 1, 1}}, {{10, 12, 8}, {10, 12, 8}},
      {{3, 2, 1}, {1, 2, 3}}, {{1, 1, 1}, {2, 3, 2}}, {{5, 1, 4}, {2, 6, 1}},
      {{4, 4, 1}, {4, 4, 1}}, {{1, 3, 3}, {1, 3, 3}}, {{2, 2, 2}, {1, 1, 1}}};
  for (const auto& stages : cases)
    for (const int memory : {2, 3}) {
      const ScheduleProblem problem = problem_of(stages, 3, 0);
      EXPECT_DOUBLE_EQ(span_of(problem, schedule_of(problem, "auto", memory)), shortest_span(problem, memory))
          << "F=" << stages[0].f << " I=" << stages[0].i << " W=" << stages[0].w << " memory=" << memory;
    }
}

}  // namespace
}  // namespace sluice
