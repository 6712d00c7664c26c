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
  r.options = {{"variant", "h1"}, {"memory", 2}};
  r.clock = "wall";
  r.outcome = "ok";
  r.reason = "said \"no\",\nthen left";
  r.samples_per_step = 10;
  r.step_seconds = {0.5, 0.5};
  r.curve = {{1, 0.25, 2.5, std::nullopt}, {2, 0.5, 2.0, 0.125}};
  return r;
}

TEST(Export, QuotesWhatNeedsQuotes) {
  const auto rows = parse(records_csv(std::vector<Record>{run(), run()}));
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  const auto value = [&](const std::string& name) {
    const auto place = std::find(rows[0].begin(), rows[0].end(), name);
    EXPECT_NE(place, rows[0].end()) << name;
    return rows[1][static_cast<std::size_t>(place - rows[0].begin())];
  };
  EXPECT_EQ(value("options"), R"({"memory":2,"variant":"h1"})");
  EXPECT_EQ(value("reason"), "said \"no\",\nthen left");
  EXPECT_EQ(value("samples_per_second"), "20");
  EXPECT_EQ(value("samples_per_second_low"), "");
  EXPECT_EQ(value("final_metric"), "0.125");
  EXPECT_EQ(value("purpose"), "measure");
  EXPECT_EQ(value("tuned"), "no");
  EXPECT_EQ(value("diverged_at"), "");
}

TEST(Export, WritesOneLineACurvePoint) {
  const auto rows = parse(curves_csv(std::vector<Record>{run()}));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].back(), "");
  EXPECT_EQ(rows[2].back(), "0.125");
  EXPECT_EQ(rows[0].size(), rows[2].size());
}

}  // namespace
}  // namespace sluice
