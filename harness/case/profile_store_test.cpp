// Profiles of this machine: where they are kept, and whose costs a case gets.
#include "harness/case/profile_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

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

}  // namespace
}  // namespace sluice
