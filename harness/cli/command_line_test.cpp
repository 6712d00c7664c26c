// The command line's help and errors, which follow from the tables of settings and commands.
#include "harness/cli/command_line.h"

#include <gtest/gtest.h>
#include <sluice_build.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "harness/base/expect_error.h"
#include "harness/case/settings.h"
#include "results/compare.h"
#include "results/compare_columns.h"

namespace sluice {
namespace {

std::function<int()> parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "sluice");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return parse_command_line(static_cast<int>(pointers.size()), pointers.data());
}

std::string help_of_command(const std::string& command) {
  ::unsetenv("COLUMNS");  // the width of somebody's terminal
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
    std::size_t flag = text.find(" " + flag_of(setting) + " ");
    if (flag == std::string::npos) flag = text.find("," + flag_of(setting) + " ");  // behind its letter
    ASSERT_NE(flag, std::string::npos) << setting.key;
    EXPECT_NE(text.find(help_of(setting), flag), std::string::npos) << help_of(setting);
  }
}

TEST(CommandLine, HelpFitsIntoAHundredColumns) {
  for (const char* command : {"list", "plan", "schedule", "trace", "verify", "profile", "run", "compare", "report",
                              "export", "new", "leaderboard", "help", "completion", "check", "advise", "figure"}) {
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
  EXPECT_EQ(error({"schedule", "-s", "gpipe", "-z", "3"}), "schedule: unknown flag '-z'; see sluice schedule --help");
}

TEST(CommandLine, AnEmptyValueIsRejectedAndNotTakenForAFlagThatIsLeftOut) {
  const auto error = [](const std::vector<std::string>& arguments) { return error_of([&] { parse(arguments); }); };
  EXPECT_EQ(error({"run", "quick", "--shard", ""}), "--shard: its value is empty; give one, or leave it out");
  EXPECT_EQ(error({"schedule", "-s", "gpipe", "--trace", ""}),
            "--trace: its value is empty; give one, or leave it out");
  EXPECT_EQ(error({"compare", "a.jsonl", ""}), "files: its value is empty; give one, or leave it out");
  EXPECT_EQ(error({"list", ""}), "what: its value is empty; give one, or leave it out");
}

TEST(CommandLine, ANumberThatCannotBeReadIsRejectedWithWhatIsExpected) {
  const auto error = [](const std::vector<std::string>& arguments) { return error_of([&] { parse(arguments); }); };
  for (const char* wrong : {"4.5", "0x10", "four", "4 "})
    EXPECT_EQ(error({"schedule", "-s", "gpipe", "-n", wrong}),
              std::string("--ranks: '") + wrong + "' is not a whole number; write --ranks 4");
  EXPECT_EQ(error({"schedule", "-s", "gpipe", "-n", "99999999999"}),
            "--ranks: 99999999999 is too large; give at most 2147483647");
  EXPECT_EQ(error({"schedule", "-s", "gpipe", "--chunks", "x"}),
            "--chunks: 'x' is not a whole number; write --chunks 4");
  for (const char* wrong : {"soon", "inf", "1s"})
    EXPECT_EQ(error({"advise", "-w", "tiny", "--seconds", wrong}),
              std::string("--seconds: '") + wrong + "' is not a number; write --seconds 0.5");
  EXPECT_EQ(error({"run", "quick", "--jobs", "0"}), "--jobs: is 0; give 1 or more");
  EXPECT_EQ(error({"run", "quick", "--jobs", "-1"}), "--jobs: is -1; give 1 or more");
  EXPECT_EQ(error({"run", "quick", "--jobs", "all"}), "--jobs: 'all' is not a whole number; write --jobs 4");
}

TEST(CommandLine, FlagsThatAreGivenTwiceOrDoNotGoTogetherAreRejectedWithWhatToDo) {
  const auto error = [](const std::vector<std::string>& arguments) { return error_of([&] { parse(arguments); }); };
  EXPECT_EQ(error({"schedule", "-s", "gpipe", "-n", "4", "-n", "5"}),
            "schedule: --ranks is given more than once; give it once");
  EXPECT_EQ(error({"schedule", "-s", "gpipe", "-n"}),
            "schedule: --ranks has no value; write the value after it, or leave it out");
  EXPECT_EQ(error({"schedule", "--from", "t.csv", "-m", "8"}),
            "schedule: --from and --microbatches do not go together; leave one of them out");
  EXPECT_EQ(error({"schedule", "-s", "gpipe", "--group-limit", "3"}),
            "schedule: --group-limit needs --sample-lengths; give both, or leave --group-limit out");
}

TEST(CommandLine, OldNamesOfFlagsAreRejectedWithTheNewOnes) {
  const auto error = [](const std::vector<std::string>& arguments) { return error_of([&] { parse(arguments); }); };
  EXPECT_EQ(error({"plan", "-s", "gpipe", "-w", "tiny", "--devices", "2"}),
            "plan: '--devices' is no flag any more; write --ranks");
  for (const char* command : {"plan", "profile"})
    EXPECT_EQ(error({command, "-w", "tiny", "--micro-batch=4"}),
              std::string(command) +
                  ": '--micro-batch' is no flag any more; write --microbatches, the number of "
                  "micro-batches per update");
}

TEST(CommandLine, LettersMeanTheSameInEveryCommand) {
  const std::map<std::string, std::string> letters = {{"-s", "--system"}, {"-w", "--workload"},     {"-c", "--cluster"},
                                                      {"-n", "--ranks"},  {"-m", "--microbatches"}, {"-b", "--batch"},
                                                      {"-O", "--set"},    {"-o", "--out"},          {"-j", "--json"}};
  for (const char* command : {"list", "plan", "schedule", "trace", "profile", "run", "compare", "report", "export"}) {
    const std::string text = help_of_command(command);
    for (const auto& [letter, flag] : letters) {
      const bool has_flag = text.find(flag + " ") != std::string::npos;
      const bool has_letter = text.find("  " + letter + ",") != std::string::npos;
      EXPECT_EQ(has_flag && text.find("  " + letter + "," + flag) == std::string::npos, false) << command << flag;
      EXPECT_EQ(has_letter && !has_flag, false) << command << letter;
    }
  }
}

TEST(CommandLine, HelpIsACommandToo) {
  const auto printed = [](const std::vector<std::string>& arguments) {
    testing::internal::CaptureStdout();
    parse(arguments)();
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(printed({"help", "schedule"}), help_of_command("schedule"));
  for (const char* text : {"Examples:", "Subcommands:", "advise"})
    EXPECT_NE(printed({"help"}).find(text), std::string::npos) << text;
  EXPECT_EQ(error_of([] { parse({"help", "schedul"}); }), "help: unknown command 'schedul'; did you mean 'schedule'?");
}

TEST(CommandLine, EveryCommandShowsAnExample) {
  for (const char* command : {"list", "plan", "schedule", "trace", "verify", "profile", "run", "compare", "report",
                              "export", "new", "leaderboard", "completion", "check", "advise"})
    EXPECT_NE(help_of_command(command).find("Examples:\n"), std::string::npos) << command;
}

TEST(CommandLine, ParametersAreInMillionsOrBillions) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"list", "workloads"})(), 0);
  std::fflush(stdout);
  const std::string text = testing::internal::GetCapturedStdout();
  for (const char* part : {"sequence 1024; 1.42 billion parameters;", "1000 classes; 138 million parameters;"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(CommandLine, TheVersionSaysWhatTheBuildHas) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"--version"})(), 0);
  std::cout.flush();
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(text.starts_with("sluice " SLUICE_VERSION "\n")) << text;
#ifdef SLUICE_HAVE_TORCH
  EXPECT_NE(text.find("real executor: LibTorch "), std::string::npos) << text;
