#include "results/plan_facts.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(PlanFacts, AreReadFromTheRecordsPlan) {
  Record record;
  EXPECT_FALSE(plan_facts(record).has_value());
  record.plan = {.objective = 0.5,
                 .objective_name = "slowest stage, per sample",
                 .states = 42,
                 .search_seconds = 1.25,
                 .complete = false,
                 .stages = {{}, {}, {}, {}},
                 .edges = {{0, 1}, {2, 3}, {1, 3}}};
  const auto facts = plan_facts(record);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->objective_name, "slowest stage, per sample");
  EXPECT_DOUBLE_EQ(facts->objective, 0.5);
  EXPECT_DOUBLE_EQ(facts->search_seconds, 1.25);
  EXPECT_EQ(facts->states, 42);
  EXPECT_EQ(facts->stages, 4);
  EXPECT_EQ(facts->depth, 3);  // 0 1 3
  EXPECT_TRUE(facts->searched);
  EXPECT_FALSE(facts->complete);
}

TEST(PlanFacts, ABalancedChainIsNoSearch) {
  Record record;
  record.plan = {.objective = 1, .objective_name = "slowest stage", .stages = {{}, {}}, .edges = {{0, 1}}};
  EXPECT_FALSE(plan_facts(record)->searched);
  EXPECT_TRUE(plan_facts(record)->complete);
  EXPECT_EQ(plan_facts(record)->depth, 2);
  record.plan->edges.clear();
  EXPECT_EQ(plan_facts(record)->depth, 1);
  record.plan->edges = {{0, 7}};  // somebody else's record
  EXPECT_EQ(plan_facts(record)->depth, 1);
}

}  // namespace
}  // namespace sluice
