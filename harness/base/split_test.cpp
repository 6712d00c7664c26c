#include "harness/base/split.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using Parts = std::vector<std::string>;

TEST(SplitTest, EmptyPartsArePartsAndAnEmptyTextIsOne) {
  EXPECT_EQ(split("a,b", ","), (Parts{"a", "b"}));
  EXPECT_EQ(split(",a,,", ","), (Parts{"", "a", "", ""}));
  EXPECT_EQ(split("", ","), (Parts{""}));
}

TEST(SplitTest, ASeparatorMayBeSeveralCharactersOrZero) {
  EXPECT_EQ(split("1 -- 2 - 3 -- ", " -- "), (Parts{"1", "2 - 3", ""}));
  EXPECT_EQ(split(std::string_view("a\0b", 3), std::string_view("\0", 1)), (Parts{"a", "b"}));
}

}  // namespace
}  // namespace sluice
