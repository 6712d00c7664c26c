// Every synchronous schedule over p = 2..8 ranks, 1..4 p micro-batches and 1 .. 4 stages a rank: either an order that
// checks, and that takes as long as its paper's closed form says where that is valid, or a rejection that says what to
// change.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "harness/base/error.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_schedule.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

using Given = std::map<std::string, std::string>;

struct Size {
  int p, m, v;
};
struct OpTimes {
  double f, i, w;
  double pair;  // F and B as an overlapped pair
  double work() const { return f + i + w; }
};
constexpr OpTimes kEqual{1, 1, 1, 3}, kOther{10, 12, 8, 30}, kPaired{1, 1, 1, 2.25};

struct SizeCase {
  std::string name;  // of the test
  std::string system;
  std::function<Given(Size)> options;
  std::function<bool(Size)> accepts = [](Size) { return true; };
  // Seconds from the first op to the last, or of the longest span of a rank; none: no closed form.
  std::function<std::optional<double>(Size, OpTimes)> makespan = {}, span = {};
  bool chunked = false;  // takes 1 .. 4 stages a rank; others: v = 1 only
};

void PrintTo(const SizeCase& c, std::ostream* out) { *out << c.name; }

std::string text(int n) { return std::to_string(n); }
std::function<Given(Size)> options(const Given& given) {
  return [given](Size) { return given; };
}
std::function<Given(Size)> chunks_and(const Given& given) {
  return [given](Size size) {
    Given all = given;
    all["chunks"] = text(size.v);
    return all;
  };
}

// DualPipe of p ranks a direction: all pairs of a rank follow one another (Victarry/PP-Schedule-Visualization,
// formula.py).
std::optional<double> dualpipe(int p, int m, OpTimes t) {
  if (t.f != t.i) return std::nullopt;
  return 3 * p * t.f + (2 * m - p - 2) * t.pair + (2 * p - 1) * t.i + t.w + 2 * (t.i + t.w);
}

// Stages and slices of the words are equal: 1F1B, and a slot as long as F and B of a stage for every micro-batch.
std::optional<double> slices_of_words(Size s, OpTimes t) { return (2 * s.m + s.p - 1) * t.work(); }

// Megatron-Core's combined 1F1B (formula.py): on the critical path p (v - 1) + 1 forwards and backwards by
// themselves, the fill and the drain, and the rest in pairs.
std::optional<double> combined(Size s, OpTimes t) {
  const int apart = s.p * (s.v - 1) + 1;
  return (s.p - 1 + apart) * t.work() + (s.m * s.v - apart) * t.pair;
}

// GPipe, 1F1B and, divided among v stages, their looped forms.
std::optional<double> filled_and_drained(Size s, OpTimes t) {
  if (s.v > 1 && s.m < s.p) return std::nullopt;
  return (s.m * s.v + s.p - 1) * t.work();
}
std::optional<double> recomputed(Size s, OpTimes t) {
  const auto kept = filled_and_drained(s, t);
  return kept ? std::optional(*kept + s.m * s.v * t.f) : std::nullopt;
}
bool in_groups(Size s) { return s.m % std::max(1, s.m / s.p) == 0; }
bool in_rounds(Size s) { return s.m % s.p == 0; }

std::function<std::optional<double>(Size, OpTimes)> zero_bubble(int h) {
  return [h](Size s, OpTimes t) -> std::optional<double> {
    if (s.m < (h == 1 ? s.p : 2 * s.p - 1)) return std::nullopt;
    return s.m * t.work() + (s.p - 1) * (t.f + t.i - h * t.w);
  };
}

// Units of `unit` micro-batches and a last one of what is left, which must not be smaller than p.
std::function<std::optional<double>(Size, OpTimes)> zeropp(std::function<int(Size)> unit_of) {
  return [unit_of](Size s, OpTimes t) -> std::optional<double> {
    double bubble = 0;
    for (int left = s.m; left > 0; left -= unit_of(s)) {
      const int n = std::min(left, unit_of(s));
      if (n < s.p) return std::nullopt;
      bubble += (s.p - 1) * (t.f + t.i - t.w) - (std::min(n, 2 * s.p - 1) - s.p) * t.w;
    }
    return s.m * s.v * t.work() + bubble;
  };
}

