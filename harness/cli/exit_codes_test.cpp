// The exit codes: what leads to each, and that help and page name the same ones.
#include "harness/cli/exit_codes.h"

#include <regex>

#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "harness/cli/cli_test_support.h"

namespace sluice {
namespace {

class ExitCodes : public Cli {};

template <class Error>
int code_of(const Error& error) {
  ::testing::internal::CaptureStderr();
  const int code = guarded([&]() -> int { throw error; });
  const std::string printed = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(printed.starts_with("error: ") && printed.find('\n') == printed.size() - 1) << printed;
  return code;
}

TEST_F(ExitCodes, FollowFromWhatACommandThrows) {
  EXPECT_EQ(guarded([] { return kDone; }), 0);
  EXPECT_EQ(guarded([] { return kFailed; }), 1);
  EXPECT_EQ(code_of(RunError("a check\nfailed")), 1);
  EXPECT_EQ(code_of(std::bad_alloc()), 1);
  EXPECT_EQ(code_of(InputError("a.json: /x", "is missing", "add it")), 2);
  EXPECT_EQ(code_of(fs::filesystem_error("status", std::make_error_code(std::errc::permission_denied))), 2);
  EXPECT_EQ(code_of(std::logic_error("what cannot be")), 3);
}

TEST_F(ExitCodes, ComeWithOneLineThatQuotesNoWholeFile) {
  ::testing::internal::CaptureStderr();
  guarded(
      []() -> int { throw InputError("t.csv: line 1, cell 2", "'" + std::string(3'000'000, 'x') + "' is no action"); });
  const std::string printed = ::testing::internal::GetCapturedStderr();
  EXPECT_LT(printed.size(), 3000u);
  EXPECT_TRUE(printed.starts_with("error: t.csv: line 1, cell 2") && printed.ends_with("is no action\n")) << printed;
}

TEST_F(ExitCodes, FollowFromWhatHappensToTheProgram) {
  EXPECT_EQ(sluice({"list", "systems"}).code, 0);
  EXPECT_EQ(wait(start({"list", "systems"}, {}, "/dev/full")).code, 1);
  EXPECT_EQ(sluice({"list", "sistems"}).code, 2);
  EXPECT_EQ(sluice({"compare", "none.jsonl"}).code, 2);
  Json late = long_planning();
  late["timeout_seconds"] = 0.02;
  put("late.json", Json({{"grid", Json::array({late})}}).dump());
  EXPECT_EQ(sluice({"run", "late.json", "--out", "late.jsonl", "--progress", "none"}).code, 1);
  put("long.json", Json({{"grid", Json::array({long_planning()})}}).dump());
  for (const auto& [number, code] : {std::pair(SIGTERM, 1), std::pair(SIGKILL, 128 + SIGKILL)}) {
    const pid_t child = start({"run", "long.json", "--out", "long.jsonl"});
    for (int k = 0; k < 2000 && content(at(".err")).find("[1/1]") == std::string::npos; ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(child, number);
    EXPECT_EQ(wait(child).code, code);
    fs::remove(at(".err"));
  }
}

TEST_F(ExitCodes, AreTheSameInHelpAndOnThePage) {
  const std::set<std::string> codes = {"0", "1", "2", "3", "128 + n"};
  const auto named = [](std::string text, const std::regex& pattern) {
    std::set<std::string> found;
    for (std::smatch match; std::regex_search(text, match, pattern); text = match.suffix()) found.insert(match[1]);
    return found;
  };
  for (const char* command : {"", "run", "compare", "plan", "schedule", "report", "check"}) {
    Arguments arguments = {"--help"};
    if (*command) arguments.insert(arguments.begin(), command);
    const Finished help = sluice(arguments);
    EXPECT_EQ(help.code, 0);
    const std::size_t at = help.out.find("Exit codes:");
    ASSERT_NE(at, std::string::npos) << command;
    EXPECT_EQ(named(help.out.substr(at), std::regex("(?:: |; |;\n *|^)(128 \\+ n|[0-9])[: ]")), codes)
        << help.out.substr(at);
  }
  const std::string page = content(std::string(SLUICE_SOURCE_DIR) + "/harness/case/README.md");
  const std::size_t at = page.find("**Exit codes**");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(named(page.substr(at, page.find("## ", at) - at), std::regex("\n *\\| ([0-9][0-9 +n]*) \\|")), codes);
}

}  // namespace
}  // namespace sluice
