#include "results/validation.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

Record record(int number, const std::string& system, Clock clock, double seconds) {
  Record r;
  r.system = system;
  r.workload = "mlp";
  r.clock = clock;
  r.transport = "threads";
  r.batch = 32;
  r.samples_per_step = 32;
  r.microbatches = 4;
  r.step_seconds.assign(10, seconds);
  r.environment.validation = {.number = number, .label = system + " mlp"};
  if (clock == Clock::wall) {
    r.peak_bytes = {{.total = 100}};
    r.predicted_peak_bytes = {{.total = 90}};
  }
  return r;
}

TEST(ValidationTest, ComparesTheLowerQuartilesOfTheRounds) {
  const std::vector<Record> records = {record(0, "a", Clock::virtual_clock, 0.8), record(0, "a", Clock::wall, 1.0),
                                       record(0, "a", Clock::virtual_clock, 1.0), record(0, "a", Clock::wall, 1.25),
                                       record(0, "a", Clock::virtual_clock, 0.9), record(0, "a", Clock::wall, 0.75)};
  const std::vector<ValidatedCase> cases = validated_cases(records);
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_NEAR(cases[0].wall, 0.875, 1e-12);  // of 0.75, 1 and 1.25
  EXPECT_NEAR(cases[0].simulated, 0.85, 1e-12);
  EXPECT_NEAR(cases[0].error(), 0.85 / 0.875 - 1, 1e-12);
  EXPECT_NEAR(cases[0].round_spread, 0.5 / 0.875, 1e-12);
  ASSERT_EQ(cases[0].single_errors.size(), 3u);
  EXPECT_NEAR(cases[0].single_errors[1], -0.2, 1e-12);
  EXPECT_NEAR(cases[0].single_errors[2], 0.2, 1e-12);
  EXPECT_NEAR(cases[0].memory_errors.at(0), -0.1, 1e-12);
  EXPECT_EQ(cases[0].micro_batch, 8);
}

TEST(ValidationTest, ARoundThatWasDisturbedChangesNothing) {
  std::vector<Record> records;
  for (const double seconds : {1.0, 1.0, 2.5, 1.0}) records.push_back(record(0, "a", Clock::wall, seconds));
  for (const double seconds : {1.0, 1.0, 1.0, 1.9}) records.push_back(record(0, "a", Clock::virtual_clock, seconds));
  EXPECT_NEAR(validated_cases(records).at(0).error(), 0, 1e-12);
}

TEST(ValidationTest, HoldsTheWallClockAgainstItself) {
  std::vector<Record> records = {record(0, "a", Clock::virtual_clock, 1.0), record(0, "a", Clock::wall, 1.0),
                                 record(0, "a", Clock::wall, 1.25)};
  const Validation v = validate(validated_cases(records));
  EXPECT_EQ(v.rounds.cases, 2u);
  EXPECT_NEAR(v.rounds.median, (0.25 + 0.2) / 2, 1e-12);  // 1.25 / 1 - 1 and 1 / 1.25 - 1
  EXPECT_NEAR(v.halves.bias, 0.25, 1e-12);
  EXPECT_NE(to_table(v).find("the wall clock against itself"), std::string::npos);
  records.pop_back();  // one round says nothing of the others
  EXPECT_EQ(validate(validated_cases(records)).rounds.cases, 0u);
  EXPECT_EQ(to_table(validate(validated_cases(records))).find("against itself"), std::string::npos);
}

TEST(ValidationTest, CountsHowMuchOfItsOwnOrderTheWallClockKeeps) {
  std::vector<Record> records;
  // Rounds 0 and 2 are the even ones: there a, b and c take 1, 2 and 2.04 seconds. In round 1 b is the fastest.
  const double rounds[3][3] = {{1.0, 1.5, 1.0}, {2.0, 1.4, 2.0}, {2.04, 3.0, 2.04}};
  for (int k = 0; k < 3; ++k) {
    const std::string name(1, static_cast<char>('a' + k));
    for (const double seconds : rounds[k]) records.push_back(record(k, name, Clock::wall, seconds));
    records.push_back(record(k, name, Clock::virtual_clock, 1.0 + k));
  }
  const Validation v = validate(validated_cases(records));
  EXPECT_EQ(v.order.own_pairs, 2u);  // b and c differ by 2 % in the even rounds
  EXPECT_EQ(v.order.own_kept, 1u);   // a before c; not a before b
  EXPECT_NE(to_table(v).find("kept by its odd ones: 1 of 2 (50.0 %)"), std::string::npos) << to_table(v);
  EXPECT_EQ(to_json(v)["order"]["own_share"], 0.5);
}