const std::vector<SizeCase>& cases() {
  static const std::vector<SizeCase> list = {
      {.name = "gpipe_lifo", .system = "gpipe", .options = options({}), .makespan = filled_and_drained},
      {.name = "gpipe_fifo",
       .system = "gpipe",
       .options = options({{"backward", "fifo"}}),
       .makespan = filled_and_drained},
      {.name = "gpipe_recompute",
       .system = "gpipe",
       .options = options({{"recompute", "all"}}),
       .makespan = recomputed},
      {.name = "autopipe", .system = "autopipe", .options = options({}), .makespan = filled_and_drained},
      {.name = "one_f_one_b", .system = "one_f_one_b", .options = options({}), .makespan = filled_and_drained},
      {.name = "one_f_one_b_recompute",
       .system = "one_f_one_b",
       .options = options({{"recompute", "all"}}),
       .makespan = recomputed},
      {.name = "interleaved_megatron",
       .system = "interleaved_1f1b",
       .options = chunks_and({}),
       .accepts = in_rounds,
       .makespan = filled_and_drained,
       .chunked = true},
      {.name = "interleaved_torch",
       .system = "interleaved_1f1b",
       .options = chunks_and({{"rule", "torch"}}),
       .accepts = in_groups,
       .makespan = filled_and_drained,
       .chunked = true},
      {.name = "interleaved_zero_bubble",
       .system = "interleaved_1f1b",
       .options = chunks_and({{"rule", "torch"}, {"variant", "zero_bubble"}}),
       .accepts = in_groups,
       .span = [](Size s, OpTimes t) -> std::optional<double> {
         if (s.m < s.p) return std::nullopt;
         return s.m * s.v * t.work() + (s.p - 1) * (t.f + t.i - t.w);
       },
       .chunked = true},
      {.name = "interleaved_recompute",
       .system = "interleaved_1f1b",
       .options = chunks_and({{"recompute", "all"}}),
       .accepts = in_rounds,
       .makespan = recomputed,
       .chunked = true},
      {.name = "combined_1f1b",
       .system = "one_f_one_b",
       .options = options({{"variant", "combined"}}),
       .makespan = combined},
      {.name = "combined_interleaved",
       .system = "interleaved_1f1b",
       .options = chunks_and({{"variant", "combined"}}),
       .accepts = in_rounds,
       .makespan = combined,
       .chunked = true},
      {.name = "breadth_first_fifo",
       .system = "breadth_first",
       .options = chunks_and({}),
       .makespan = filled_and_drained,
       .chunked = true},
      {.name = "breadth_first_lifo",
       .system = "breadth_first",
       .options = chunks_and({{"backward", "lifo"}}),
       .makespan = filled_and_drained,
       .chunked = true},
      {.name = "zero_bubble_h1", .system = "zero_bubble", .options = options({}), .span = zero_bubble(1)},
      {.name = "zero_bubble_h2",
       .system = "zero_bubble",
       .options = options({{"variant", "h2"}}),
       .span = zero_bubble(2)},
      {.name = "zero_bubble_v",
       .system = "zero_bubble",
       .options = options({{"variant", "v"}}),
       .span = [](Size s, OpTimes t) -> std::optional<double> {
         if (s.m < 2 * s.p - 1 || t.f != t.i) return std::nullopt;
         return 2 * s.m * t.work();
       }},
      {.name = "v_half",
       .system = "controllable_memory",
       .options = options({}),
       .span = [](Size s, OpTimes t) -> std::optional<double> {
         if (s.p < 2 || s.m < 2 * s.p || t.f != t.i || t.f != t.w) return std::nullopt;
         return 2 * s.m * t.work() + t.f * (s.p == 2 ? 1 : s.p % 2 == 0 ? 3 * s.p - 7 : 3 * s.p - 4);
       }},
      {.name = "v_zb",
       .system = "controllable_memory",
       .options = options({{"variant", "zb"}}),
       .span = [](Size s, OpTimes t) -> std::optional<double> {
         if (s.m < 2 * s.p || t.f != t.i || t.f != t.w) return std::nullopt;
         return 2 * s.m * t.work();
       }},
      // The automatic one with the memory of h2 leaves no bubble at equal times.
      {.name = "zero_bubble_auto",
       .system = "zero_bubble",
       .options =
           [](Size s) {
             return Given{{"variant", "auto"}, {"memory", text(2 * s.p)}};
           },
       .span = [](Size s, OpTimes t) -> std::optional<double> {
         if (s.m < 2 * s.p || t.f != t.i) return std::nullopt;
         return s.m * t.work();
       }},
      {.name = "dualpipe",
       .system = "dualpipe",
       .options = options({}),
       .accepts = [](Size s) { return s.p % 2 == 0 && s.m % 2 == 0 && s.m >= 2 * s.p; },
       .makespan = [](Size s, OpTimes t) { return dualpipe(s.p / 2, s.m / 2, t); }},
      {.name = "dualpipe_v",
       .system = "dualpipe",
       .options = options({{"variant", "v"}}),
       .accepts = [](Size s) { return s.m >= 2 * s.p; },
       .makespan = [](Size s, OpTimes t) { return dualpipe(s.p, s.m, t); }},
      {.name = "stp",
       .system = "stp",
       .options = options({}),
       .accepts = [](Size s) { return s.m >= 3 * s.p - 1; },
       .makespan = [](Size s, OpTimes t) -> std::optional<double> {
         if (t.f != t.i || t.pair != t.work()) return std::nullopt;
         return 2 * s.m * t.work() + (s.p - 1) * (t.f + t.i - t.w);
       }},
      {.name = "vocabulary_parallelism_one_barrier",
       .system = "vocabulary_parallelism",
       .options = options({{"variant", "one_barrier"}}),
       .makespan = slices_of_words},
      {.name = "vocabulary_parallelism_two_barriers",
       .system = "vocabulary_parallelism",
       .options = options({{"variant", "two_barriers"}}),
       .makespan = slices_of_words},
      {.name = "vocabulary_parallelism_interlaced",
       .system = "vocabulary_parallelism",
       .options = options({{"variant", "interlaced"}}),
       .makespan = slices_of_words},
      // At B = 2 F for one unit of p micro-batches: ratio (p - 2) / (3 m / 2 + p - 2).
      {.name = "chimera",
       .system = "chimera",
       .options = options({}),
       .accepts = [](Size s) { return s.p % 2 == 0 && s.m % 2 == 0; },
       .makespan = [](Size s, OpTimes t) -> std::optional<double> {
         if (t.f != t.i || s.m != s.p) return std::nullopt;
         return s.m * t.work() / (1 - (s.p - 2) / (1.5 * s.m + s.p - 2));
       }},
      // At B = 2 F: idle p - 2 forwards, and as many for every unit of p micro-batches.
      {.name = "chimera_bitpipe",
       .system = "chimera",
       .options = options({{"variant", "bitpipe"}}),
       .accepts = [](Size s) { return s.p % 2 == 0 && s.m % 2 == 0; },
       .makespan = [](Size s, OpTimes t) -> std::optional<double> {
         if (t.f != t.i || s.m % s.p != 0) return std::nullopt;
         return 2 * s.m * t.work() + (s.p - 2) * (s.m / s.p + 1) * t.f;
       }},
      {.name = "hanayo",
       .system = "hanayo",
       .options =
           [](Size s) {
             return Given{{"waves", text(s.v)}};
           },
       .makespan = [](Size s, OpTimes t) -> std::optional<double> {
         if (t.f != t.i || s.m != s.p) return std::nullopt;
         return 2 * s.v * s.m * t.work() + 4 * (s.p - 1);
       },
       .chunked = true},
      {.name = "zeropp_unit_p",
       .system = "zeropp",
       .options = chunks_and({}),
       .span = zeropp([](Size s) { return s.p; }),
       .chunked = true},
      {.name = "zeropp_unit_2p_1",
       .system = "zeropp",
       .options =
           [](Size s) {
             return Given{{"chunks", text(s.v)}, {"unit", text(2 * s.p - 1)}};
           },
       .span = zeropp([](Size s) { return 2 * s.p - 1; }),
       .chunked = true},
      {.name = "zeropp_unit_3",
       .system = "zeropp",
       .options = chunks_and({{"unit", "3"}}),
       .span = zeropp([](Size) { return 3; }),
       .chunked = true},
      {.name = "fsdp",
       .system = "fsdp",
       .options = options({}),
       .accepts = [](Size s) { return s.m >= s.p; },
       .makespan = [](Size s, OpTimes t) -> std::optional<double> { return (s.m + s.p - 1) / s.p * t.work(); }},
      {.name = "layerpipe_style",
       .system = "layerpipe_style",
       .options = options({}),
       .accepts = [](Size s) { return s.p % 2 == 0; },
       .makespan = [](Size s, OpTimes t) -> std::optional<double> {
         return (s.m + s.p / 2 - 1) * (t.f + t.i) + t.w;  // p / 2 stages
       }},
  };
  return list;
}

