#include "harness/base/numbers.h"

#include <gtest/gtest.h>

#include <cstdlib>

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

TEST(Numbers, AreTakenOffTheBeginningOfAText) {
  std::string_view text = "1.5/-2e3,x";
  EXPECT_EQ(take_number(text), 1.5);
  EXPECT_EQ(text, "/-2e3,x");
  EXPECT_EQ(take_number(text), std::nullopt);
  EXPECT_EQ(text, "/-2e3,x") << "nothing is taken off";
  text.remove_prefix(1);
  EXPECT_EQ(take_number(text), -2000);
  EXPECT_EQ(text, ",x");
  for (const char* none : {"", " 1", "x", "nan", "inf/1", "1e999"}) {
    std::string_view rest = none;
    EXPECT_EQ(take_number(rest), std::nullopt) << none;
  }
}

TEST(Numbers, OfTheEnvironmentAreWholeOrNotThere) {
  ASSERT_EQ(::setenv("SLUICE_TEST_NUMBER", "12", 1), 0);
  EXPECT_EQ(number_in_environment("SLUICE_TEST_NUMBER"), 12);
  for (const char* none : {"12 ranks", "", "4294967297"}) {
    ASSERT_EQ(::setenv("SLUICE_TEST_NUMBER", none, 1), 0);
    EXPECT_EQ(number_in_environment("SLUICE_TEST_NUMBER"), std::nullopt) << none;
  }
  ASSERT_EQ(::unsetenv("SLUICE_TEST_NUMBER"), 0);
  EXPECT_EQ(number_in_environment("SLUICE_TEST_NUMBER"), std::nullopt);
}

}  // namespace
}  // namespace sluice
