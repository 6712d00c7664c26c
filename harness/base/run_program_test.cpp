// Programs are started with lists of arguments: no shell reads what stands in them.
#include "harness/base/run_program.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>

namespace sluice {
namespace {

TEST(RunProgram, GivesOutputAndCode) {
  const ProgramEnd echo = run_program({"echo", "one", "two"});
  EXPECT_TRUE(echo.ok());
  EXPECT_EQ(echo.output, "one two\n");
  EXPECT_EQ(run_program({"false"}).code, 1);
  EXPECT_EQ(run_program({"/nowhere/at/all"}).error, ENOENT);
  EXPECT_EQ(run_program({}).error, ENOENT);
}

TEST(RunProgram, PassesQuotesDollarsAndSemicolonsOn) {
  const std::string hostile = "'; echo broken; $(id) `id` \"\\";
  EXPECT_EQ(run_program({"printf", "%s", hostile}).output, hostile);
}

TEST(RunProgram, HasNoStdinAndKeepsErrorsApart) {
  EXPECT_EQ(run_program({"cat"}).output, "");
  EXPECT_EQ(run_program({"sh", "-c", "echo out; echo err >&2"}).output, "out\n");
  EXPECT_EQ(run_program({"sh", "-c", "echo out; echo err >&2"}, {.with_errors = true}).output, "out\nerr\n");
}

TEST(RunProgram, SaysWhichSignalEndedIt) { EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}).code, 137); }

TEST(RunProgram, KeepsNoMoreOutputThanAskedFor) {
  const ProgramEnd end = run_program({"head", "-c", "100000", "/dev/zero"}, {.max_output = 1000});
  EXPECT_TRUE(end.ok());
  EXPECT_EQ(end.output.size(), 1000u);
}

TEST(RunProgram, EndsWhatTakesTooLong) {
  const auto begin = std::chrono::steady_clock::now();
  const ProgramEnd end = run_program({"sleep", "1000"}, {.limit = Seconds(0.05)});
  EXPECT_TRUE(end.out_of_time);
  EXPECT_FALSE(end.ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(200));
}

}  // namespace
}  // namespace sluice
