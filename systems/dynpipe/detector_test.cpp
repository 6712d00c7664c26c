#include "systems/dynpipe/detector.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

bool code_sees(std::vector<double> seconds_of_window) {
  DeviceHistory quiet{{1, 1, 1}}, device;
  for (const double seconds : seconds_of_window) device.slowdown.push_back(seconds / 10);
  const std::vector<DeviceHistory> devices = {quiet, device};
  return has_changed(devices, code_detector(), 1);
}

TEST(DynPipeDetectorTest, TheCodesDeadBandIsOpenAtBothEnds) {
  EXPECT_FALSE(code_sees({10, 10, 19.9}));
  EXPECT_TRUE(code_sees({10, 10, 20.0}));
  EXPECT_TRUE(code_sees({10, 10, 5.0}));
  EXPECT_FALSE(code_sees({10, 10, 5.1}));
  EXPECT_FALSE(code_sees({10, 30}));  // the window of the baseline says nothing yet
}

TEST(DynPipeDetectorTest, OwnDetectorNeedsTwoWindowsInARow) {
  const DetectorOptions own;
  const auto sees = [&](std::vector<double> slowdown, double assumed = 1) {
    const std::vector<DeviceHistory> devices = {{std::move(slowdown), assumed}};
    return has_changed(devices, own, own.confirm);
  };
  EXPECT_FALSE(sees({1, 1.4}));
  EXPECT_FALSE(sees({1.4, 1, 1.4}));
  EXPECT_TRUE(sees({1, 1.3, 1.4}));
  EXPECT_FALSE(sees({1.29, 1.29}));
}

TEST(DynPipeDetectorTest, ASlowDeviceIsQuietAgainBelowItsOwnThreshold) {
  const DetectorOptions own;
  const auto sees = [&](double now) {
    const std::vector<DeviceHistory> devices = {{{now, now}, 1.35}};
    return has_changed(devices, own, own.confirm);
  };
  EXPECT_TRUE(sees(1.1));
  EXPECT_FALSE(sees(1.2));
  EXPECT_TRUE(sees(1.8));
}

}  // namespace
}  // namespace sluice