#else
  EXPECT_NE(text.find("torch-free"), std::string::npos) << text;
#endif
}

TEST(CommandLine, ShellsAreToldWhatAWordMayBecome) {
  const auto completed = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"completion", "--words"});
    testing::internal::CaptureStdout();
    parse(words)();
    std::fflush(stdout);
    std::istringstream lines(testing::internal::GetCapturedStdout());
    std::vector<std::string> result;
    for (std::string line; std::getline(lines, line);) result.push_back(line);
    return result;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(completed({"sch"}), Names{"schedule"});
  EXPECT_EQ(completed({"help", "pl"}), Names{"plan"});
  EXPECT_EQ(completed({"schedule", "--micro"}), (Names{"--microbatch-sizes", "--microbatches"}));
  EXPECT_EQ(completed({"schedule", "-s", "inter"}), Names{"interleaved_1f1b"});
  EXPECT_EQ(completed({"schedule", "--system", "gpipe,zerop"}), Names{"gpipe,zeropp"});
  EXPECT_EQ(completed({"schedule", "-s", "zero_bubble", "--set", "vari"}), Names{"variant="});
  // bash takes "variant=h" apart.
  EXPECT_EQ(completed({"schedule", "-s", "zero_bubble", "--set", "variant", "=", "h"}), (Names{"h1", "h2"}));
  EXPECT_EQ(completed({"run", "--clock", "v"}), Names{"virtual"});
  EXPECT_EQ(completed({"run", "-w", "fmnist_c"}), (Names{"fmnist_cnn", "fmnist_cnn_deep"}));
  EXPECT_EQ(completed({"plan", "--layout", "p"}), Names{"pipelines"});
  EXPECT_EQ(completed({"advise", "--sharding", "o"}), Names{"optimizer"});
  EXPECT_EQ(completed({"advise", "--costs", "cal"}), Names{"calibrated"});
  EXPECT_EQ(completed({"run", "--timelines", "b"}), Names{"best"});
  EXPECT_EQ(completed({"run", "quic"}), Names{"quick"});
  EXPECT_EQ(completed({"completion", "b"}), Names{"bash"});
  Names metrics = compare_metric_names();
  std::ranges::sort(metrics);
  EXPECT_EQ(completed({"compare", "--metric", ""}), metrics);
  EXPECT_EQ(completed({"compare", "some.js"}), Names{});  // a file: the shell's own completion
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