class EverySizeTest : public testing::TestWithParam<SizeCase> {};

TEST_P(EverySizeTest, MakesAScheduleThatKeepsItsClosedFormOrRejects) {
  const SizeCase& c = GetParam();
  const System& system = find_system(c.system, "test");
  int by_formula = 0, rejected = 0;
  for (int p = 2; p <= 8; ++p)
    for (int m = 1; m <= 4 * p; ++m)
      for (int v = 1; v <= (c.chunked ? 4 : 1); ++v) {
        const Size size{p, m, v};
        SCOPED_TRACE("p=" + text(p) + " m=" + text(m) + " v=" + text(v));
        const Options given = resolve_options(system.options, c.options(size), "test");
        const StageCost one{Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)};
        try {
          const UniformChain chain = uniform_chain(system, given, latency_cluster(p, Seconds(0)), p, m, one);
          const ScheduleProblem& problem = chain.problem;
          const Schedule schedule = system.schedule(problem, given);
          ASSERT_TRUE(c.accepts(size)) << "made a schedule that it should reject";
          const auto found = check(schedule, problem.graph, problem.placement);
          ASSERT_TRUE(found.empty()) << found.front().text;
          const Program program = lower(schedule, problem.graph, problem.placement, system.weights(problem, given));
          for (const OpTimes& t : {kEqual, kOther, kPaired}) {
            Costs costs = uniform_costs(problem.stages(), t.f, t.i, t.w);
            for (StageCost& cost : costs.stages) cost.pair_share = t.pair / t.work();
            const Bubbles b =
                simulate(program, costs, latency_cluster(p, Seconds(0)), chain.devices, {.trace = false}).bubble;
            const auto makespan = c.makespan ? c.makespan(size, t) : std::nullopt;
            const auto span = c.span ? c.span(size, t) : std::nullopt;
            if (makespan) {
              ASSERT_NEAR(b.makespan, *makespan, 1e-9) << t.f << "/" << t.i;
            }
            if (span) {
              ASSERT_NEAR(b.max_span, *span, 1e-9) << t.f << "/" << t.i;
            }
            by_formula += makespan || span;
          }
        } catch (const InputError& e) {
          const std::string message = e.what();
          ASSERT_FALSE(c.accepts(size)) << message;
          // Which system, which of its numbers, and what to do.
          EXPECT_TRUE(message.starts_with(c.system + ": ")) << message;
          EXPECT_TRUE(message.find(text(m) + " micro-batches") != std::string::npos ||
                      message.find(text(p) + " ranks") != std::string::npos)
              << message;
          EXPECT_NE(message.find("; "), std::string::npos) << message;
          ++rejected;
        }
      }
  EXPECT_GE(by_formula, 4);
  RecordProperty("by_formula", by_formula);
  RecordProperty("rejected", rejected);
}

