// The command line's help and errors, which follow from the tables of settings and commands.
#include "harness/cli/command_line.h"

#include <gtest/gtest.h>

#include <iostream>
#include <sstream>

#include "harness/base/expect_error.h"
#include "harness/case/settings.h"

namespace sluice {
namespace {

std::function<int()> parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "sluice");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return parse_command_line(static_cast<int>(pointers.size()), pointers.data());
}

std::string help_of_command(const std::string& command) {
  testing::internal::CaptureStdout();
  const int code = parse({command, "--help"})();
  std::cout.flush();
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  return text;
}

TEST(CommandLine, EverySettingOfACaseIsAFlagOfRun) {
  std::string text = help_of_command("run");
  std::istringstream words(text);
  text.clear();
  for (std::string word; words >> word;) text += word + " ";  // undoes the wrapping
  for (const Setting& setting : settings()) {
    if (!setting.has_flag) continue;
    const std::size_t flag = text.find(" " + flag_of(setting) + " ");
    ASSERT_NE(flag, std::string::npos) << setting.key;
    EXPECT_NE(text.find(help_of(setting), flag), std::string::npos) << help_of(setting);
  }
}

TEST(CommandLine, HelpFitsIntoAHundredColumns) {
  for (const char* command :
       {"list", "plan", "schedule", "verify", "profile", "run", "compare", "report", "export", "new"}) {
    std::istringstream lines(help_of_command(command));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << command << ": " << line;
  }
}

TEST(CommandLine, DefaultsAreShown) {
  EXPECT_NE(help_of_command("schedule").find("Pipeline ranks (default: 4)"), std::string::npos);
  EXPECT_NE(help_of_command("run").find("auto, bar, plain or none (on stderr) (default: auto)"), std::string::npos);
}

TEST(CommandLine, AWrongFlagOrCommandIsSuggested) {
  const auto error = [](const std::vector<std::string>& arguments) { return error_of([&] { parse(arguments); }); };
  EXPECT_EQ(error({"rum"}), "sluice: unknown command 'rum'; did you mean 'run'?");
  EXPECT_EQ(error({}), "sluice: no command given; see sluice --help");
  EXPECT_EQ(error({"run", "--weight-gradeint", "batched"}),
            "run: unknown flag '--weight-gradeint'; did you mean '--weight-gradient'?");
  EXPECT_EQ(error({"schedule", "--system", "gpipe", "--rank", "3"}),
            "schedule: unknown flag '--rank'; did you mean '--ranks'?");
}

TEST(CommandLine, AWrongSettingIsNamedByItsFlag) {
  const auto error = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--system", "gpipe", "--workload", "tiny", "--dry-run"});
    return error_of([&] { parse(flags)(); });
  };
  for (const Setting& setting : settings()) {
    if (!setting.has_flag || setting.value.type != SettingValue::Type::number) continue;
    const std::string flag = flag_of(setting);
    EXPECT_EQ(error({flag, "two"}), flag + ": 'two' is not a number; write " + flag + " 4");
    EXPECT_TRUE(error({flag, "-1"}).starts_with(flag + ": ")) << flag;
  }
  EXPECT_EQ(error({"--clock", "wal"}), "--clock: unknown value 'wal'; did you mean 'wall'?");
  EXPECT_TRUE(error({"--set", "bakward=lifo"}).starts_with("--set: unknown option 'bakward'"));
}

}  // namespace
}  // namespace sluice
