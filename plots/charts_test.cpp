// The charts hold the numbers of the records, keep clocks apart, and name what failed.
#include "plots/charts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "plots/style.h"
#include "plots/synthetic_test.h"
#include "plots/timeline_ops.h"
#include "results/comparison_rows.h"
#include "results/system_style.h"

namespace sluice {
namespace {

// Every object under `value` that has the field `name`.
void collect(const Json& value, const std::string& name, std::vector<Json>& into) {
  if (value.contains(name)) into.push_back(value);
  if (value.is_object())
    for (const auto& [key, inner] : value.items()) collect(inner, name, into);
  if (value.is_array())
    for (const Json& inner : value) collect(inner, name, into);
}
std::vector<Json> with_field(const Json& value, const std::string& name) {
  std::vector<Json> found;
  collect(value, name, found);
  return found;
}

const Chart& chart(const std::vector<Chart>& charts, const std::string& prefix) {
  for (const Chart& candidate : charts)
    if (candidate.name.starts_with(prefix)) return candidate;
  ADD_FAILURE() << "no chart " << prefix;
  return charts.at(0);
}

const ChartSet& study_charts() {
  static const ChartSet charts = make_charts(synthetic::study());
  return charts;
}

TEST(Charts, OneSectionAWorkloadAndClock) {
  const ChartSet set = make_charts(synthetic::records());
  ASSERT_EQ(set.sections.size(), 3u);
  std::set<std::string> names;
  for (const ChartSection& section : set.sections) {
    for (const Chart& c : section.charts) {
      EXPECT_TRUE(names.insert(c.name).second) << c.name;
      EXPECT_EQ(c.spec["$schema"], "https://vega.github.io/schema/vega-lite/v5.json");
      const std::string subtitle = c.spec["title"]["subtitle"].dump();
      const bool wall = subtitle.find("wall clock") != std::string::npos;
      EXPECT_NE(wall, subtitle.find("virtual clock, analytic costs") != std::string::npos) << subtitle;
      EXPECT_EQ(wall, section.comparisons[0].clock == "wall");
    }
  }
  ASSERT_EQ(set.overview.size(), 2u);  // two workloads on the wall clock, one on the virtual
  EXPECT_TRUE(set.overview[0].name.starts_with("overview-time-"));
  EXPECT_EQ(set.overview[1].spec["concat"].size(), 3u);
}

TEST(Charts, ThroughputHasEverySystemAndTheReference) {
  const ChartSet set = make_charts(synthetic::records());
  const ChartSection& wall = set.sections[1];
  const Json& panels = chart(wall.charts, "throughput-").spec["concat"];
  ASSERT_EQ(panels.size(), 2u);  // 2 and 4 ranks
  for (const Json& panel : panels) {
    EXPECT_EQ(panel["data"]["values"][0]["label"], "Single device");
    EXPECT_FALSE(with_field(panel["layer"], "datum").empty());  // the dashed line
  }
  bool failed = false;
  for (const Json& bar : panels[1]["data"]["values"]) {
    if (bar["label"] != "Chimera") continue;
    failed = true;
    EXPECT_EQ(bar["text"], "out of memory");
    EXPECT_FALSE(bar.contains("low"));
  }
  EXPECT_TRUE(failed);
}

TEST(Charts, NotReachedIsSaid) {
  const ChartSet set = make_charts(synthetic::records());
  const Chart& c = chart(set.sections[1].charts, "time-to-accuracy-");
  EXPECT_NE(c.spec.dump().find("not reached: best accuracy 0.767, target 0.85"), std::string::npos);
}

// The study: 5 tasks, single_device and 5 systems, 2, 4 and 8 ranks, 5 seeds, equal and tuned rates.
TEST(Charts, AStudyIsSmallMultiplesOfTasksRanksAndRates) {
  const ChartSet& set = study_charts();
  ASSERT_EQ(set.sections.size(), 5u);
  for (const ChartSection& section : set.sections) {
    ASSERT_EQ(section.comparisons.size(), 6u);
    std::map<std::string, int> kinds;
    for (const Chart& c : section.charts) {
      ++kinds[c.name.substr(0, c.name.find('-'))];
      for (const char* kind : {"time-to", "curves", "final", "throughput"})
        if (c.name.starts_with(kind)) {
          EXPECT_EQ(c.spec["concat"].size(), 6u) << c.name;
          EXPECT_EQ(c.spec["columns"], 2);
        }
    }
    // Memory and timelines once for every rank count, not again for tuned rates: 5 systems each, and the single device
    // once.
    EXPECT_EQ(kinds, (std::map<std::string, int>{{"activations", 3},
                                                 {"curves", 2},
                                                 {"final", 1},
                                                 {"memory", 3},
                                                 {"pareto", 3},
                                                 {"scaling", 1},
                                                 {"throughput", 1},
                                                 {"time", 1}}));
    EXPECT_EQ(section.timelines.size(), 16u);
    const Json& panels = chart(section.charts, "time-to").spec["concat"];
    EXPECT_TRUE(panels[4]["title"]["text"].get<std::string>().starts_with("8 ranks, learning rate 0."));
    EXPECT_EQ(panels[5]["title"]["text"], "8 ranks, learning rate tuned");
  }
  EXPECT_EQ(set.overview.size(), 2u);
  EXPECT_EQ(set.overview[0].spec["concat"].size(), 6u);
}

TEST(Charts, BarsAreMediansWithTheSmallestAndLargestSeed) {
  std::vector<Record> records;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    records.push_back(synthetic::record("gpipe", 4, 0.01 * static_cast<double>(seed), "wall", seed));
    if (seed == 5) records.back().curve.resize(3);  // does not reach the target
  }
  const auto all = compare(records);
  const Json bar = time_to_accuracy_chart("t", "T", all).spec["concat"][0]["data"]["values"][0];
  // Accuracy 0.85 is reached after 320 updates by seeds 1 to 4: after 3.2, 6.4, 9.6 and 12.8 s.
  EXPECT_NEAR(bar["value"].get<double>(), 8.0, 1e-9);
  EXPECT_NEAR(bar["low"].get<double>(), 3.2, 1e-9);
  EXPECT_NEAR(bar["high"].get<double>(), 12.8, 1e-9);
  EXPECT_EQ(bar["text"], "8 s 4/5");
}

TEST(Charts, ACurveIsTheMedianInABandAndEndsWhereMostSeedsHaveDiverged) {
  std::vector<Record> records;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    records.push_back(synthetic::record("pipedream", 4, 0.01, "virtual", seed));
    Record& r = records.back();
    r.curve = {{10, 1, 1.0, 0.1 * static_cast<double>(seed)}, {20, 2, 1.0, 0.5}, {30, 3, 1.0, 0.6}};
    if (seed == 3) continue;
    r.outcome = RecordOutcome::diverged;
    r.diverged_at = seed == 1 ? 15 : 25;
    r.curve.resize(seed == 1 ? 1 : 2);
    r.curve.push_back({*r.diverged_at, 2.5, std::nan(""), std::nullopt});
  }
  const auto all = compare(records);
  const Chart c = curves_chart("c", all, CurveAxis::updates);
  const Json& points = c.spec["concat"][0]["data"]["values"];
  ASSERT_EQ(points.size(), 2u);  // after 30 updates one of three is left
  EXPECT_NEAR(points[0]["value"].get<double>(), 0.2, 1e-12);
  EXPECT_NEAR(points[0]["low"].get<double>(), 0.1, 1e-12);
  EXPECT_NEAR(points[0]["high"].get<double>(), 0.3, 1e-12);
  EXPECT_EQ(points[1]["seeds"], 2);
  EXPECT_NE(c.spec["title"]["subtitle"].dump().find("Diverged: PipeDream 2/3"), std::string::npos);
}