INSTANTIATE_TEST_SUITE_P(Systems, EverySizeTest, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// The order of every system, update after update: with a barrier between, an update takes the whole
// makespan; without, at least the longest span and never more.
TEST_P(EverySizeTest, ABarrierCostsTheSkewOfTheRanks) {
  const SizeCase& c = GetParam();
  const System& system = find_system(c.system, "test");
  bool skewed = false;
  for (const Size size : {Size{2, 8, 1}, Size{4, 8, 1}, Size{4, 8, 2}, Size{4, 7, 2}, Size{6, 12, 2}}) {
    if (!c.accepts(size) || (size.v > 1 && !c.chunked)) continue;
    SCOPED_TRACE("p=" + text(size.p) + " m=" + text(size.m) + " v=" + text(size.v));
    const Options given = resolve_options(system.options, c.options(size), "test");
    const Cluster cluster = latency_cluster(size.p, Seconds(0));
    const StageCost one{Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)};
    const UniformChain chain = uniform_chain(system, given, cluster, size.p, size.m, one);
    const ScheduleProblem& problem = chain.problem;
    const Schedule schedule = system.schedule(problem, given);
    const WeightRule rule = system.weights(problem, given);
    const auto period = [&](bool barrier, Bubbles* bubble) {
      const Program program = lower(schedule, problem.graph, problem.placement, rule, {}, {.step_barrier = barrier});
      const Simulation s =
          simulate(program, {problem.costs, {}}, cluster, chain.devices, {.iterations = 4, .trace = false});
      *bubble = s.bubble;
      return s.update_end[3] - s.update_end[2];
    };
    Bubbles bubble;
    const double free = period(false, &bubble), barrier = period(true, &bubble);
    EXPECT_DOUBLE_EQ(barrier, bubble.makespan);
    EXPECT_LE(free, barrier);
    EXPECT_GE(free, bubble.max_span - 1e-9);
    skewed = skewed || free < barrier;
  }
  // Parallelograms: what the barrier costs is what their papers gain.
  if (c.name == "zero_bubble_h2" || c.name == "zero_bubble_v" || c.name == "zeropp_unit_2p_1") {
    EXPECT_TRUE(skewed);
  }
  if (c.name == "gpipe_lifo" || c.name == "one_f_one_b") {
    EXPECT_FALSE(skewed);
  }
}

