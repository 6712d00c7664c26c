#include "harness/sim/fair_transfers.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

// A connection that its links alone would let go at `most` bytes/s.
Route connection(double most, std::vector<std::size_t> media) {
  Route route;
  route.seconds_per_byte = 1 / most;
  route.crossings.assign(media.size(), 1);
  route.media = std::move(media);
  return route;
}

std::vector<double> rates(const std::vector<double>& capacities, const std::vector<Route>& routes) {
  std::vector<const Route*> pointers;
  for (const Route& route : routes) pointers.push_back(&route);
  return fair_rates(capacities, pointers);
}

TEST(FairRatesTest, ATransferThatIsHeldUpElsewhereLeavesItsShareToOthers) {
  // Medium 1 is full with 3 + 3; of medium 0's 10 the first takes what that leaves.
  EXPECT_EQ(rates({10, 6}, {connection(10, {0}), connection(10, {0, 1}), connection(10, {1})}),
            (std::vector<double>{7, 3, 3}));
}

TEST(FairRatesTest, ATransferGoesNoFasterThanItsOwnLinks) {
  EXPECT_EQ(rates({10}, {connection(2, {0}), connection(10, {0})}), (std::vector<double>{2, 8}));
}

TEST(FairRatesTest, ARingTakesAShareForEachOfItsHops) {
  Route ring = connection(10, {0});
  ring.crossings = {3};
  EXPECT_EQ(rates({8}, {ring, connection(10, {0})}), (std::vector<double>{2, 2}));
}

RC_GTEST_PROP(FairRatesTest, NoRateCanRiseWithoutLoweringOneThatIsNoHigher, ()) {
  const auto media = *rc::gen::inRange<std::size_t>(1, 6);
  const auto rate = rc::gen::map(rc::gen::inRange(1, 50), [](int r) { return static_cast<double>(r); });
  const auto capacities = *rc::gen::container<std::vector<double>>(media, rate);
  std::vector<Route> routes;
  for (int k = *rc::gen::inRange(1, 9); k > 0; --k) {
    std::vector<std::size_t> of_route;
    for (std::size_t m = 0; m < media; ++m)
      if (*rc::gen::arbitrary<bool>()) of_route.push_back(m);
    Route route = connection(*rate, of_route);
    for (double& crossings : route.crossings) crossings = *rc::gen::inRange(1, 4);
    routes.push_back(route);
  }
  const std::vector<double> found = rates(capacities, routes);
  std::vector<double> load(media, 0), fastest(media, 0);
  for (std::size_t i = 0; i < routes.size(); ++i)
    for (std::size_t m = 0; m < routes[i].media.size(); ++m) {
      load[routes[i].media[m]] += found[i] * routes[i].crossings[m];
      fastest[routes[i].media[m]] = std::max(fastest[routes[i].media[m]], found[i]);
    }
  for (std::size_t m = 0; m < media; ++m) RC_ASSERT(load[m] <= capacities[m] * (1 + 1e-9));
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const bool at_its_own = found[i] >= (1 - 1e-9) / routes[i].seconds_per_byte;
    const bool on_a_full_medium = std::ranges::any_of(routes[i].media, [&](std::size_t m) {
      return load[m] >= capacities[m] * (1 - 1e-9) && fastest[m] <= found[i] * (1 + 1e-9);
    });
    RC_ASSERT(at_its_own || on_a_full_medium);
  }
}

TEST(FairTransfersTest, WhatHasNoBytesEndsAsItBeginsAndSlowsNothing) {
  const Route route = connection(10, {0});
  FairTransfers transfers({10});
  transfers.start(0, route, 20, 1);
  transfers.start(1, route, 0, 2);
  EXPECT_EQ(transfers.next_end(), 1);
  EXPECT_EQ(transfers.end_next(), 2);
  EXPECT_DOUBLE_EQ(transfers.next_end(), 2);
}

TEST(FairTransfersTest, TwoShareAMediumFromTheMomentTheSecondBegins) {
  const Route route = connection(10, {0});
  FairTransfers transfers({10});
  transfers.start(0, route, 20, 1);  // 10 by t = 1, then 5 a second
  transfers.start(1, route, 30, 2);  // 10 by t = 3, then alone
  EXPECT_DOUBLE_EQ(transfers.next_end(), 3);
  EXPECT_EQ(transfers.end_next(), 1);
  EXPECT_DOUBLE_EQ(transfers.next_end(), 5);
  EXPECT_EQ(transfers.end_next(), 2);
  EXPECT_FALSE(transfers.pending());
}

RC_GTEST_PROP(FairTransfersTest, OneMediumIsBusyUntilEverythingIsThroughAndEndsComeByBytesLeft, ()) {
  const Route route = connection(4, {0});
  FairTransfers transfers({4});
  const auto bytes = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 100)));
  double total = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    transfers.start(0, route, bytes[i], static_cast<std::int64_t>(i));
    total += bytes[i];
  }
  double last = 0;
  int smallest = 0;
  while (transfers.pending()) {
    const double end = transfers.next_end();
    const int of = bytes[static_cast<std::size_t>(transfers.end_next())];
    RC_ASSERT(end >= last && of >= smallest);
    last = end;
    smallest = of;
  }
  RC_ASSERT(std::abs(last - total / 4) < 1e-9 * total);
}

}  // namespace
}  // namespace sluice