TEST(Charts, ABoundaryFramesTheLargestStableRate) {
  const ChartSet& set = study_charts();
  ASSERT_EQ(set.boundary_charts.size(), 1u);
  const Json& panels = set.boundary_charts[0].spec["concat"];
  ASSERT_EQ(panels.size(), 3u);  // 2, 4 and 8 ranks
  for (std::size_t k = 0; k < 3; ++k) {
    std::map<std::string, std::string> framed;
    for (const Json& cell : panels[k]["data"]["values"])
      if (cell["framed"] == true) framed[cell["row"].get<std::string>()] = cell["column"].get<std::string>();
    for (const StableRateRow& row : set.boundaries[k].rows)
      EXPECT_EQ(framed[title_of(row)], rate_text(row, set.boundaries[k])) << row.label;
    EXPECT_EQ(framed.size(), 6u);
  }
  // Its records are in no other chart.
  for (const ChartSection& section : set.sections) EXPECT_NE(section.comparisons[0].workload, "fashion_mlp");
}

TEST(Charts, LongTextsBehindBarsStayInTheirPanel) {
  for (const ChartSection& section : study_charts().sections) {
    const Chart& c = chart(section.charts, "time-to");
    for (const Json& panel : c.spec["concat"]) {
      const double end = panel["layer"][0]["encoding"]["x"]["scale"]["domain"][1].get<double>();
      for (const Json& bar : panel["data"]["values"]) {
        const double pixels = 390 * bar["end"].get<double>() / end;
        const std::string text = bar["text"].get<std::string>();
        EXPECT_LE(pixels + 6 + 6.2 * static_cast<double>(letters(text)), 396) << text;
      }
    }
  }
}

