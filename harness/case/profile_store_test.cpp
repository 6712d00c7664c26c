// Profiles of this machine: where they are kept, and whose costs a case gets.
#include "harness/case/profile_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/base/json.h"
#include "harness/case/costs.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class ProfileStoreTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder()); }
  void TearDown() override { fs::remove_all(folder()); }
  static std::string folder() { return testing::TempDir() + "/profile_store." + std::to_string(::getpid()); }

  // A profile of the workload whose first layer takes so long.
  static CostGraph profile(double seconds) {
    CostGraph graph{
        .model = "tiny", .source = "profile", .device = "cpu thread", .micro_batch = kKey.micro_batch, .layers = {}};
    for (const LayerSpec& layer : find_workload("tiny").model.layers)
      graph.layers.push_back({.name = layer.name, .inputs = layer.inputs, .forward = Seconds(seconds)});
    return graph;
  }
  static std::string content(const std::string& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static Seconds first_forward() {
    return load_costs(kMeasuredCosts, find_workload("tiny"), kKey, {}).layers[0].forward;
  }

  static inline const ProfileKey kKey{.workload = "tiny", .micro_batch = 4};
};

TEST_F(ProfileStoreTest, ACaseGetsTheProfilesOfTheRoundAndNoOthers) {
  {
    const OwnProfiles first({.folder = folder() + "/1", .rounds = 1});
    EXPECT_EQ(profile_keeping().rounds, 1);
    EXPECT_FALSE(stored_profile(kKey));
    store_profile(kKey, profile(0.5));
    EXPECT_EQ(first_forward(), Seconds(0.5));
  }
  {
    const OwnProfiles second({.folder = folder() + "/2", .rounds = 1});
    EXPECT_FALSE(stored_profile(kKey));
    store_profile(kKey, profile(0.25));
    EXPECT_EQ(first_forward(), Seconds(0.25));
  }
  EXPECT_EQ(profile_keeping().rounds, 3);
  EXPECT_NE(profile_keeping().folder, folder() + "/2");
  EXPECT_EQ(measured_costs().size(), 0u);
}

TEST_F(ProfileStoreTest, AnEntryThatWasEditedOrDamagedIsNamedAndMeasuredAnew) {
  const OwnProfiles own({.folder = folder(), .rounds = 1});
  store_profile(kKey, profile(0.5));
  const std::string file = profile_file(kKey);
  std::string text = content(file);
  const auto warning_of = [&](const std::string& changed) {
    std::ofstream(file) << changed;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(stored_profile(kKey)) << changed;
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_TRUE(stored_profile(kKey));
  std::string slower = text;
  slower.replace(slower.find("\"forward\": 0.5"), 14, "\"forward\": 50.0");
  EXPECT_EQ(warning_of(slower),
            "warning: profile cache: " + file + ": was changed after it was written; it is measured anew\n");
  for (const std::string& damaged : {std::string(), text.substr(0, text.size() / 2), std::string("{}"),
                                     content(file).substr(1), to_json(profile(0.5)).dump()}) {
    const std::string warning = warning_of(damaged);
    EXPECT_TRUE(warning.starts_with("warning: profile cache: " + file)) << warning;
    EXPECT_TRUE(warning.ends_with("; it is measured anew\n")) << warning;
  }
  std::ofstream(file) << text;
  EXPECT_EQ(first_forward(), Seconds(0.5));
}

TEST_F(ProfileStoreTest, AnEntryOfAnotherKeyIsNotTaken) {
  const OwnProfiles own({.folder = folder(), .rounds = 1});
  store_profile(kKey, profile(0.5));
  const ProfileKey other{.workload = "tiny", .micro_batch = 8};
  fs::rename(profile_file(kKey), profile_file(other));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(stored_profile(other));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("was changed after it was written"), std::string::npos);
}

TEST_F(ProfileStoreTest, AnEntryThatCannotBeReplacedIsAWarning) {
  const OwnProfiles own({.folder = folder(), .rounds = 1});
  fs::create_directories(profile_file(kKey) + "/in_the_way");
  testing::internal::CaptureStderr();
  store_profile(kKey, profile(0.5));
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(warning.starts_with("warning: profile cache: " + profile_file(kKey) + ": cannot be written: "))
      << warning;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1);
}

TEST_F(ProfileStoreTest, AFolderThatCannotBeWrittenIsAWarning) {
  std::ofstream(folder()) << "a file where the folder should be";
  const OwnProfiles own({.folder = folder(), .rounds = 1});
  testing::internal::CaptureStderr();
  store_profile(kKey, profile(0.5));
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(warning.starts_with("warning: profile cache: " + folder())) << warning;
  EXPECT_TRUE(warning.ends_with("; the next run measures again\n")) << warning;
}

}  // namespace
}  // namespace sluice
