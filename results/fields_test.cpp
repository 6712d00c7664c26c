// One table names the fields: whatever lists metrics lists the same ones.
#include "results/fields.h"

#include <gtest/gtest.h>
#include <sluice_build.h>

#include <algorithm>
#include <set>

#include "results/compare.h"
#include "results/compare_columns.h"
#include "results/export.h"
#include "results/metrics.h"
#include "results/record_filter.h"

namespace sluice {
namespace {

Record adapted_run() {
  Record r;
  r.digest = "d";
  r.system = "gpipe";
  r.clock = Clock::virtual_clock;
  r.batch = 100;
  r.microbatches = 4;
  r.samples_per_step = 100;
  r.step_seconds = {0.5, 0.5, 0.5, 0.5};
  r.work = {.tokens = 32, .flop = 3e9, .devices = 4, .peak_flops = 1.2e12};
  r.observed.bubble_ratio = 0.25;
  r.observed.sent_bytes = SentByRanks{{10, 30}, {5, 0}, {0, 0}};
  r.observed.adaptation = RecordedAdaptation{.changes = {{.update = 1, .stages = {{0}, {1}}}},
                                             .moved_bytes = 7,
                                             .oracle_seconds = 1.5,
                                             .answered = {{0, 2, 3}, {0, 4, 1}}};
  return r;
}

double figure(const char* name) { return find_field(name)->value(adapted_run()).value(); }

TEST(Fields, EveryNameIsOfOneField) {
  std::set<std::string> names, columns;
  for (const Field& field : record_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    if (!field.former_name.empty()) {
      EXPECT_TRUE(names.insert(field.former_name).second) << field.former_name;
    }
    if (!field.column.empty()) {
      EXPECT_TRUE(columns.insert(field.column).second) << field.column;
    }
  }
}

TEST(Fields, EveryMetricHasItsColumnsHeadingAndUnit) {
  for (const Field* metric : metrics()) {
    EXPECT_FALSE(metric->column.empty()) << metric->name;
    EXPECT_NE(metric->unit, Unit::text) << metric->name;
    EXPECT_TRUE(metric->get) << metric->name;
  }
}

TEST(Fields, ComparisonsSortByShowAndExportTheSameMetrics) {
  const std::vector<Record> records = {adapted_run()};
  const std::vector<std::string> sorting = compare_metric_names(), columns = compare_column_names();
  const FlatTable exported = records_table(records), compared = to_flat_table(compare(records));
  for (const Field* metric : metrics()) {
    EXPECT_EQ(std::ranges::count(sorting, metric->name), 1) << metric->name;
    EXPECT_EQ(std::ranges::count(columns, metric->name), 1) << metric->name;
    EXPECT_EQ(std::ranges::count(exported.columns, metric->column), 1) << metric->name;
    EXPECT_EQ(std::ranges::count(compared.columns, metric->column), 1) << metric->name;
    EXPECT_EQ(compare(records, {.metric = metric->name}).size(), 1U) << metric->name;
  }
  EXPECT_EQ(sorting.size(), metrics().size() + 2);  // and the two that have tables of their own
}

TEST(Fields, ThePageNamesEveryMetric) {
  const std::string page = read_text_file(SLUICE_SOURCE_DIR "/results/README.md");
  for (const Field* metric : metrics())
    EXPECT_NE(page.find("`" + metric->name + "`"), std::string::npos) << metric->name;
}

TEST(Fields, AMetricIsFoundByItsFormerName) {
  EXPECT_EQ(find_field("memory"), find_field("peak_memory"));
  EXPECT_EQ(find_field("time_without_drain"), find_field("time_to_accuracy_without_drain"));
  EXPECT_EQ(find_field(""), nullptr);
  EXPECT_EQ(find_field("memry"), nullptr);
}

TEST(Fields, DerivedValuesAreThoseOfTheRecord) {
  EXPECT_DOUBLE_EQ(figure("throughput"), 200);
  EXPECT_DOUBLE_EQ(figure("update_seconds"), 0.5);
  EXPECT_DOUBLE_EQ(figure("tokens_per_second"), 6400);
  EXPECT_DOUBLE_EQ(figure("tflops_per_device"), 0.15);  // 200 samples/s x 3 GFLOP over 4 devices
  EXPECT_DOUBLE_EQ(figure("mfu"), 0.5);                 // 0.6 of 1.2 TFLOP/s
  EXPECT_DOUBLE_EQ(figure("period"), 0.125);
  EXPECT_DOUBLE_EQ(figure("bubble"), 0.25);
  EXPECT_DOUBLE_EQ(figure("sent_messages"), 30);
  EXPECT_DOUBLE_EQ(figure("sent_gathers"), 5);
  EXPECT_DOUBLE_EQ(figure("sent_bytes"), 30);
  EXPECT_DOUBLE_EQ(figure("run_seconds"), 2);
  EXPECT_DOUBLE_EQ(figure("regret"), 0.5);
  EXPECT_DOUBLE_EQ(figure("moves"), 1);
  EXPECT_DOUBLE_EQ(figure("moved_bytes"), 7);
  EXPECT_DOUBLE_EQ(figure("seconds_to_detect"), 4);
  EXPECT_DOUBLE_EQ(figure("seconds_to_recover"), 3);
  EXPECT_EQ(find_field("peak_memory")->value(adapted_run()), std::nullopt);
}

TEST(Fields, WithoutTokensOrPeaksThereAreNoFiguresOfThem) {
  Record r = adapted_run();
  r.work->tokens.reset();
  EXPECT_EQ(find_field("tokens_per_second")->value(r), std::nullopt);
  EXPECT_EQ(to_text(*model_rates(r)), "0.15 TFLOP/s per device, MFU 50 %");
  r.work->peak_flops.reset();
  EXPECT_EQ(find_field("mfu")->value(r), std::nullopt);
  EXPECT_EQ(to_text(*model_rates(r)), "");
  r.work.reset();
  EXPECT_EQ(find_field("tflops_per_device")->value(r), std::nullopt);
}

TEST(Fields, ASeedTooLargeForASignedNumberIsKept) {
  Record r = adapted_run();
  r.seed = ~std::uint64_t{0};
  EXPECT_EQ(filtered({r}, {"seed=18446744073709551615"}).size(), 1U);
}

}  // namespace
}  // namespace sluice
