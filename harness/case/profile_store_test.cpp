// Profiles of this machine: where they are kept, and whose costs a case gets.
#include "harness/case/profile_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/case/costs.h"
#include "harness/case/test_profiles.h"
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
  static Seconds first_forward(ProfileStore& profiles) {
    return load_costs(kMeasuredCosts, find_workload("tiny"), kKey, {}, {}, profiles).layers[0].forward;
  }

  static inline const ProfileKey kKey{.workload = "tiny", .micro_batch = 4};
  static inline const ProfileMeasurements kSteady{.speeds = steady_speeds};
};

// A machine whose speed and whose profiles a test decides.
class GaugedProfilesTest : public ProfileStoreTest {
 protected:
  // As a process that begins now has it.
  std::unique_ptr<ProfileStore> new_machine() {
    ProfileMeasurements measure;
    measure.speeds = [this] { return ++gauged_, speeds_; };
    measure.profile = [this](const ProfileKey&, const Workload&, int) { return ++measured_, profile(seconds_); };
    return std::make_unique<ProfileStore>(folder(), 3, measure);
  }

  MachineSpeeds speeds_{.arithmetic = 100, .memory = 100, .message = 100};
  double seconds_ = 0.5;
  int gauged_ = 0, measured_ = 0;
};

TEST_F(GaugedProfilesTest, AStoredProfileIsUsedOnAMachineOfTheSameSpeed) {
  EXPECT_EQ(first_forward(*new_machine()), Seconds(0.5));
  seconds_ = 0.25;
  speeds_ = {.arithmetic = 104, .memory = 96, .message = 100};
  testing::internal::CaptureStderr();
  EXPECT_EQ(first_forward(*new_machine()), Seconds(0.5));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(measured_, 1);
}

TEST_F(GaugedProfilesTest, AStoredProfileOfAnotherSpeedIsNamedMeasuredAnewAndStored) {
  EXPECT_EQ(first_forward(*new_machine()), Seconds(0.5));
  seconds_ = 0.25;
  speeds_.memory = 90;
  testing::internal::CaptureStderr();
  const auto slower = new_machine();
  EXPECT_EQ(first_forward(*slower), Seconds(0.25));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: profile cache: " + slower->file_of(kKey) +
                ": this machine is not as it was: memory is 10 % slower; it is measured anew\n");
  EXPECT_EQ(first_forward(*new_machine()), Seconds(0.25));
  EXPECT_EQ(measured_, 2);
}

TEST_F(GaugedProfilesTest, AStoreMeasuresTheSpeedsOnceForAllItsFiles) {
  const ProfileKey other{.workload = "tiny", .micro_batch = 8};
  const auto first = new_machine();
  first->store(kKey, profile(0.5));
  first->store(other, profile(0.5));
  EXPECT_EQ(gauged_, 2);  // each file has the speeds of its own time
  const auto later = new_machine();
  EXPECT_TRUE(later->stored(kKey));
  EXPECT_TRUE(later->stored(other));
  EXPECT_EQ(gauged_, 3);
}

TEST_F(GaugedProfilesTest, AFileOfCostsIsComparedOnceWithTheMachineThatUsesIt) {
  const std::string file = folder() + "/tiny.json";
  fs::create_directories(folder());
  const auto warning_of = [&](const CostGraph& written, const Cluster& cluster, int times = 1) {
    std::ofstream(file) << to_json(written).dump();
    const auto profiles = new_machine();
    testing::internal::CaptureStderr();
    for (; times > 0; --times) load_costs(file, find_workload("tiny"), kKey, cluster, {}, *profiles);
    return testing::internal::GetCapturedStderr();
  };
  const Cluster here{.one_machine = Cluster::OneMachine{}};
  CostGraph graph = profile(0.5);
  EXPECT_EQ(warning_of(graph, here), "");  // not of a machine
  graph.machine.emplace().machine = machine_signature();
  EXPECT_EQ(warning_of(graph, here), "");  // without speeds
  graph.machine->speeds = {.arithmetic = 97, .memory = 104, .message = 200};
  EXPECT_EQ(warning_of(graph, {}), "");  // another cluster, whose devices the file describes
  EXPECT_EQ(gauged_, 0);
  EXPECT_EQ(warning_of(graph, here, 3), "warning: " + file +
                                            ": this machine is not as it was: messages are 50 % slower; measure again "
                                            "with: sluice profile\n");
  EXPECT_EQ(gauged_, 1);
  graph.machine->speeds->message = 100;
  EXPECT_EQ(warning_of(graph, here), "");
  graph.machine->machine = "Z80, 1 cores";
  EXPECT_EQ(
      warning_of(graph, here),
      "warning: " + file + ": was measured on another machine, 'Z80, 1 cores'; measure again with: sluice profile\n");
}

TEST_F(GaugedProfilesTest, TheSpeedOfTheProcessorSaysNothingOfAGpu) {
  const ProfileKey gpu{.workload = "tiny", .micro_batch = 4, .device = DeviceKind::cuda};
  new_machine()->store(gpu, profile(0.5));
  speeds_.arithmetic = 10;
  EXPECT_TRUE(new_machine()->stored(gpu));
}