TEST(CommandLine, AFigureSaysWhatIsWrongWithItsArguments) {
  const auto error = [](std::vector<std::string> more) {
    more.insert(more.begin(), "figure");
    return error_of([&] { parse(more)(); });
  };
  EXPECT_NE(error({"paretto", "x.jsonl"}).find("unknown kind 'paretto'; did you mean 'pareto'?"), std::string::npos);
  EXPECT_NE(error({"loss", "x.jsonl", "--width", "3"}).find("--width: '3' is no length from 0.5in to 200in"),
            std::string::npos);
  EXPECT_NE(error({"loss", "x.jsonl", "--height", "900in"}).find("--height: "), std::string::npos);
  EXPECT_NE(error({"loss", "x.jsonl", "--font-size", "1"}).find("--font-size: is 1 points; give 4 to 72"),
            std::string::npos);
  EXPECT_NE(error({"loss", "x.jsonl", "--order", "given"}).find("add --systems"), std::string::npos);
  EXPECT_NE(error({"loss", "x.jsonl", "--names", "gpipe"}).find("--names: 'gpipe' renames nothing"), std::string::npos);
  EXPECT_NE(error({"loss", "x.jsonl", "--format", "eps"}).find("--format: 'eps' is no format"), std::string::npos);
}

TEST(CommandLine, APivotSaysWhatIsWrongWithItsArguments) {
  const auto error = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"compare", "x.jsonl"});
    return error_of([&] { parse(more)(); });
  };
  EXPECT_NE(error({"--best", "bold"}).find("--best: needs --pivot"), std::string::npos);
  EXPECT_NE(error({"--pivot", "system"}).find("--pivot: 'system' is not two settings"), std::string::npos);
  EXPECT_NE(error({"--pivot", "system,ranks", "--label", "t"}).find("--label: goes with --format latex"),
            std::string::npos);
  EXPECT_NE(error({"--pivot", "system,ranks", "--format", "csv"}).find("--pivot: goes with the formats text"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice
