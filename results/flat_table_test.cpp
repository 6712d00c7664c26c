#include "results/flat_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice {
namespace {

TEST(FlatTableTest, CsvQuotesWhatNeedsItAndLeavesOutWhatWasNotMeasured) {
  const FlatTable table{{"name", "n", "x"}, {{flat("a,\"b\""), flat(3), flat(0.1)}, {flat("c"), {}, flat(1e300)}}};
  EXPECT_EQ(to_csv(table), "name,n,x\n\"a,\"\"b\"\"\",3,0.1\nc,,1e+300\n");
}

TEST(FlatTableTest, JsonLinesAreAnObjectARow) {
  const FlatTable table{{"name", "n", "x"},
                        {{flat("a"), flat(std::optional<int>()), flat(std::numeric_limits<double>::infinity())},
                         {flat("b"), flat(std::optional(2)), flat(0.5)}}};
  EXPECT_EQ(to_json_lines(table), "{\"name\":\"a\",\"x\":\"inf\"}\n{\"n\":2,\"name\":\"b\",\"x\":0.5}\n");
}

const TextTable kTable{{{"system", false, {"a_b", "c|d"}}, {"samples/s", true, {"1", "10 %"}}}, 2};

TEST(FlatTableTest, TextIsAligned) {
  EXPECT_EQ(to_text(kTable), "system  samples/s\n------  ---------\na_b             1\nc|d          10 %\n");
}

TEST(FlatTableTest, MarkdownHasItsRuleAndEscapes) {
  EXPECT_EQ(to_markdown(kTable), "| system | samples/s |\n| --- | ---: |\n| a_b | 1 |\n| c\\|d | 10 % |\n");
}

TEST(FlatTableTest, LatexIsATabularWithEscapes) {
  EXPECT_EQ(to_latex(kTable),
            "\\begin{tabular}{lr}\n\\toprule\nsystem & samples/s \\\\\n\\midrule\na\\_b & 1 \\\\\nc|d & 10 \\% \\\\\n"
            "\\bottomrule\n\\end{tabular}\n");
}

}  // namespace
}  // namespace sluice
