// Every published case and closed form of the synchronous schedules, from the systems themselves.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include "harness/base/expect_error.h"
#include "harness/base/index.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/pipeline/sharding.h"
#include "harness/pipeline/system.h"
#include "harness/program/check_schedule.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"
#include "harness/tests/made_schedule.h"

namespace sluice {
namespace {

// The published cases of harness/tests/data/schedules.json, made by independent generators: 64
// schedules at 4 settings of F/I/W and latency.
struct Published {
  std::string system;  // in the file
  std::string name;
  Given options;
  int cases;
};

void PrintTo(const Published& published, std::ostream* out) { *out << published.system; }

class PublishedScheduleTest : public testing::TestWithParam<Published> {};

int peak_waiting_for_weight_gradient(const std::vector<Op>& ops) {
  int now = 0, peak = 0;
  for (const Op& op : ops) {
    now += op.kind == OpKind::input_gradient;
    now -= op.kind == OpKind::weight_gradient;
    peak = std::max(peak, now);
  }
  return peak;
}

TEST_P(PublishedScheduleTest, OrderTimesPeaksAndGathersAgree) {
  int tested = 0;
  for (const auto& json : parse_json_file(SLUICE_SOURCE_DIR "/harness/tests/data/schedules.json")) {
    if (json["system"] != GetParam().system) continue;
    // Two weight-gradient ranks a stage are two ranks.
    const int p = json["p"].get<int>() * (GetParam().name == "layerpipe_style" ? 2 : 1);
    // Data-parallel cases count the micro-batches of one rank.
    const int m = json["m"].get<int>() * (GetParam().name == "fsdp" ? p : 1);
    const auto& costs = json["costs"];
    SCOPED_TRACE(GetParam().system + " p=" + std::to_string(p) + " m=" + std::to_string(m) + " costs=" + costs.dump());
    Given given = GetParam().options;
    if (given.contains("chunks")) given["chunks"] = std::to_string(json["v"].get<int>());
    const Made made = make(GetParam().name, p, m, given);
    EXPECT_EQ(made.chain.problem.graph.size(), json["stages"]);
    const int stages = json["stages"].get<int>();
    const Program program = lower(made.schedule, made.chain.problem.graph, made.chain.problem.placement, WeightRule{});
    const Simulation s = simulate(
        program, uniform_costs(stages, costs["tF"].get<double>(), costs["tB"].get<double>(), costs["tW"].get<double>()),
        latency_cluster(p, Seconds(costs["latency"].get<double>())), identity_devices(p));
    EXPECT_DOUBLE_EQ(s.bubble.makespan, json["makespan"].get<double>());
    EXPECT_NEAR(s.bubble.bubble_ratio, json["bubble_ratio"].get<double>(), 1e-6);
    EXPECT_DOUBLE_EQ(s.bubble.max_span, json["max_span"].get<double>());
    EXPECT_NEAR(s.bubble.span_bubble, json["span_bubble"].get<double>(), 1e-6);
    const auto peak = peaks(made.schedule);
    const auto gathers = collectives(made.schedule, {.gather = Sharding::Gather::on_visit});
    for (std::size_t r = 0; r < peak.size(); ++r) {
      const auto& ops = made.schedule.ranks[r];
      EXPECT_EQ(Json(step_texts(ops)), json["ops"][std::to_string(r)]);
      EXPECT_DOUBLE_EQ(s.bubble.idle[r], json["idle"][r].get<double>());
      EXPECT_EQ(peak[r].in_flight, json["peak"][r]);
      EXPECT_EQ(peak[r].until_weight_gradient, json["peak_until_W"][r]);
      EXPECT_EQ(peak_waiting_for_weight_gradient(ops), json["peak_pending_W"][r]);
      EXPECT_EQ(gathers[r].gathers.size(), json["ag_one_chunk_resident"][r]);
    }
    ++tested;
  }
  EXPECT_EQ(tested, GetParam().cases);
}

const std::vector<Published>& published() {
  static const std::vector<Published> list = {
      {"gpipe_lifo", "gpipe", {}, 12},
      {"gpipe_fifo", "gpipe", {{"backward", "fifo"}}, 8},
      {"1f1b", "1f1b", {}, 20},
      {"interleaved_1f1b_megatron", "interleaved_1f1b", {{"chunks", ""}}, 12},
      {"interleaved_1f1b_torch", "interleaved_1f1b", {{"chunks", ""}, {"rule", "torch"}}, 16},
      {"bfpp_fifo", "breadth_first", {{"chunks", ""}}, 16},
      {"bfpp_lifo_torch", "breadth_first", {{"chunks", ""}, {"backward", "lifo"}}, 8},
      {"zb_h1", "zero_bubble", {{"variant", "h1"}}, 12},
      {"zb_h2", "zero_bubble", {{"variant", "h2"}}, 12},
      {"zb_v", "zero_bubble", {{"variant", "v"}}, 12},
      {"dualpipe", "dualpipe", {{"variant", "bidirectional"}}, 12},
      {"dualpipe_v", "dualpipe", {{"variant", "v"}}, 12},
      {"chimera", "chimera", {}, 12},
      {"hanayo_w1", "hanayo", {{"waves", "1"}}, 12},
      {"hanayo_w2", "hanayo", {{"waves", "2"}}, 8},
      {"fsdp", "fsdp", {}, 8},
      {"layerpipe_style", "layerpipe_style", {}, 8},
      {"zeropp_U2", "zeropp", {{"chunks", ""}, {"unit", "2"}}, 4},
      {"zeropp_U3", "zeropp", {{"chunks", ""}, {"unit", "3"}}, 8},
      {"zeropp_U4", "zeropp", {{"chunks", ""}, {"unit", "4"}}, 12},
      {"zeropp_U7", "zeropp", {{"chunks", ""}, {"unit", "7"}}, 12},
      {"zeropp_U8", "zeropp", {{"chunks", ""}, {"unit", "8"}}, 4},
      {"zeropp_nodefer_U4", "zeropp", {{"chunks", ""}, {"unit", "4"}, {"deferral", "none"}}, 4},
      {"zeropp_released_U3", "zeropp", {{"chunks", ""}, {"unit", "3"}, {"deferral", "released"}}, 8},
      {"zeropp_released_U7", "zeropp", {{"chunks", ""}, {"unit", "7"}, {"deferral", "released"}}, 4},
  };
  return list;
}

INSTANTIATE_TEST_SUITE_P(Systems, PublishedScheduleTest, testing::ValuesIn(published()),
                         [](const auto& test) { return "case_" + test.param.system; });

TEST(PublishedScheduleTest, EveryCaseIsGenerated) {
  int cases = 0;
  for (const Published& p : published()) cases += p.cases;
  EXPECT_EQ(cases, 256);
}

// The closed forms of the papers, over p = 2 .. 8: times of one op, and the work of a rank on one micro-batch of one
// stage.
struct PublishedTimes {
  double f, i, w;
  double work() const { return f + i + w; }
};

const PublishedTimes kTimes[] = {{1, 1, 1}, {2, 1, 1}, {10, 12, 8}};

Bubbles run(const Made& made, const PublishedTimes& t) {
  const ScheduleProblem& problem = made.chain.problem;
  const Program program = lower(made.schedule, problem.graph, problem.placement, WeightRule{});
  return simulate(program, uniform_costs(problem.stages(), t.f, t.i, t.w), latency_cluster(problem.ranks, Seconds(0)),
                  made.chain.devices, {.trace = false})
      .bubble;
}

std::string number(int n) { return std::to_string(n); }

std::string name_of(const Made& made) {
  return "p=" + number(made.chain.problem.ranks) + " m=" + number(made.chain.problem.microbatches) +
         " stages=" + number(made.chain.problem.stages());
}

void expect_peak(const Made& made, auto in_flight) {
  const auto peak = peaks(made.schedule);
  for (std::size_t r = 0; r < peak.size(); ++r)
    EXPECT_EQ(peak[r].in_flight, in_flight(static_cast<int>(r))) << name_of(made) << " rank " << r;
}

TEST(ClosedFormTest, GPipeAndOneForwardOneBackward) {
  for (int p = 2; p <= 8; ++p)
    for (int m = 1; m <= 4 * p; ++m) {
      const Made gpipe = make("gpipe", p, m), one = make("one_f_one_b", p, m);
      for (const PublishedTimes& t : kTimes)
        for (const Made* made : {&gpipe, &one})
          EXPECT_DOUBLE_EQ(run(*made, t).makespan, (m + p - 1) * t.work()) << name_of(*made);
      expect_peak(gpipe, [&](int) { return m; });
      expect_peak(one, [&](int r) { return std::min(m, p - r); });
    }
}

TEST(ClosedFormTest, InterleavedAndBreadthFirst) {
  for (int p = 2; p <= 8; ++p)
    for (int m = 1; m <= 4 * p; ++m)
      for (int v = 1; v <= 4; ++v) {
        const Given chunks{{"chunks", number(v)}};
        for (const char* order : {"fifo", "lifo"}) {
          const Made bfpp = make("breadth_first", p, m, {{"chunks", number(v)}, {"backward", order}});
          const int steps = std::max(m, p) * (v - 1) + m + p - 1;  // m v + p - 1 where m >= p
          for (const PublishedTimes& t : kTimes)
            EXPECT_DOUBLE_EQ(run(bfpp, t).makespan, steps * t.work()) << name_of(bfpp);
          expect_peak(bfpp, [&](int) { return m * v; });
          const System& system = find_system("breadth_first", "test");
          for (const RankCollectives& rank : collectives(bfpp.schedule, system.sharding(bfpp.chain.problem, {}))) {
            EXPECT_EQ(count_of(rank.gathers), 2 * v - 1);
            EXPECT_EQ(count_of(rank.reductions), v);
          }
        }
        if (m % p != 0) continue;
        const Made interleaved = make("interleaved_1f1b", p, m, chunks);
        for (const PublishedTimes& t : kTimes)
          EXPECT_DOUBLE_EQ(run(interleaved, t).makespan, (m * v + p - 1) * t.work()) << name_of(interleaved);
        expect_peak(interleaved,
                    [&](int r) { return m == p ? m * v : std::min(m * v, (v - 1) * p + 2 * (p - 1 - r) + 1); });
      }
}

TEST(ClosedFormTest, ZeroBubble) {
  for (int p = 2; p <= 8; ++p)
    for (int m = p; m <= 4 * p; ++m) {
      for (const int h : {1, 2}) {
        if (h == 2 && m < 2 * p - 1) continue;
        const Made made = make("zero_bubble", p, m, {{"variant", "h" + number(h)}});
        for (const PublishedTimes& t : kTimes)
          EXPECT_DOUBLE_EQ(run(made, t).max_span, m * t.work() + (p - 1) * (t.f + t.i - h * t.w))
              << name_of(made) << " h=" << h << " " << t.f << "/" << t.i << "/" << t.w;
        expect_peak(made, [&](int r) { return std::min(m, h * (p - 1 - r) + 1); });
        for (const RankPeak& peak : peaks(made.schedule))
          EXPECT_EQ(peak.until_weight_gradient, std::min(m, h * (p - 1) + 1));
      }
      if (m < 2 * p - 1) continue;
      const Made v = make("zero_bubble", p, m, {{"variant", "v"}});
      EXPECT_NEAR(run(v, kTimes[0]).span_bubble, 0, 1e-12) << name_of(v);
      for (const RankPeak& peak : peaks(v.schedule)) EXPECT_EQ(peak.until_weight_gradient, 2 * p);
    }
}

// m >= p - 1 and m >= 2(p - 1) are not enough; one more is needed.
TEST(ClosedFormTest, ZeroBubbleNeedsEnoughMicroBatches) {
  for (int p = 2; p <= 8; ++p)
    for (const int h : {1, 2}) {
      const int m = h == 1 ? p - 1 : 2 * (p - 1);
      const Made made = make("zero_bubble", p, m, {{"variant", "h" + number(h)}});
      EXPECT_GT(run(made, {1, 1, 1}).max_span, 3 * m + (p - 1) * (2 - h)) << name_of(made);
    }
}

TEST(ClosedFormTest, DualPipeAtEqualTimes) {
  for (int p = 2; p <= 8; ++p)
    for (int m = 2 * p; m <= 4 * p; ++m) {
      if (p % 2 == 0 && m % 2 == 0) {
        const Made both = make("dualpipe", p, m);
        EXPECT_DOUBLE_EQ(run(both, kTimes[0]).makespan, 3 * m + 2 * (p / 2 - 1)) << name_of(both);
        expect_peak(both, [&](int) { return p + 1; });
      }
      const Made v = make("dualpipe", p, m, {{"variant", "v"}});
      EXPECT_DOUBLE_EQ(run(v, kTimes[0]).makespan, 6 * m + 2 * (p - 1)) << name_of(v);
      expect_peak(v, [&](int) { return 2 * p + 1; });
    }
}

TEST(ClosedFormTest, Chimera) {
  for (int p = 2; p <= 8; p += 2)
    for (int m = p; m <= 4 * p; m += p) {
      const Made made = make("chimera", p, m);
      EXPECT_NEAR(run(made, {2, 1, 1}).bubble_ratio, (p - 2) / (2.0 * m + p - 2), 1e-12) << name_of(made);
      if (m == p) {
        EXPECT_NEAR(run(made, {1, 1, 1}).bubble_ratio, (p - 2) / (1.5 * m + p - 2), 1e-12);
      }
      expect_peak(made, [&](int r) { return p / 2 + 1 + std::min(r, p - 1 - r); });
    }
}

// wuhouming/BitPipe, bitpipe_schedule.py: how many forwards and backwards of a rank run one after another and in turn,
// in units of p micro-batches. golden_test.cpp has which ones, for p = 4.
TEST(PublishedScheduleTest, BitPipeRunsForwardsAndBackwardsInTurnAsItsReleasedCode) {
  const auto times = [](int count, const std::string& ops) {
    std::string all;
    for (int k = 0; k < count; ++k) all += ops;
    return all;
  };
  for (int p = 2; p <= 10; p += 2)
    for (int units = 1; units <= 4; ++units) {
      const Schedule schedule = make("chimera", p, units * p, {{"variant", "bitpipe"}}).schedule;
      for (int r = 0; r < p; ++r) {
        const int warm_up = p + p / 2 + std::min(r, p - 1 - r), rest = 2 * p - warm_up, drained = warm_up - rest + 1;
        std::string expected = times(warm_up, "F") + times(rest, "FB"), ours;
        for (int u = 1; u < units; ++u)
          expected += times(drained, "B") + times(rest - 1, "FB") + times(drained, "F") + times(rest, "FB");
        expected += times(warm_up, "B");
        for (const Op& op : schedule.ranks[r]) ours += op.kind == OpKind::forward ? "F" : "B";
        EXPECT_EQ(ours, expected) << "p=" << p << " units=" << units << " rank " << r;
      }
    }
}

TEST(ClosedFormTest, BitPipe) {
  for (int p = 2; p <= 8; p += 2)
    for (int m = p; m <= 4 * p; m += p) {
      const Made made = make("chimera", p, m, {{"variant", "bitpipe"}});
      EXPECT_NEAR(run(made, {2, 1, 1}).bubble_ratio, (p - 2) / (4.0 * m + p - 2), 1e-12) << name_of(made);
      expect_peak(made, [&](int r) { return p + p / 2 + 1 + std::min(r, p - 1 - r); });
    }
}

TEST(ClosedFormTest, ZeroPP) {
  for (int p = 2; p <= 8; ++p)
    for (int v = 1; v <= 3; ++v)
      for (int unit = p; unit <= 2 * p + 1; ++unit)
        for (int units = 1; units <= 3; ++units) {
          const int m = unit * units;
          const Made made = make("zeropp", p, m, {{"chunks", number(v)}, {"unit", number(unit)}});
          for (const PublishedTimes& t : {kTimes[0], kTimes[1]})
            EXPECT_DOUBLE_EQ(run(made, t).max_span, m * v * t.work() + units * ((p - 1) * (t.f + t.i - t.w) -
                                                                                (std::min(unit, 2 * p - 1) - p) * t.w))
                << name_of(made) << " unit=" << unit;
          const auto gathers = collectives(made.schedule, {.gather = Sharding::Gather::on_visit,
                                                           .reduce = Sharding::Reduce::accumulated,
                                                           .microbatches_per_reduction = unit});
          const auto peak = peaks(made.schedule);
          for (std::size_t r = 0; r < peak.size(); ++r) {
            EXPECT_EQ(peak[r].until_weight_gradient, (v - 1) * unit + std::min(unit, 2 * p - 1));
            const int visits = v == 1 ? 1 : units * (2 * v - 2) + 1;
            EXPECT_EQ(count_of(gathers[r].gathers), visits);
            EXPECT_EQ(count_of(gathers[r].reductions), units * v);
          }
        }
}

TEST(ClosedFormTest, HanayoWithAsManyMicrobatchesAsRanks) {
  for (int p = 2; p <= 8; ++p)
    for (int waves = 1; waves <= 3; ++waves) {
      const Made made = make("hanayo", p, p, {{"waves", number(waves)}});
      const double idle = run(made, {1, 1, 1}).idle[0];
      EXPECT_DOUBLE_EQ(idle, 4 * (p - 1)) << name_of(made);
    }
  // 22 equal slots: rank p - 1 cannot start before slot p - 1 nor end later than as many from the
  // end.
  EXPECT_DOUBLE_EQ(run(make("hanayo", 4, 4), {2, 1, 1}).makespan, 2 * 22);
}

// Micro-batches and ranks that do not fit: an order all the same, or a rejection, never another system's order.
std::string rejection(const std::string& name, int p, int m, const Given& given = {}) {
  return error_of([&] { make(name, p, m, given); });
}

TEST(InvalidSizesTest, AreRejectedByName) {
  EXPECT_EQ(rejection("interleaved_1f1b", 4, 6),
            "interleaved_1f1b: 6 micro-batches are not a multiple of 4 ranks; change one of them, "
            "or set rule=torch");
  EXPECT_EQ(rejection("interleaved_1f1b", 4, 6, {{"rule", "torch"}}), "no error");
  EXPECT_EQ(rejection("interleaved_1f1b", 4, 9, {{"rule", "torch"}}),
            "interleaved_1f1b: 9 micro-batches do not make 2 equal groups for 4 ranks; use a "
            "multiple of 4");
  EXPECT_EQ(rejection("chimera", 3, 6), "chimera: 3 ranks do not pair up; use an even number");
  EXPECT_EQ(rejection("chimera", 4, 5), "chimera: 5 micro-batches for two directions; use an even number");
  EXPECT_EQ(rejection("dualpipe", 3, 8),
            "dualpipe: 3 ranks and 8 micro-batches for two directions; use even numbers, or set "
            "variant=v");
  EXPECT_EQ(rejection("dualpipe", 4, 6),
            "dualpipe: 6 micro-batches on 4 ranks; use at least 8, or zero_bubble with variant=v");
  EXPECT_EQ(rejection("dualpipe", 3, 5, {{"variant", "v"}}),
            "dualpipe: 5 micro-batches on 3 ranks; use at least 6, or zero_bubble with variant=v");
  EXPECT_EQ(rejection("fsdp", 4, 3), "fsdp: 3 micro-batches for 4 ranks; give every rank at least one micro-batch");
  EXPECT_EQ(rejection("zero_bubble", 4, 8, {{"variant", "auto"}, {"memory", "3"}}),
            "zero_bubble: memory=3 micro-batches on 4 ranks; the first rank holds one for every "
            "rank: give at least as many");
}

TEST(InvalidSizesTest, AnyNumberOfMicroBatchesRunsWhereTheOrderAllowsIt) {
  const std::pair<std::string, Given> systems[] = {{"gpipe", {}},
                                                   {"one_f_one_b", {}},
                                                   {"breadth_first", {{"chunks", "3"}}},
                                                   {"zero_bubble", {}},
                                                   {"zero_bubble", {{"variant", "h2"}}},
                                                   {"zero_bubble", {{"variant", "v"}}},
                                                   {"zero_bubble", {{"variant", "auto"}}},
                                                   {"hanayo", {{"waves", "2"}, {"cap", "3"}}},
                                                   {"zeropp", {{"chunks", "3"}, {"unit", "2"}}},
                                                   {"zeropp", {{"unit", "5"}}}};
  for (const auto& [name, given] : systems)
    for (int p = 1; p <= 6; ++p)
      for (int m = 1; m <= 3 * p + 1; ++m) {
        const Made made = make(name, p, m, given);
        const auto found = check(made.schedule, made.chain.problem.graph, made.chain.problem.placement);
        ASSERT_TRUE(found.empty()) << name << " " << name_of(made) << ": " << found.front().text;
      }
}

TEST(InvalidSizesTest, WeakCasesAreNoted) {
  const auto note = [](const std::string& name, int p, int m, const Given& given) {
    const System& system = find_system(name, "test");
    return system.theory(make(name, p, m, given).chain.problem, resolve_options(system.options, given, "test")).note;
  };
  EXPECT_EQ(note("breadth_first", 4, 3, {}), "fewer micro-batches than ranks: every stage waits for the ring");
  EXPECT_EQ(note("breadth_first", 4, 4, {}), "");
  EXPECT_NE(note("zeropp", 4, 8, {{"unit", "3"}}), "");
  EXPECT_NE(note("zeropp", 4, 6, {}), "");  // the last unit has two
  EXPECT_EQ(note("zeropp", 4, 8, {}), "");
}

}  // namespace
}  // namespace sluice
