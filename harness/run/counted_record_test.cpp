// Records of runs that are counted in another precision, or with another attention, than the executor computes in.
#include <gtest/gtest.h>

#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/run/run_case.h"
#include "results/compare.h"

namespace sluice {
namespace {

Record record_of(const Json& more) {
  Json entry = {{"system", "one_f_one_b"}, {"workload", "gpt_tiny"}, {"clock", "virtual"},
                {"cluster", "flat:4"},     {"train", false},         {"steps", 1},
                {"cuts", "compute"}};  // the same layers on every rank, whatever the messages take
  entry.update(more);
  return run_case(resolve({entry, in_file("s.json", "/grid/0")}), test_profiles(), {});
}

TEST(CountedRecord, SaysWhatItIsCountedIn) {
  EXPECT_EQ(record_of(Json::object()).cost_source, "analytic");
  EXPECT_EQ(record_of({{"precision", "mixed"}}).cost_source, "analytic (mixed)");
  const Record r = record_of({{"precision", "mixed_fp32_gradients"}, {"attention", "kept"}});
  EXPECT_EQ(r.outcome, RecordOutcome::ok);
  EXPECT_EQ(r.cost_source, "analytic (mixed_fp32_gradients, scores kept)");
  EXPECT_EQ(r.options.at("precision"), "mixed_fp32_gradients");
  EXPECT_EQ(r.options.at("attention"), "kept");
  EXPECT_TRUE(r.curve.empty());
}

TEST(CountedRecord, StandsInNoTableWithOthers) {
  const std::vector<Record> records = {record_of(Json::object()), record_of({{"precision", "mixed"}})};
  const std::vector<Comparison> comparisons = compare(records, {});
  ASSERT_EQ(comparisons.size(), 2u);
  EXPECT_EQ(clock_text(comparisons[1]), "virtual clock, analytic (mixed) costs");
}

TEST(CountedRecord, HasTheBytesOfItsPrecision) {
  const Record whole = record_of(Json::object()), mixed = record_of({{"precision", "mixed"}});
  ASSERT_EQ(mixed.peak_bytes.size(), whole.peak_bytes.size());
  for (std::size_t rank = 0; rank < whole.peak_bytes.size(); ++rank) {
    EXPECT_EQ(2 * mixed.peak_bytes[rank].weights, whole.peak_bytes[rank].weights);
    EXPECT_EQ(2 * mixed.observed.sent_bytes->messages[rank], whole.observed.sent_bytes->messages[rank]);
  }
}

}  // namespace
}  // namespace sluice
