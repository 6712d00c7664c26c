#include "harness/base/numbers.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Numbers, AreReadWholeOrNotAtAll) {
  EXPECT_EQ(number_in("1.5"), 1.5);
  EXPECT_EQ(number_in("-2e3"), -2000);
  for (const char* text : {"", " 1", "1 ", "1x", "nan", "inf", "-inf", "1e999", "--1", "0x10"})
    EXPECT_EQ(number_in(text), std::nullopt) << text;
  EXPECT_EQ(whole_number_in("9223372036854775807"), INT64_MAX);
  for (const char* text : {"", "9223372036854775808", "1.0", "1e3", "1,2", " 1"})
    EXPECT_EQ(whole_number_in(text), std::nullopt) << text;
}

}  // namespace
}  // namespace sluice