TEST(Charts, MemoryStacksAddUpAndThePredictionIsBeside) {
  const std::vector<Record> records = {synthetic::record("gpipe", 4, 0.1)};
  const Chart c = memory_chart("m", compare(records).at(0));
  ASSERT_EQ(c.spec["concat"].size(), 1u);
  const Json& layers = c.spec["concat"][0]["layer"];
  ASSERT_EQ(layers.size(), 2u);
  double sum = 0;
  for (const Json& part : layers[0]["data"]["values"])
    if (part["rank"] == 0) sum += part["size"].get<double>();
  EXPECT_NEAR(sum, 50, 1e-9);                                                   // MiB: 10 + 10 + 5 + 24 + 1
  EXPECT_NEAR(layers[1]["data"]["values"][0]["size"].get<double>(), 49, 1e-9);  // without buffers
}

TEST(Charts, ASystemHasOneColour) {
  const std::vector<Record> records = synthetic::records();
  std::set<std::string> colors, systems;
  for (const Record& record : records) {
    systems.insert(record.system);
    colors.insert(system_style(record.system).color);
  }
  EXPECT_EQ(colors.size(), systems.size());
  const ChartSet set = make_charts(records);
  for (const ChartSection& section : set.sections)
    for (const Chart& c : section.charts)
      for (const Json& bar : with_field(c.spec, "color"))
        if (bar.contains("system") && bar["color"].is_string()) {
          EXPECT_EQ(bar["color"], system_style(bar["system"].get<std::string>()).color);
        }
}

