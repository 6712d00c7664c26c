#include "plots/row_outcome.h"

#include <gtest/gtest.h>

#include <set>

#include "plots/charts.h"
#include "plots/inline_svg.h"
#include "plots/style.h"
#include "plots/synthetic_test.h"
#include "results/compare.h"

namespace sluice {
namespace {

constexpr std::int64_t kGiB = 1LL << 30;

Record out_of_memory(const std::string& system, std::int64_t needed, const std::string& needed_text,
                     const std::string& cluster = "flat:4") {
  Record r = synthetic::record(system, 4, 0.1, "virtual");
  r.cluster = cluster;
  r.outcome = RecordOutcome::out_of_memory;
  r.reason = "rank 0 needs " + needed_text + " at its peak, its device 'A has B' has 16 GiB";
  r.step_seconds.clear();
  r.curve.clear();
  r.timeline.clear();
  for (MemorySplit& split : r.peak_bytes) split = {.total = needed, .weights = needed};
  r.digest = system + cluster;
  return r;
}

TEST(RowOutcome, SaysInAFewWordsWhatWasNeededAndWhatThereIs) {
  Record r = out_of_memory("gpipe", 24 * kGiB, "24 GiB");
  EXPECT_EQ(short_outcome(r), "OOM 24 / 16 GiB");
  r.reason = "rank 0 needs 1.5 TiB at its peak, its device 'x' has 16 GiB";
  EXPECT_EQ(short_outcome(r), "OOM 1.5 TiB / 16 GiB");
  r.reason = "bad_alloc";
  EXPECT_EQ(short_outcome(r), "out of memory");
  r.outcome = RecordOutcome::failed;
  r.reason = "rank 1 left";
  EXPECT_EQ(short_outcome(r), "failed: rank 1 left");
  r.reason = std::string(25, 'x');
  EXPECT_EQ(short_outcome(r), "failed");
  r.outcome = RecordOutcome::diverged;
  r.reason = "at update 12: the training loss is not finite";
  EXPECT_EQ(short_outcome(r), "diverged");
  r.diverged_at = 12;
  EXPECT_EQ(short_outcome(r), "diverged at update 12");
  r.outcome = RecordOutcome::ok;
  EXPECT_EQ(short_outcome(r), "");
}

TEST(RowOutcome, TheMemoryChartDrawsTheLimitAndWhatIsBeyondIt) {
  Record fits = synthetic::record("one_f_one_b", 4, 0.1, "virtual");
  fits.digest = "fits";
  const std::vector<Record> records = {fits, out_of_memory("gpipe", 24 * kGiB, "24 GiB"),
                                       out_of_memory("dapple", 1024 * kGiB, "1 TiB")};
  const std::vector<Comparison> all = compare(records);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(exceeded_memory(all[0]), 16.0 * kGiB);
  const Chart chart = memory_chart("m", all[0]);
  const Json& panels = chart.spec["concat"];
  ASSERT_EQ(panels.size(), 3u);
  std::set<std::string> titles;
  for (const Json& panel : panels) {
    titles.insert(panel["title"]["text"][1].get<std::string>());
    EXPECT_NE(panel.dump().find(R"("datum":16.0)"), std::string::npos) << panel.dump();  // GiB
    EXPECT_NE(panel.dump().find("[0,25.44]"), std::string::npos) << panel.dump();        // 1.06 x 1.5 x 16
  }
  EXPECT_TRUE(titles.contains("OOM 24 / 16 GiB") && titles.contains("OOM 1 TiB / 16 GiB")) << panels.dump();
}

TEST(RowOutcome, HeadingsOfSectionsNameTheClusterThatTellsThemApart) {
  const ChartSet set = make_charts(std::vector<Record>{out_of_memory("gpipe", 24 * kGiB, "24 GiB", "flat:4"),
                                                       out_of_memory("gpipe", 24 * kGiB, "24 GiB", "flat:8")});
  ASSERT_EQ(set.sections.size(), 2u);
  EXPECT_TRUE(set.sections[0].heading.ends_with(", flat:4")) << set.sections[0].heading;
  EXPECT_TRUE(set.sections[1].heading.ends_with(", flat:8")) << set.sections[1].heading;
}

TEST(RowOutcome, ALossThatStaysIsNoChart) {
  Record r = synthetic::record("gpipe", 4, 0.1);
  const auto chart = [&](double last) {
    r.curve = {{1, 0.1, 1.005204, std::nullopt}, {2, 0.2, last, std::nullopt}};
    const std::vector<Comparison> all = compare(std::vector<Record>{r});
    return curves_chart("c", all, CurveAxis::updates).spec.is_null();
  };
  EXPECT_TRUE(chart(1.005198));
  EXPECT_FALSE(chart(0.9));
}

TEST(RowOutcome, NumbersOfAParetoFrontStandApart) {
  std::vector<Record> records;
  for (int k = 0; k < 4; ++k) {  // a little faster with a little more memory each
    records.push_back(synthetic::record("gpipe", 4, 0.1 - 0.0002 * k, "virtual"));
    records.back().options["variant"] = std::to_string(k);
    records.back().digest = std::to_string(k);
    for (MemorySplit& split : records.back().peak_bytes) split.total = (1000 + k) * kGiB / 1000;
  }
  const std::vector<Comparison> all = compare(records);
  ASSERT_EQ(all.size(), 1u);
  const Json spec = memory_throughput_chart("p", all[0]).spec;
  const Json& layer = spec["layer"][spec["layer"].size() - 1];
  const Json& numbers = layer["data"]["values"];
  ASSERT_EQ(numbers.size(), 4u);
  const double wide = layer["encoding"]["x"]["scale"]["domain"][1].get<double>(),
               high = layer["encoding"]["y"]["scale"]["domain"][1].get<double>();
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto apart = [&](const char* field, double pixels) {
        return std::abs(numbers[i][field].get<double>() - numbers[j][field].get<double>()) * pixels;
      };
      EXPECT_TRUE(apart("memory", 620 / wide) >= 15 || apart("throughput", 340 / high) >= 13) << numbers.dump();
    }
}

TEST(RowOutcome, MarksSayWhatTheirTooltipsHave) {
  const auto label = [](const std::string& text) {
    return inline_svg("<svg width=\"1\"><path aria-label=\"" + text + "\"/></svg>", "n").markup;
  };
  EXPECT_NE(label("value: 1316265.45671; label: GPipe; system: GPipe; samples/s: 1,316,265")
                .find("aria-label=\"system: GPipe; samples/s: 1,316,265\""),
            std::string::npos);
  EXPECT_EQ(label("low: 1.2345678; label: GPipe; high: 2"), "<svg width=\"1\"><path/></svg>");  // a whisker
}

TEST(RowOutcome, TextsOfAnInlineChartHaveOneSizeAndTitlesALargerOne) {
  const InlineSvg chart = inline_svg(
      "<svg width=\"90\"><text font-size=\"16px\"/><text font-size=\"9px\"/><text font-size=\"9px\"/>"
      "<text font-size=\"12px\"/></svg>",
      "n");
  EXPECT_EQ(chart.markup,
            "<svg width=\"90\"><text font-size=\"10.38px\"/><text font-size=\"9px\"/>"
            "<text font-size=\"9px\"/><text font-size=\"9px\"/></svg>");
  EXPECT_EQ(chart.width, 120);  // so that 9 is as large as 12 in other charts
}

TEST(RowOutcome, LinesEndAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("longer_than_that b", 4), (std::vector<std::string>{"longer_than_that", "b"}));
  EXPECT_EQ(wrapped("", 4), (std::vector<std::string>{""}));
}

}  // namespace
}  // namespace sluice