TEST_F(ProfileStoreTest, ACaseGetsTheProfilesOfItsStoreAndNoOthers) {
  ProfileStore first(folder() + "/1", 3, kSteady), second(folder() + "/2", 3, kSteady);
  EXPECT_FALSE(first.stored(kKey));
  first.store(kKey, profile(0.5));
  EXPECT_FALSE(second.stored(kKey));
  second.store(kKey, profile(0.25));
  EXPECT_EQ(first_forward(first), Seconds(0.5));
  EXPECT_EQ(first_forward(second), Seconds(0.25));
}

TEST_F(ProfileStoreTest, WhatWasReadOnceStaysWhenItsFileChanges) {
  ProfileStore profiles(folder(), 3, kSteady);
  profiles.store(kKey, profile(0.5));
  EXPECT_EQ(first_forward(profiles), Seconds(0.5));
  profiles.store(kKey, profile(0.25));
  EXPECT_EQ(first_forward(profiles), Seconds(0.5));
  fs::remove_all(folder());
  EXPECT_EQ(first_forward(profiles), Seconds(0.5));
}

TEST_F(ProfileStoreTest, OtherProcessesOfAJobPlanWithTheCostsOfTheFirst) {
  ProfileStore first(folder() + "/1", 3, kSteady), other(folder() + "/2", 3, kSteady);
  first.store(kKey, profile(0.5));
  other.store(kKey, profile(0.25));
  EXPECT_EQ(first_forward(first), Seconds(0.5));
  EXPECT_EQ(first_forward(other), Seconds(0.25));
  const Json list = first.to_json();
  ASSERT_EQ(list.size(), 1u);
  other.adopt(list);
  EXPECT_EQ(first_forward(other), Seconds(0.5));
  EXPECT_EQ(other.to_json(), list);
}

TEST_F(ProfileStoreTest, CostsThatCannotBeReadLeaveTheStoreAsItWas) {
  ProfileStore first(folder() + "/1", 3, kSteady), other(folder() + "/2", 3, kSteady);
  first.store(kKey, profile(0.5));
  EXPECT_EQ(first_forward(first), Seconds(0.5));
  Json list = first.to_json();
  list.push_back({{"key", "another"}, {"costs", {{"layers", 3}}}});
  EXPECT_THROW(other.adopt(list), InputError);
  EXPECT_EQ(other.to_json(), Json::array());
}

TEST_F(ProfileStoreTest, ACaseThatFailsLeavesNothingInTheStore) {
  ProfileStore profiles(folder(), 3, kSteady);
  const ProfileKey of_no_device{.workload = "tiny", .micro_batch = 4, .device = DeviceKind::cuda};
  if (cuda_rejection().empty()) GTEST_SKIP() << "a GPU can be measured here";
  EXPECT_THROW(profiles.costs(of_no_device, find_workload("tiny"), false), std::exception);
  EXPECT_EQ(profiles.to_json(), Json::array());
  EXPECT_FALSE(fs::exists(profiles.file_of(of_no_device)));
}

TEST_F(ProfileStoreTest, AnEntryThatWasEditedOrDamagedIsNamedAndMeasuredAnew) {
  ProfileStore profiles(folder(), 3, kSteady);
  profiles.store(kKey, profile(0.5));
  const std::string file = profiles.file_of(kKey);
  std::string text = content(file);
  const auto warning_of = [&](const std::string& changed) {
    std::ofstream(file) << changed;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(profiles.stored(kKey)) << changed;
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_TRUE(profiles.stored(kKey));
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
  EXPECT_EQ(first_forward(profiles), Seconds(0.5));
}

TEST_F(ProfileStoreTest, AnEntryOfAnotherKeyIsNotTaken) {
  ProfileStore profiles(folder(), 3, kSteady);
  profiles.store(kKey, profile(0.5));
  const ProfileKey other{.workload = "tiny", .micro_batch = 8};
  fs::rename(profiles.file_of(kKey), profiles.file_of(other));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(profiles.stored(other));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("was changed after it was written"), std::string::npos);
}

TEST_F(ProfileStoreTest, AnEntryThatCannotBeReplacedIsAWarning) {
  ProfileStore profiles(folder(), 3, kSteady);
  fs::create_directories(profiles.file_of(kKey) + "/in_the_way");
  testing::internal::CaptureStderr();
  profiles.store(kKey, profile(0.5));
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(warning.starts_with("warning: profile cache: " + profiles.file_of(kKey) + ": cannot be written: "))
      << warning;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1);
}

TEST_F(ProfileStoreTest, AFolderThatCannotBeWrittenIsAWarning) {
  std::ofstream(folder()) << "a file where the folder should be";
  ProfileStore profiles(folder(), 3, kSteady);
  testing::internal::CaptureStderr();
  profiles.store(kKey, profile(0.5));
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(warning.starts_with("warning: profile cache: " + folder())) << warning;
  EXPECT_TRUE(warning.ends_with("; the next run measures again\n")) << warning;
}

}  // namespace
}  // namespace sluice
