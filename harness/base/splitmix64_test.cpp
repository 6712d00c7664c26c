#include "harness/base/splitmix64.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

// The numbers that the published generator, splitmix64.c by Vigna, draws.
TEST(SplitMix64Test, DrawsThePublishedNumbers) {
  std::uint64_t state = 1234567;
  EXPECT_EQ(next_splitmix64(state), 6457827717110365317u);
  EXPECT_EQ(next_splitmix64(state), 3203168211198807973u);
  EXPECT_EQ(next_splitmix64(state), 9817491932198370423u);
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mixed_bits(0), 0u);
}

}  // namespace
}  // namespace sluice