TEST(ValidationTest, CountsThePairsWhoseOrderIsKept) {
  std::vector<Record> records;
  const double wall[] = {1.0, 2.0, 2.04}, simulated[] = {1.2, 1.1, 5.0};
  for (int k = 0; k < 3; ++k) {
    records.push_back(record(k, std::string(1, static_cast<char>('a' + k)), Clock::wall, wall[k]));
    records.push_back(record(k, std::string(1, static_cast<char>('a' + k)), Clock::virtual_clock, simulated[k]));
  }
  const Validation v = validate(validated_cases(records));
  EXPECT_EQ(v.order.pairs, 2u);  // b and c differ by 2 %
  EXPECT_EQ(v.order.kept, 1u);   // a is predicted slower than b
  EXPECT_EQ(v.by_system.size(), 3u);
  EXPECT_NEAR(v.time.largest, 5.0 / 2.04 - 1, 1e-12);
}

TEST(ValidationTest, RunsThatDifferInTheClockAloneAreOneCase) {
  std::vector<Record> records;
  for (const char* cluster : {"this machine", "flat:4"})
    for (const Clock clock : {Clock::wall, Clock::virtual_clock})
      for (const int microbatches : {4, 8}) {
        records.push_back(record(0, "a", clock, clock == Clock::wall ? 1.0 : 1.0 + 0.01 * microbatches));
        records.back().environment.validation.reset();
        records.back().cluster = cluster;
        records.back().microbatches = microbatches;
      }
  const std::vector<ValidatedCase> cases = validated_cases(records);
  ASSERT_EQ(cases.size(), 2u);  // no machine is flat:4
  EXPECT_EQ(cases[0].label, "a mlp, 4 micro-batches of 8");
  EXPECT_NEAR(cases[0].error(), 0.04, 1e-12);
  EXPECT_NEAR(cases[1].error(), 0.08, 1e-12);
}

TEST(ValidationTest, AGroupHasItsErrorsAndThePairsWithItsCases) {
  std::vector<Record> records;
  const double wall[] = {1.0, 2.0, 3.0}, simulated[] = {1.1, 3.2, 3.0};  // 1 before 2 is predicted wrong
  for (int k = 0; k < 3; ++k) {
    records.push_back(record(k, std::string(1, static_cast<char>('a' + k)), Clock::wall, wall[k]));
    records.push_back(record(k, std::string(1, static_cast<char>('a' + k)), Clock::virtual_clock, simulated[k]));
  }
  const Validation v = validate(validated_cases(records));
  EXPECT_EQ(v.by_system.at("a").order.pairs, 2u);
  EXPECT_EQ(v.by_system.at("a").order.kept, 2u);
  EXPECT_EQ(v.by_system.at("b").order.kept, 1u);
  EXPECT_EQ(v.by_workload.at("mlp").order.pairs, 3u);
  EXPECT_NEAR(v.by_system.at("b").time.median, 0.6, 1e-12);
  EXPECT_NEAR(v.by_system.at("b").memory.median, 0.1, 1e-12);
  EXPECT_EQ(to_json(v)["by_system"]["b"]["order"]["pairs"], 2);
}

TEST(ValidationTest, APairIsSureWhereAllRoundsOfTheWallClockAgree) {
  std::vector<Record> records;
  const auto add = [&](int number, Clock clock, std::initializer_list<double> rounds) {
    for (const double seconds : rounds)
      records.push_back(record(number, std::string(1, static_cast<char>('a' + number)), clock, seconds));
  };
  add(0, Clock::wall, {1.0, 1.0, 1.0});
  add(1, Clock::wall, {1.2, 1.2, 1.2});
  add(2, Clock::wall, {2.0, 2.0, 0.9});  // slower than both in two rounds of three
  for (int number = 0; number < 3; ++number) add(number, Clock::virtual_clock, {1.0 + 0.1 * number});
  const OrderKept order = validate(validated_cases(records)).order;
  EXPECT_EQ(order.pairs, 3u);
  EXPECT_EQ(order.kept, 3u);
  EXPECT_EQ(order.sure_pairs, 1u);
  EXPECT_EQ(order.sure_kept, 1u);
}

TEST(ValidationTest, ACaseBeyondTheLimitIsListedWithAReason) {
  std::vector<Record> records = {record(0, "a", Clock::wall, 1.0), record(0, "a", Clock::virtual_clock, 0.5)};
  records[0].timeline = {{0, "0F0", 0.0, 0.3}, {0, "0B0", 0.3, 1.0}};
  records[1].timeline = {{0, "0F0", 0.0, 0.25}, {0, "0B0", 0.25, 0.5}, {0, "send_activation 0->1 0", 0.25, 9}};
  records[1].timeline.back().to = 1;  // overlaps the ops
  const Validation v = validate(validated_cases(records));
  const std::string table = to_table(v);
  EXPECT_NE(table.find("beyond 8 %: 1 of 1 cases"), std::string::npos) << table;
  EXPECT_NE(table.find("B of the busiest rank: 700 ms measured, 250 ms predicted"), std::string::npos) << table;
  records.push_back(record(0, "a", Clock::wall, 3.0));  // the wall clock does not agree with itself
  EXPECT_NE(to_table(validate(validated_cases(records))).find("varied by"), std::string::npos);
}

}  // namespace
}  // namespace sluice