// For the same messages, which take no time here.
TEST(InterleavedZeroBubbleTest, IsNeverBehindInterleaved1F1B) {
  const System& system = find_system("interleaved_1f1b", "test");
  const auto makespan = [&](Size s, OpTimes t, const char* variant) {
    const Options given =
        resolve_options(system.options, {{"chunks", text(s.v)}, {"rule", "torch"}, {"variant", variant}}, "test");
    const StageCost one{Seconds(t.f), Seconds(t.i), Seconds(t.w), Seconds(0), Bytes(0)};
    const Cluster cluster = latency_cluster(s.p, Seconds(0));
    const UniformChain chain = uniform_chain(system, given, cluster, s.p, s.m, one);
    const ScheduleProblem& problem = chain.problem;
    const Program program = lower(system.schedule(problem, given), problem.graph, problem.placement, {});
    return simulate(program, {problem.costs, {}}, cluster, chain.devices, {.trace = false}).bubble.makespan;
  };
  for (int p = 2; p <= 6; ++p)
    for (int m = 1; m <= 3 * p; ++m)
      for (int v = 1; v <= 3; ++v)
        for (const OpTimes& t : {kEqual, kOther, OpTimes{1, 1, 3}, OpTimes{3, 1, 1}, OpTimes{1, 3, 0.5}}) {
          const Size size{p, m, v};
          if (!in_groups(size)) continue;
          EXPECT_LE(makespan(size, t, "zero_bubble"), makespan(size, t, "whole") + 1e-9)
              << "p=" << p << " m=" << m << " v=" << v << " F=" << t.f << " I=" << t.i << " W=" << t.w;
        }
}

}  // namespace
}  // namespace sluice
