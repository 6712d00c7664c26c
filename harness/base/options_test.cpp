#include "harness/base/options.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

const std::vector<OptionSpec> kSpecs = {{"backward", "lifo", "order of the backwards", {"lifo", "fifo"}},
                                        {"chunks", "2", "chunks a rank"},
                                        {"offset", "0", "may be zero", {}, 0},
                                        {"recompute", "no", "recompute activations", kYesNo}};

std::string rejection_of(const std::string& name, const std::string& value) {
  return error_of([&] { resolve_options(kSpecs, {{name, value}}, "quick.json: /options"); });
}

TEST(OptionsTest, DefaultsHoldWhereNothingIsGiven) {
  const Options options = resolve_options(kSpecs, {}, "test");
  EXPECT_EQ(options.text("backward"), "lifo");
  EXPECT_EQ(options.integer("chunks"), 2);
  EXPECT_FALSE(options.flag("recompute"));
  EXPECT_EQ(options.values().size(), 4u);
}

TEST(OptionsTest, GivenValuesReplaceDefaults) {
  const Options options =
      resolve_options(kSpecs, {{"backward", "fifo"}, {"chunks", "7"}, {"offset", "0"}, {"recompute", "yes"}}, "test");
  EXPECT_EQ(options.text("backward"), "fifo");
  EXPECT_EQ(options.integer("chunks"), 7);
  EXPECT_TRUE(options.flag("recompute"));
}

TEST(OptionsTest, UnknownOptionIsRejectedWithTheNearest) {
  EXPECT_EQ(rejection_of("chunk", "2"), "quick.json: /options: unknown option 'chunk'; did you mean 'chunks'?");
  EXPECT_EQ(error_of([] {
              resolve_options({}, {{"a", "b"}}, "x");
            }),
            "x: unknown option 'a'; this system has no options");
}

TEST(OptionsTest, UnknownChoiceIsRejectedWithTheNearest) {
  EXPECT_EQ(rejection_of("backward", "fif"),
            "quick.json: /options: option 'backward': unknown value 'fif'; did you mean 'fifo'?");
}

TEST(OptionsTest, WrongTypeIsRejected) {
  for (const char* value : {"two", "2.5", "2x", "", " 2"})
    EXPECT_EQ(rejection_of("chunks", value),
              "quick.json: /options: option 'chunks': '" + std::string(value) + "' is not an integer");
}

TEST(OptionsTest, OutOfRangeIsRejectedWithTheRange) {
  for (const char* value : {"0", "-3", "1000000001", "99999999999999999999"})
    EXPECT_EQ(rejection_of("chunks", value), "quick.json: /options: option 'chunks': " + std::string(value) +
                                                 " is out of range; give 1 to 1000000000");
  EXPECT_EQ(rejection_of("offset", "-1"),
            "quick.json: /options: option 'offset': -1 is out of range; give 0 to 1000000000");
}

TEST(OptionsTest, AskingForAnUndeclaredOptionIsADefect) {
  EXPECT_THROW(resolve_options(kSpecs, {}, "test").text("nothing"), std::logic_error);
}

// Without its partner an option decides nothing, whatever it is set to.
TEST(OptionsTest, AnOptionWithoutItsPartnerHasItsDefault) {
  const std::vector<OptionSpec> specs = {{"planner", "balanced", "how", {"balanced", "paper", "code"}},
                                         only_with({"limit", "60", "seconds"}, "planner", {"paper", "code"}),
                                         only_without({"units", "2", "of a chunk"}, "limit", {"1", "60"})};
  const auto values = [&](const std::map<std::string, std::string>& given) {
    return resolve_options(specs, given, "test").values();
  };
  using Values = std::map<std::string, std::string>;
  EXPECT_EQ(values({{"limit", "7"}}), (Values{{"planner", "balanced"}, {"limit", "60"}, {"units", "2"}}));
  EXPECT_EQ(values({{"limit", "7"}, {"planner", "code"}, {"units", "3"}}),
            (Values{{"planner", "code"}, {"limit", "7"}, {"units", "3"}}));
  EXPECT_EQ(values({{"limit", "1"}, {"planner", "code"}, {"units", "3"}}),
            (Values{{"planner", "code"}, {"limit", "1"}, {"units", "2"}}));
  EXPECT_EQ(to_text(specs[1].only_with.front()), "planner=paper|code");
  EXPECT_EQ(to_text(specs[2].only_with.front()), "limit!=1|60");
}

}  // namespace
}  // namespace sluice
