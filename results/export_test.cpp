// CSV that a standard reader takes apart into what was put in.
#include "results/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// A reader after RFC 4180, written independently of the writer.
std::vector<std::vector<std::string>> parse(const std::string& csv) {
  std::vector<std::vector<std::string>> rows(1);
  std::string cell;
  bool inside = false;
  for (std::size_t i = 0; i < csv.size(); ++i) {
    const char c = csv[i];
    if (inside && c == '"' && i + 1 < csv.size() && csv[i + 1] == '"') {
      cell += csv[++i];
    } else if (c == '"') {
      inside = !inside;
    } else if (!inside && (c == ',' || c == '\n')) {
      rows.back().push_back(std::exchange(cell, ""));
      if (c == '\n') rows.emplace_back();
    } else {
      cell += c;
    }
  }
  rows.pop_back();
  return rows;
}

Record run() {
  Record r;
  r.digest = "d";
  r.system = "zero_bubble";
  r.options = {{"variant", "h1"}, {"memory", "2"}};
  r.clock = Clock::wall;
  r.outcome = RecordOutcome::ok;
  r.reason = "said \"no\",\\nthen left";
  r.samples_per_step = 10;
  r.step_seconds = {0.5, 0.5};
  r.curve = {{1, 0.25, 2.5, std::nullopt}, {2, 0.5, 2.0, 0.125}};
  return r;
}

std::string cell(const std::vector<std::vector<std::string>>& rows, std::size_t row, const std::string& name) {
  const auto place = std::find(rows[0].begin(), rows[0].end(), name);
  EXPECT_NE(place, rows[0].end()) << name;
  return rows[row][place - rows[0].begin()];
}

TEST(Export, OptionsAreColumnsAndTextsAreQuoted) {
  Record other = run();
  other.options = {{"backward", "fifo"}};
  const auto rows = parse(to_csv(records_table(std::vector<Record>{run(), other})));
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  EXPECT_EQ(cell(rows, 1, "option.variant"), "h1");
  EXPECT_EQ(cell(rows, 1, "system_title"), "Zero bubble");
  EXPECT_EQ(cell(rows, 1, "system_color"), "#20a878");
  EXPECT_EQ(cell(rows, 1, "system_marker"), "P");
  EXPECT_EQ(cell(rows, 1, "option.memory"), "2");
  EXPECT_EQ(cell(rows, 1, "option.backward"), "");
  EXPECT_EQ(cell(rows, 2, "option.backward"), "fifo");
  EXPECT_EQ(cell(rows, 1, "reason"), "said \"no\",\\nthen left");
  EXPECT_EQ(cell(rows, 1, "samples_per_second"), "20");
  EXPECT_EQ(cell(rows, 1, "update_seconds"), "0.5");
  EXPECT_EQ(cell(rows, 1, "samples_per_second_low"), "");
  EXPECT_EQ(cell(rows, 1, "final_metric"), "0.125");
  EXPECT_EQ(cell(rows, 1, "purpose"), "measure");
  EXPECT_EQ(cell(rows, 1, "tuned"), "no");
  EXPECT_EQ(cell(rows, 1, "diverged_at"), "");
}

TEST(Export, WritesOneLineARank) {
  Record r = run();
  r.peak_bytes = {{.total = 30, .weights = 10}, {.total = 40, .weights = 20}};
  r.predicted_peak_bytes = {{.total = 31}, {.total = 41}};
  const auto rows = parse(to_csv(ranks_table(std::vector<Record>{r})));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(cell(rows, 2, "rank"), "1");
  EXPECT_EQ(cell(rows, 2, "measured_weights_bytes"), "20");
  EXPECT_EQ(cell(rows, 2, "predicted_total_bytes"), "41");
  EXPECT_EQ(cell(rows, 1, "sent_messages_bytes"), "");
}

TEST(Export, WritesOneLineACurvePoint) {
  const auto rows = parse(to_csv(curves_table(std::vector<Record>{run()})));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].back(), "");
  EXPECT_EQ(rows[2].back(), "0.125");
  EXPECT_EQ(rows[0].size(), rows[2].size());
}

}  // namespace
}  // namespace sluice
