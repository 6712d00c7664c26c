#include "harness/base/error.h"

#include <gtest/gtest.h>

#include <system_error>

#include "harness/base/error_words.h"

namespace sluice {
namespace {

TEST(InputErrorTest, SaysWhereWhatAndWhatToDo) {
  EXPECT_STREQ(InputError("a.json: /x", "is missing", "add it").what(), "a.json: /x: is missing; add it");
  EXPECT_STREQ(InputError("", "is missing").what(), "is missing");
}

TEST(InputErrorTest, DoesNotEndAtANul) {
  EXPECT_STREQ(InputError("s.json", std::string("'a\0b' is no name", 16), "choose another").what(),
               "s.json: 'a\\u0000b' is no name; choose another");
}

TEST(NearestTest, FindsTheCandidateOfLeastEditDistance) {
  const std::vector<std::string> names = {"gpipe", "pipedream", "dualpipe"};
  EXPECT_EQ(nearest("gpip", names), "gpipe");
  EXPECT_EQ(nearest("pipdream", names), "pipedream");
  EXPECT_EQ(nearest("gpipe", names), "gpipe");
}

TEST(NearestTest, FindsNothingFurtherThanAThirdOfTheName) {
  const std::vector<std::string> names = {"gpipe"};
  EXPECT_EQ(nearest("hanayo", names), "");
  EXPECT_EQ(nearest("gpixy", names), "gpipe");  // 2 of 5 letters: 2 is always near
  EXPECT_EQ(nearest("gpxyz", names), "");
}

TEST(NearestTest, TakesCapitalsAndHyphensForWhatTheyStandFor) {
  const std::vector<std::string> names = {"one_f_one_b", "1f1b", "interleaved_1f1b", "zero_bubble"};
  EXPECT_EQ(nearest("1F1B", names), "1f1b");
  EXPECT_EQ(nearest("Zero-Bubble", names), "zero_bubble");
}

TEST(NearestTest, FindsTheShortestNameThatItIsAPartOf) {
  const std::vector<std::string> names = {"interleaved_1f1b", "interleaved_zero_bubble", "gpipe"};
  EXPECT_EQ(nearest("interleaved", names), "interleaved_1f1b");
  EXPECT_EQ(nearest("Interleaved", names), "interleaved_1f1b");
  EXPECT_EQ(nearest("ed", names), "");
}

TEST(NearestTest, FindsNoNameOfWhichNoLetterIsGiven) {
  const std::vector<std::string> names = {"dp", "1f1b"};
  for (const char* name : {"", "x", "*", "xy"}) EXPECT_EQ(nearest(name, names), "") << name;
  EXPECT_EQ(nearest("dx", names), "dp");
  EXPECT_EQ(nearest("DP", names), "dp");
}

TEST(SuggestionTest, ListsWhatIsKnownWhereNothingIsNear) {
  const std::vector<std::string> names = {"gpipe", "hanayo"};
  EXPECT_EQ(suggestion("gpip", names), "did you mean 'gpipe'?");
  EXPECT_EQ(suggestion("zzzzzzzz", names), "known: gpipe, hanayo");
  EXPECT_EQ(suggestion("x", {}), "none is known here");
}

TEST(WordsOf, SaysWhatHelpsWhereNoThreadCanBeStarted) {
  const std::system_error error(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_NE(words_of(error).find("use --jobs 1 or fewer ranks"), std::string::npos) << words_of(error);
}

}  // namespace
}  // namespace sluice
