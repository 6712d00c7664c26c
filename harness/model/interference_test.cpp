#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/model/load_interference.h"

namespace sluice {
namespace {

Interference given(const std::string& text, int devices = 4) {
  return load_interference(text, devices, "--interference");
}

TEST(InterferenceTest, EpisodesOfOneResourceAddAndOfDifferentResourcesMultiply) {
  const Interference i = given("compute:1@10-20x2,compute:1@15-30x3,memory:1@0-40x1.5");
  const PiecewiseSpeed speed = i.device_speed(DeviceId(1));
  EXPECT_DOUBLE_EQ(speed.at(5), 1 / 1.5);
  EXPECT_DOUBLE_EQ(speed.at(12), 1 / (2 * 1.5));
  EXPECT_DOUBLE_EQ(speed.at(17), 1 / (4 * 1.5));  // 1 + 1 + 2
  EXPECT_DOUBLE_EQ(speed.at(25), 1 / (3 * 1.5));
  EXPECT_DOUBLE_EQ(speed.at(50), 1);
  EXPECT_TRUE(i.device_speed(DeviceId(0)).constant());
}

TEST(InterferenceTest, AnEpisodeWithoutAnEndLastsForEver) {
  EXPECT_DOUBLE_EQ(given("compute:0@5-x4").device_speed(DeviceId(0)).at(1e9), 0.25);
  EXPECT_DOUBLE_EQ(given("compute:0x4").device_speed(DeviceId(0)).at(0), 0.25);
}

TEST(InterferenceTest, ALinkIsSlowInBothDirectionsAndSoAreAllOfADevice) {
  const Interference i = given("link:0-1x4,link:2x2");
  EXPECT_DOUBLE_EQ(i.link_speed(DeviceId(1), DeviceId(0)).at(1), 0.25);
  EXPECT_DOUBLE_EQ(i.link_speed(DeviceId(0), DeviceId(2)).at(1), 0.5);
  EXPECT_DOUBLE_EQ(i.link_speed(DeviceId(0), DeviceId(3)).at(1), 1);
  EXPECT_TRUE(i.device_speed(DeviceId(2)).constant());
}

TEST(InterferenceTest, DynPipesLogHasThreeEpisodesOnOneDevice) {
  const Interference i = given("dynpipe-log", 2);
  ASSERT_EQ(i.episodes.size(), 3u);
  EXPECT_DOUBLE_EQ(i.device_speed(DeviceId(1)).at(500), 1 / 1.78);
  EXPECT_DOUBLE_EQ(i.device_speed(DeviceId(1)).at(3000), 1 / 2.55);
  EXPECT_DOUBLE_EQ(i.device_speed(DeviceId(1)).at(1000), 1);
  EXPECT_TRUE(i.device_speed(DeviceId(0)).constant());
  EXPECT_DOUBLE_EQ(given("dynpipe-log:scale=0.1,device=0", 2).episodes[0].end, 92.2);
}

TEST(InterferenceTest, TheSyntheticModelIsSeededAndBusyAsOftenAsAsked) {
  const auto busy = [](const std::string& text) {
    double sum = 0, end = 0;
    for (const Episode& e : given(text, 64).episodes) {
      EXPECT_GE(e.slowdown, 1.2);
      EXPECT_LE(e.slowdown, 2);
      sum += e.end - e.start;
      end = std::max(end, e.end);
    }
    return sum / (64 * 48.0 * 3600);
  };
  EXPECT_NEAR(busy("light"), 0.2, 0.04);
  EXPECT_NEAR(busy("light:busy=0.5"), 0.5, 0.06);
  EXPECT_EQ(given("mixed:seed=3").episodes, given("mixed:seed=3").episodes);
  EXPECT_NE(given("mixed:seed=3").episodes, given("mixed:seed=4").episodes);
}

TEST(InterferenceTest, AFileSaysWhatItsJsonSays) {
  const std::string file = testing::TempDir() + "/interference.json";
  std::ofstream(file) << R"({"name": "n", "seed": 7, "latency_jitter": 0.25, "episodes": [
      {"resource": "compute", "device": 1, "start": 1, "seconds": 1, "slowdown": 3},
      {"resource": "link", "device": 0, "to": 1, "start": 5, "slowdown": 4}]})";
  const Interference i = given(file);
  EXPECT_EQ(i.name, "n");
  EXPECT_EQ(i.seed, 7u);
  EXPECT_EQ(i.latency_jitter, 0.25);
  EXPECT_EQ(i.episodes, given("compute:1@1-2x3,link:0-1@5-x4").episodes);
}

TEST(InterferenceTest, EveryPresetCanBeLoaded) {
  for (const char* name : {"dynpipe-log", "light", "heavy", "mixed", "memory-light", "flapping", "two-stage",
                           "departure", "edge-thermal", "link-jitter"})
    EXPECT_FALSE(given(name).empty()) << name;
}

TEST(InterferenceTest, MistakesAreNamed) {
  const auto rejects = [](const std::string& text, const std::string& because) {
    const std::string error = error_of([&] { given(text); });
    EXPECT_NE(error.find(because), std::string::npos) << error;
  };
  rejects("ligth", "did you mean 'light'");
  rejects("light:sede=2", "did you mean 'seed'");
  rejects("light:seed=3,seed=4", "'seed' is given twice; give each setting once");
  rejects("compute:9x2", "device 9 does not exist");
  rejects("compute:1@20-10x2", "must end after it starts");
  rejects("compute:1@10-20x0.5", "must be at least 1");
  rejects("compute:1@10-20", "is not an episode");
  rejects("compute:onex2", "is not a number");
  rejects("gavel-p100:file=/nowhere.csv", "no such file");
  rejects("compute:0-1x2", "only a link has two");
}

TEST(InterferenceTest, NoiseHasMeanOneAndTheSpreadThatWasAsked) {
  double sum = 0, squares = 0;
  constexpr int kSamples = 20000;
  for (std::uint64_t k = 0; k < kSamples; ++k) {
    const double f = noise_factor(1, 2, k, 0.25);
    sum += f;
    squares += std::log(f) * std::log(f);
  }
  EXPECT_NEAR(sum / kSamples, 1, 0.01);
  EXPECT_NEAR(std::sqrt(squares / kSamples), 0.25, 0.02);
}

}  // namespace
}  // namespace sluice
