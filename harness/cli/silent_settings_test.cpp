// What a command was given and would not use, or would use otherwise than meant: it says so, or ends with an error.
#include "harness/cli/cli_test_support.h"

namespace sluice {
namespace {

class SilentSettings : public Cli {
 protected:
  void expect_rejected(const Arguments& arguments, const std::string& text) {
    const Finished finished = sluice(arguments);
    EXPECT_EQ(finished.code, 2) << finished.out;
    EXPECT_NE(finished.err.find(text), std::string::npos) << finished.err;
  }
  // Records of two simulated updates.
  void put_records(const std::string& file) {
    const Finished finished = sluice({"run", "--system", "gpipe", "--workload", "tiny", "--clock", "virtual",
                                      "--no-train", "--steps", "2", "--out", file, "--progress", "none"});
    ASSERT_EQ(finished.code, 0) << finished.err;
  }
  std::vector<std::string> files_of(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(at(".")))
      if (const std::string name = entry.path().filename(); name.starts_with(prefix)) names.push_back(name);
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(SilentSettings, AnOptionsValueThatNoSystemTakesIsRejected) {
  const std::string unknown = "--set: option 'variant': unknown value 'zzz'";
  expect_rejected({"schedule", "--system", "1f1b,gpipe", "--set", "variant=zzz"}, unknown);
  expect_rejected({"plan", "--system", "1f1b,gpipe", "--workload", "vgg16", "--set", "variant=zzz"}, unknown);
  EXPECT_EQ(sluice({"schedule", "--system", "1f1b,zero_bubble", "--set", "variant=h2"}).code, 0) << "one takes it";
}

TEST_F(SilentSettings, PatternsOfTrainingSystemsLeaveOutThoseThatOnlyInfer) {
  EXPECT_EQ(sluice({"schedule", "--system", "*"}).out.find("EdgePipe"), std::string::npos);
  const Finished inference =
      sluice({"plan", "--system", "*", "--workload", "vgg16", "--task", "inference", "--cluster", "flat:4"});
  EXPECT_NE(inference.out.find("EdgePipe"), std::string::npos) << inference.out << inference.err;
}

TEST_F(SilentSettings, AScheduleShowsTheVersionsOfALongRun) {
  const Finished finished =
      sluice({"schedule", "--system", "pipedream_2bw,pipedream", "--ranks", "4", "--microbatches", "8", "--json"});
  const Json documents = Json::parse(finished.out);
  for (const Json& document : documents)
    EXPECT_EQ(document["weight_versions"][0], document["system"] == "pipedream" ? 4 : 2) << document.dump();
}

TEST_F(SilentSettings, ATolerancePassesNoRunOfTwiceTheTime) {
  put_records("a.jsonl");
  for (const char* share : {"2", "1", "100%"})
    expect_rejected({"compare", "a.jsonl", "--against", "a.jsonl", "--tolerance", share}, "write 2% or 0.02");
  EXPECT_EQ(sluice({"compare", "a.jsonl", "--against", "a.jsonl", "--tolerance", "2%"}).code, 0);
}

TEST_F(SilentSettings, TwoOutputsOfOneNameAreRejectedBeforeTheWork) {
  expect_rejected({"schedule", "--system", "1f1b", "--trace", "a.json", "--html", "./a.json"}, "file of two outputs");
  expect_rejected({"run", "--system", "gpipe", "--workload", "tiny", "--clock", "virtual", "--no-train", "--out",
                   "b.jsonl", "--trace", "b.jsonl"},
                  "file of two outputs");
  EXPECT_EQ(files_of("a.json").size() + files_of("b.jsonl").size(), 0u);
}

TEST_F(SilentSettings, ALeaderboardOfOtherRecordsIsAnError) {
  put_records("a.jsonl");
  expect_rejected({"leaderboard", "a.jsonl"}, "holds no record of a column of the leaderboard");
}

TEST_F(SilentSettings, AnExportedPlanLeavesNoFilesOfALargerOne) {
  const auto exported = [&](const Arguments& more) {
    Arguments arguments = {"export", "--format", "chakra", "--system", "1f1b", "--workload", "vgg16", "--out", at("v")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ASSERT_EQ(sluice(arguments).code, 0);
  };
  exported({"--cluster", "flat:4", "--data-parallel", "2"});
  EXPECT_EQ(files_of("v."), (std::vector<std::string>{"v.0.et", "v.1.et", "v.2.et", "v.3.et", "v.groups.json"}));
  exported({"--cluster", "flat:2"});
  EXPECT_EQ(files_of("v."), (std::vector<std::string>{"v.0.et", "v.1.et"}));
}

TEST_F(SilentSettings, APlanCountsTheDevicesOfItsGroups) {
  const Finished finished =
      sluice({"plan", "--system", "piper", "--workload",
              SLUICE_SOURCE_DIR "/workloads/profiles/published/piper/bert32a100.json", "--cluster", "flat:8"});
  EXPECT_NE(finished.out.find("on 8 of 8 devices"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("groups of 2"), std::string::npos) << finished.out;
}

}  // namespace
}  // namespace sluice
