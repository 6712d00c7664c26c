#include "systems/dynapipe/cyclic_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "harness/plan/order_timing.h"

namespace sluice {
namespace {

std::vector<int> in_order(int microbatches) {
  std::vector<int> all(static_cast<std::size_t>(microbatches));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string text_of(const std::vector<Op>& ops) {
  std::string text;
  for (const Op& op : ops) text += (text.empty() ? "" : " ") + to_text(op);
  return text;
}

// The same on all stages: F takes a third of a micro-batch's work, B two thirds.
ChainSeconds times_of(int stages, const std::vector<double>& work) {
  ChainSeconds times;
  for (int s = 0; s < stages; ++s) {
    auto &forward = times.forward.emplace_back(), &backward = times.backward.emplace_back();
    for (const double w : work) forward.push_back(w), backward.push_back(2 * w);
  }
  return times;
}

// 1F1B for a comparison: stage s of p runs p - 1 - s forwards first.
StageOrders one_f_one_b(int stages, int microbatches) {
  StageOrders orders(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) {
    const int warm_up = std::min(stages - 1 - s, microbatches);
    for (int i = 0; i < warm_up; ++i) orders[s].push_back(forward_op(s, i));
    for (int i = 0; i < microbatches; ++i) {
      if (warm_up + i < microbatches) orders[s].push_back(forward_op(s, warm_up + i));
      orders[s].push_back(backward_op(s, i));
    }
  }
  return orders;
}

// By hand, p = 2, m = 4. Cycle 1: 0F0. 2: 0F1, 1F0. 3: 0F2; 1B0, 1F1. 4: 0B0, 0F3; 1B1, 1F2. 5: 0B1; 1B2, 1F3. ...
TEST(CyclicOrder, IsThatOfTheCycles) {
  const auto orders = cyclic_order(2, in_order(4));
  ASSERT_TRUE(orders);
  EXPECT_EQ(text_of((*orders)[0]), "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  EXPECT_EQ(text_of((*orders)[1]), "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3");
}

TEST(CyclicOrder, WarmsUpWithTwiceTheForwardsOfOneFOneB) {
  for (const int p : {1, 2, 4, 8}) {
    const auto orders = cyclic_order(p, in_order(32));
    for (int s = 0; s < p; ++s) {
      const auto first = std::ranges::find_if((*orders)[s], [](const Op& op) { return op.kind == OpKind::backward; });
      EXPECT_EQ(first - (*orders)[s].begin(), 2 * (p - 1 - s) + 1);
    }
    const HoldingLimit one_each{std::vector(p, std::vector<double>(32, 1)), std::vector<double>(p, 0)};
    for (int s = 0; s < p; ++s) {
      HoldingLimit limit = one_each;
      limit.limit.assign(static_cast<std::size_t>(p), 1e9);
      limit.limit[s] = 2 * (p - s) - 1;
      EXPECT_TRUE(keeps(*orders, limit));
      limit.limit[s] -= 1;
      EXPECT_FALSE(keeps(*orders, limit));
    }
  }
}

// Sizes 1.5 and 0.5 in turn, F 1 and B 2 of a sample (independent simulator).
TEST(CyclicOrder, TakesSixtyOneWhereOneFOneBTakesEightyTwo) {
  std::vector<double> work;
  for (int m = 0; m < 16; ++m) work.push_back(m % 2 == 0 ? 1.5 : 0.5);
  EXPECT_DOUBLE_EQ(time_order(one_f_one_b(4, 16), times_of(4, work)).makespan, 82);
  EXPECT_DOUBLE_EQ(time_order(*cyclic_order(4, in_order(16)), times_of(4, work)).makespan, 61);
}

TEST(CyclicOrder, TakesAsLongAsOneFOneBWhereSizesAreEqual) {
  for (const int p : {2, 3, 5})
    for (const int m : {1, 4, 9}) {
      const ChainSeconds times = times_of(p, std::vector<double>(static_cast<std::size_t>(m), 1));
      EXPECT_DOUBLE_EQ(time_order(*cyclic_order(p, in_order(m)), times).makespan, 3.0 * (m + p - 1)) << p << " " << m;
      EXPECT_DOUBLE_EQ(time_order(one_f_one_b(p, m), times).makespan, 3.0 * (m + p - 1)) << p << " " << m;
    }
}

// Micro-batches of 3 and 1 samples: with 4 at most, stage 0 begins 0F0 0F1 and waits for 0B0.
TEST(CyclicOrder, PutsOffForwardsThatWouldPassTheLimit) {
  HoldingLimit limit{std::vector(2, std::vector<double>{3, 1, 3, 1}), {4, 4}};
  const auto orders = cyclic_order(2, in_order(4), &limit);
  ASSERT_TRUE(orders);
  EXPECT_EQ(text_of((*orders)[0]), "0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3");
  EXPECT_TRUE(keeps(*orders, limit));
  EXPECT_FALSE(keeps(*cyclic_order(2, in_order(4)), limit));
  limit.limit = {4, 2};
  EXPECT_FALSE(cyclic_order(2, in_order(4), &limit));
}

}  // namespace
}  // namespace sluice
