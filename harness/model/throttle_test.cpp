#include "harness/model/throttle.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

TEST(ThrottleTest, AllLinksOrThoseBetweenTwoDevicesInBothDirections) {
  const Throttle t = Throttle::parse("rate=100Mbit/s,latency=20ms,burst=32KiB;0-1:rate=1GB/s", 3, "--throttle");
  EXPECT_DOUBLE_EQ(t.between(DeviceId(1), DeviceId(2)).rate, 12.5e6);
  EXPECT_DOUBLE_EQ(t.between(DeviceId(1), DeviceId(2)).latency.value, 0.02);
  EXPECT_DOUBLE_EQ(t.between(DeviceId(1), DeviceId(2)).burst, 32768);
  EXPECT_DOUBLE_EQ(t.between(DeviceId(1), DeviceId(0)).rate, 1e9);
  EXPECT_TRUE(std::isinf(Throttle::parse("0-1:latency=1ms", 3, "").between(DeviceId(1), DeviceId(2)).rate));
  EXPECT_TRUE(Throttle::parse("", 3, "").empty());
}

TEST(ThrottleTest, SlowdownsAreOneARankOrOneForAll) {
  EXPECT_EQ(parse_slowdowns("1,2,4", 3, ""), (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(parse_slowdowns("2", 3, ""), (std::vector<double>{2, 2, 2}));
  EXPECT_TRUE(parse_slowdowns("", 3, "").empty());
}

TEST(ThrottleTest, MistakesAreNamed) {
  const auto rejects = [](auto action, const std::string& because) {
    const std::string error = error_of(action);
    EXPECT_NE(error.find(because), std::string::npos) << error;
  };
  rejects([] { Throttle::parse("rat=3", 2, "--throttle"); }, "did you mean 'rate'");
  rejects([] { Throttle::parse("rate=0", 2, "--throttle"); }, "greater than 0");
  rejects([] { Throttle::parse("rate=1GB/s,rate=2GB/s", 2, "--throttle"); }, "'rate' is given twice");
  rejects([] { Throttle::parse("rate=3Tbit/s", 2, "--throttle"); }, "unknown unit");
  rejects([] { Throttle::parse("0-7:rate=3", 2, "--throttle"); }, "device 7 does not exist");
  rejects([] { Throttle::parse("0:rate=3", 2, "--throttle"); }, "is not a link");
  rejects([] { parse_slowdowns("1,2", 3, "--slowdown"); }, "2 slowdowns for 3 ranks");
  rejects([] { parse_slowdowns("0.5", 3, "--slowdown"); }, "at least 1");
}

}  // namespace
}  // namespace sluice