TEST(Charts, TimelineReadsTheOps) {
  Record r = synthetic::record("dualpipe", 2, 0.1);
  r.timeline = {{0, "0F0", 0, 1},    {0, "2I10", 1, 2},    {1, "(1F0;1B3)", 2, 4}, {1, "SEND_F", 2, 2.5},
                {0, "step", 3.5, 4}, {0, "2W10", 2, 2.01}, {0, "gather 0", 0, 3},  {1, "reduce_scatter 1", 2.5, 4},
                {1, "reduce", 3, 4}};
  r.theory = {.bubble_ratio = 0.25};
  r.observed = {};
  const std::vector<Comparison> comparisons = compare(std::vector<Record>{r});
  const Timeline timeline = timeline_of_row("t", comparisons[0].rows[0]);
  const Json& boxes = timeline.data["boxes"];
  std::multiset<std::string> kinds;
  for (const Json& kind : boxes["kind"]) kinds.insert(kOpKinds[kind.get<int>()].name);
  EXPECT_EQ(kinds, (std::multiset<std::string>{"F", "I", "F", "B", "communication", "gather", "reduction", "reduction",
                                               "optimizer step", "W"}));
  // By start; the pair is two boxes, in the upper and the lower half (1, 2) of its row; 3: the lane below it.
  EXPECT_EQ(boxes["text"], Json::parse(R"(["0F0", "gather 0", "2I10", "1F0", "1B3", "SEND_F", "2W10",
                                           "reduce_scatter 1", "reduce", "step"])"));
  EXPECT_EQ(boxes["place"], Json::parse("[0, 3, 0, 1, 2, 3, 0, 3, 3, 0]"));
  EXPECT_EQ(boxes["start"][3], 500'000);  // of a million ticks in 4 s
  EXPECT_EQ(boxes["length"][6], 2'500);
  EXPECT_EQ(timeline.data["seconds"], 4);
  // Compute: 2.51 of rank 0, 2 of rank 1, in 2 x 4: idle 43.6 %.
  EXPECT_EQ(timeline.title, "DualPipe, 2 ranks: bubble 43.6 % (theory for equal stages without messages: 25.0 %)");
}

TEST(Charts, WhatHasNothingToShowIsNoChart) {
  Record r;
  r.system = "gpipe";
  r.workload = "mlp";
  r.clock = Clock::wall;
  r.ranks = 2;
  r.outcome = RecordOutcome::failed;
  r.reason = "rank 1 left";
  const ChartSet set = make_charts(std::vector<Record>{r});
  ASSERT_EQ(set.sections.size(), 1u);
  EXPECT_TRUE(set.sections[0].charts.empty());  // the table of results says why
  EXPECT_TRUE(make_charts({}).sections.empty());
}

// 1,220 pixels, 28 between panels: three columns have 388 each, two 596.
TEST(Charts, PanelsFillTheirRowsAndLongNamesPutThemOneBelowTheOther) {
  const auto grid = [](std::size_t panels, double labels) { return panel_grid(panels, labels, 390); };
  EXPECT_EQ(grid(1, 100).columns, 1u);
  EXPECT_EQ(grid(2, 100).columns, 2u);
  EXPECT_EQ(grid(3, 100).columns, 3u);
  EXPECT_EQ(grid(6, 100).columns, 2u);
  EXPECT_DOUBLE_EQ(grid(2, 100).width, 390);
  EXPECT_DOUBLE_EQ(grid(3, 100).width, 288);
  EXPECT_EQ(grid(3, 100).heading_chars, 53u);
  for (const std::size_t panels : {2u, 3u}) {
    EXPECT_EQ(grid(panels, 400).columns, 1u);
    EXPECT_DOUBLE_EQ(grid(panels, 400).width, 780);
  }
}

TEST(Charts, APanelWithoutABarHasNoAxis) {
  std::vector<Record> records = {synthetic::record("gpipe", 2, 1, "virtual"),
                                 synthetic::record("gpipe", 4, 1, "virtual")};
  records[1].outcome = RecordOutcome::out_of_memory;
  records[1].step_seconds.clear();
  const Chart chart = throughput_chart("t", "T", compare(records));
  ASSERT_EQ(chart.spec["concat"].size(), 2u);
  const auto axis = [&](std::size_t k) { return chart.spec["concat"][k]["layer"][0]["encoding"]["x"]["axis"]; };
  EXPECT_EQ(axis(0)["title"], "samples/s");
  EXPECT_TRUE(axis(1).is_null());
}

// A record of 4 ranks that needs `peak` bytes and takes `seconds` a step.
Record traded(const std::string& system, double seconds, std::int64_t peak, std::int64_t gathers) {
  Record r = synthetic::record(system, 4, seconds, "virtual");
  for (MemorySplit& split : r.peak_bytes) split.total = peak;
  r.observed.sent_bytes = {.messages = {100, 200, 200, 100},
                           .gathers = {gathers, gathers, gathers, gathers},
                           .reductions = {50, 50, 50, 50}};
  return r;
}

TEST(Charts, WhatWaitsInTheHostsMemoryStandsBesideTheTotal) {
  std::vector<Record> records = {synthetic::record("gpipe", 2, 0.05, "virtual"),
                                 synthetic::record("pipe_offload", 2, 0.05, "virtual")};
  const auto kinds = [&] {
    std::set<std::string> names;
    for (const Json& value : with_field(chart(make_charts(records).sections[0].charts, "memory-").spec, "kind"))
      names.insert(value["kind"].get<std::string>());
    return names;
  };
  EXPECT_FALSE(kinds().contains("in the host's memory"));
  records[1].peak_bytes[0].host = 5 << 20;
  EXPECT_TRUE(kinds().contains("in the host's memory"));
  const std::string spec = chart(make_charts(records).sections[0].charts, "memory-").spec.dump();
  EXPECT_NE(spec.find("in the host's memory, not part of the total"), std::string::npos);
}

TEST(Charts, MemoryIsTradedForThroughputWhereStagesAreDivided) {
  // gpipe is faster than fsdp and zeropp with less memory than zeropp, which is no worse in nothing.
  const std::vector<Record> records = {traded("fsdp", 0.04, 1000, 900), traded("zeropp", 0.03, 3000, 500),
                                       traded("gpipe", 0.02, 2000, 0)};
  const ChartSet set = make_charts(records);
  const Chart& pareto = chart(set.sections[0].charts, "pareto-");
  std::map<std::string, bool> front;
  for (const Json& value : with_field(pareto.spec["data"], "front"))
    front[value["system"].get<std::string>()] = value["front"].get<bool>();
  EXPECT_EQ(front, (std::map<std::string, bool>{{"FSDP", true}, {"ZeroPP", false}, {"GPipe", true}}));
  const Chart& volume = chart(set.sections[0].charts, "communication-");
  std::map<std::string, double> sizes;
  for (const Json& value : with_field(volume.spec, "kind"))
    if (value["label"] == "FSDP") sizes[value["kind"].get<std::string>()] = value["size"].get<double>();
  EXPECT_DOUBLE_EQ(sizes["gathers"] / sizes["messages"], 4.5);
  EXPECT_DOUBLE_EQ(sizes["reductions"] / sizes["messages"], 0.25);
  // Where nothing is divided little is sent, but memory and throughput still differ.
  const ChartSet undivided = make_charts(synthetic::records());
  EXPECT_TRUE(chart(undivided.sections[0].charts, "pareto-").spec.contains("layer"));
  for (const Chart& c : undivided.sections[0].charts) EXPECT_FALSE(c.name.starts_with("communication-")) << c.name;
}

TEST(Charts, ScalingIsALineASystemOverRanksAndOverMicroBatches) {
  std::vector<Record> records = {synthetic::record("single_device", 1, 0.1, "virtual")};
  for (const int ranks : {2, 4}) records.push_back(synthetic::record("gpipe", ranks, 0.16 / ranks, "virtual"));
  for (const int micro_batches : {4, 16}) {
    records.push_back(synthetic::record("fsdp", 4, 0.03, "virtual"));
    records.back().microbatches = micro_batches;
    records.back().options = {{"microbatches", std::to_string(micro_batches)}};
    records.back().digest += std::to_string(micro_batches);
  }
  const ChartSet set = make_charts(records);
  const Chart& ranks = chart(set.sections[0].charts, "scaling-");
  ASSERT_EQ(ranks.spec["concat"].size(), 2u);
  std::map<double, double> shares;  // 128 samples in 0.08 and 0.04 s, against 128 in 0.1 s: 0.625 a rank
  for (const Json& value : ranks.spec["concat"][1]["data"]["values"])
    if (value["label"] == "GPipe") shares[value["x"].get<double>()] = value["value"].get<double>();
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_NEAR(shares[2], 0.625, 0.02);
  EXPECT_NEAR(shares[4], 0.625, 0.02);
  const Chart& micro_batches = chart(set.sections[0].charts, "microbatches-");
  ASSERT_EQ(micro_batches.spec["concat"].size(), 1u);
  std::vector<double> places;
  for (const Json& value : micro_batches.spec["concat"][0]["data"]["values"]) {
    EXPECT_EQ(value["label"], "FSDP");
    places.push_back(value["x"].get<double>());
  }
  EXPECT_EQ(places, (std::vector<double>{4, 16}));
}

TEST(Charts, ALineOverRanksKeepsItsPointsWhereOnlySomeRankCountsHaveSeveralSettings) {
  std::vector<Record> records;
  for (const int ranks : {2, 4, 8}) records.push_back(synthetic::record("gpipe", ranks, 0.16 / ranks, "virtual"));
  records.push_back(records.back());  // of 8 ranks, with twice as many micro-batches
  records.back().digest += "m";
  const auto line = [&](std::vector<int> micro_batches, const std::string& label) {
    for (std::size_t k = 0; k < records.size(); ++k) records[k].microbatches = micro_batches[k];
    const ChartSet set = make_charts(records);
    std::vector<double> places;
    for (const Json& value : chart(set.sections[0].charts, "scaling-").spec["concat"][0]["data"]["values"]) {
      EXPECT_EQ(value["label"], label);
      places.push_back(value["x"].get<double>());
    }
    return places;
  };
  EXPECT_EQ(line({16, 16, 16, 32}, "GPipe microbatches=16"), (std::vector<double>{2, 4, 8}));
  EXPECT_EQ(line({2, 4, 8, 32}, "GPipe"), (std::vector<double>{2, 4}));  // one number a rank count
}

TEST(Charts, ColoursOfTwoRanksAreTheEndsOfTheRange) {
  const std::vector<Record> records = {synthetic::record("gpipe", 2, 0.1, "virtual")};
  const ChartSet set = make_charts(records);
  EXPECT_EQ(chart(set.sections[0].charts, "activations-").spec["concat"][0]["encoding"]["color"]["scale"]["range"],
            (Json{"#2667ff", "#f03524"}));
}

TEST(Charts, TimelinesSayWhichWeightVersionAnOpReads) {
  std::vector<Record> records = {synthetic::record("pipedream", 2, 0.05, "virtual")};
  for (std::size_t k = 0; k < records[0].timeline.size(); ++k)
    if (records[0].timeline[k].op != "step") records[0].timeline[k].version = static_cast<std::int64_t>(k) - 1;
  const ChartSet set = make_charts(records);
  const Timeline& timeline = set.sections[0].timelines.at(0);
  EXPECT_EQ(timeline.data["boxes"]["version"][0], -1);
  EXPECT_GT(timeline.data["path"].size(), 2u);
  EXPECT_EQ(timeline.records, records[0].digest);
}

// Simulated records of as many workloads, systems and numbers of micro-batches, without a target.
std::vector<Record> large_sweep(int workloads, int counts) {
  std::vector<Record> records;
  for (int w = 0; w < workloads; ++w)
    for (const char* system : {"gpipe", "zero_bubble"})
      for (int m = 1; m <= counts; ++m) {
        Record r = synthetic::record(system, 2, 0.1 / m, "virtual");
        r.workload = r.workload_facts->title = "net" + std::to_string(w);
        r.microbatches = 2 * m;
        r.digest += r.workload;
        records.push_back(std::move(r));
      }
  return records;
}

TEST(Charts, ALargeReportShowsTheBestRowsAndSaysWhatItLeavesOut) {
  // 2 x 2 x 101 rows are 404, more than kMaxRows: each system's fastest stays, of 202 micro-batches.
  const ChartSet large = make_charts(large_sweep(2, 101));
  ASSERT_EQ(large.sections.size(), 2u);
  const std::vector<ComparisonRow>& rows = large.sections[0].comparisons.at(0).rows;
  ASSERT_EQ(rows.size(), 2u);
  for (const ComparisonRow& row : rows) EXPECT_EQ(row.microbatches, 202);
  EXPECT_EQ(large.sections[0].timelines.size(), 2u);
  ASSERT_EQ(large.left_out.size(), 1u);
  EXPECT_TRUE(large.left_out[0].starts_with("4 of 404 rows are shown")) << large.left_out[0];
  // All rows are in the chart over micro-batches.
  const Json& panel = chart(large.sections[0].charts, "microbatches-").spec["concat"][0];
  EXPECT_EQ(panel["data"]["values"].size(), 202u);

  const ChartSet wide = make_charts(large_sweep(40, 2));
  EXPECT_EQ(wide.sections.size(), kMaxSections);
  std::size_t charts = 0, throughputs = 0;
  for (const ChartSection& section : wide.sections)
    for (const Chart& c : section.charts) ++charts, throughputs += c.name.starts_with("throughput-");
  EXPECT_EQ(charts, kMaxCharts);
  EXPECT_EQ(throughputs, kMaxSections);
  ASSERT_EQ(wide.left_out.size(), 2u);
  EXPECT_TRUE(wide.left_out[0].starts_with("30 of 40 experiments are shown")) << wide.left_out[0];
  EXPECT_TRUE(wide.left_out[1].starts_with("75 charts are drawn")) << wide.left_out[1];
}

TEST(Charts, ReportsSayThatTimelinesWereLeftOutOfTheRecords) {
  std::vector<Record> records = large_sweep(1, 2);
  for (Record& r : records) r.timeline.clear();
  const ChartSet set = make_charts(records);
  EXPECT_TRUE(set.sections[0].timelines.empty());
  ASSERT_EQ(set.left_out.size(), 1u);
  EXPECT_TRUE(set.left_out[0].starts_with("4 of 4 rows have no timeline")) << set.left_out[0];
  EXPECT_NE(set.left_out[0].find("--timelines best"), std::string::npos);
}

TEST(Charts, ActivationsOverTimePeakWhereTheRecordSays) {
  const std::vector<Record> records = {synthetic::record("gpipe", 2, 0.05, "virtual")};
  const ChartSet set = make_charts(records);
  const Json& values = chart(set.sections[0].charts, "activations-").spec["concat"][0]["data"]["values"];
  std::map<int, double> most;  // MiB of a rank
  for (const Json& value : values) {
    double& peak = most[value["rank"].get<int>()];
    peak = std::max(peak, value["held"].get<double>());
  }
  EXPECT_DOUBLE_EQ(most[0], 12);
  EXPECT_DOUBLE_EQ(most[1], 6);
}

TEST(Charts, TextsForNames) {
  EXPECT_EQ(slug("Zero bubble, variant=h1!"), "zero-bubble-variant-h1");
  EXPECT_EQ(rate_text(1234567), "1,234,567");
  EXPECT_EQ(rate_text(999.6), "1,000");
  EXPECT_EQ(rate_text(12.34), "12.3");
  EXPECT_EQ(shortened("aaaü", 4), "aaa…");  // not half a letter
}

TEST(Charts, CharactersThatNoRendererDrawsAreMadeVisible) {
  const Json spec = {{"title", "my \x1b[1mnet\x01"}, {"data", Json::array({{{"name", "\xef\xbf\xbe"}}})}, {"width", 3}};
  const Json made = Json::parse(spec_text(spec), "a");
  EXPECT_EQ(made["title"], "my \\x1b[1mnet\\x01");
  EXPECT_EQ(made["data"][0]["name"], "\\ufffe");
  EXPECT_EQ(made["width"], 3);
}

}  // namespace
}  // namespace sluice
