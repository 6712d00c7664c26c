// The search for a learning rate: which cases it makes, what it chooses, and what names a tuned
// case.
#include "harness/train/tuning.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/settings.h"
#include "harness/case/sweep.h"

namespace sluice {
namespace {

Json tuned(const Json& more = Json::object()) {
  Json entry = {{"system", "pipedream"},
                {"workload", "fmnist_mlp"},
                {"ranks", 4},
                {"epochs", 3},
                {"optimizer", {{"learning_rate", "tuned"}}},
                {"tune", {{"learning_rate", {0.1, 0.01, 0.03}}, {"epochs", 1}}}};
  entry.update(more);
  return entry;
}
std::vector<RunCase> cases_of(const Json& entry) { return expand_case({entry, in_file("s.json", "/grid/0")}); }
std::string error_in(const Json& entry) {
  return error_of([&] { cases_of(entry); });
}

Record candidate(RecordOutcome outcome, std::optional<double> accuracy, std::optional<double> loss = 1.0) {
  Record r;
  r.outcome = outcome;
  r.workload_facts = {.metric = "accuracy"};
  r.curve = {{10, 1, 3.0, std::nullopt}, {20, 2, loss, accuracy}};
  r.digest = choice_name(outcome) + std::to_string(accuracy.value_or(0));
  return r;
}

// Of a search of one round.
Tuning choose(const RunCase& c, const std::vector<Record>& candidates) {
  RateSearch search(c);
  search.end_round(candidates);
  EXPECT_TRUE(search.over());
  return search.result();
}

TEST(Tuning, EveryRateOfTheGridIsACaseUnderASeedOfItsOwn) {
  const RunCase c = cases_of(tuned({{"evaluations_per_epoch", 4}})).at(0);
  const std::vector<RunCase> candidates = RateSearch(c).cases();
  ASSERT_EQ(candidates.size(), 3u);
  const double rates[] = {0.01, 0.03, 0.1};
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(candidates[k].purpose, Purpose::tune);
    EXPECT_EQ(candidates[k].optimizer.learning_rate, rates[k]);
    EXPECT_EQ(candidates[k].optimizer.momentum, c.optimizer.momentum);
    EXPECT_EQ(candidates[k].seed, 101u);
    EXPECT_EQ(candidates[k].epochs, 1);
    EXPECT_EQ(candidates[k].evaluations_per_epoch, 1);
    EXPECT_FALSE(candidates[k].tune);
  }
}

TEST(Tuning, SeedsShareTheirCandidates) {
  const auto cases = cases_of(tuned({{"seed", {1, 2}}}));
  ASSERT_EQ(cases.size(), 2u);
  for (std::size_t k = 0; k < 3; ++k)
    EXPECT_EQ(digest_of(RateSearch(cases[0]).cases()[k]), digest_of(RateSearch(cases[1]).cases()[k]));
}

TEST(Tuning, TheDigestTellsTunedFromGivenAndSearchesApart) {
  const auto name = [](const Json& entry) { return digest_of(cases_of(entry).at(0)); };
  const std::string own = name(tuned());
  EXPECT_NE(own, name(tuned({{"optimizer", {{"learning_rate", 0.03}}}})));
  EXPECT_NE(own, name(tuned({{"tune", {{"learning_rate", {0.1, 0.01}}, {"epochs", 1}}}})));
  EXPECT_NE(own, name(tuned({{"tune", {{"learning_rate", {0.1, 0.01, 0.03}}, {"epochs", 1}, {"seed", 7}}}})));
  // The order of the grid and what was chosen do not make another experiment.
  EXPECT_EQ(own, name(tuned({{"tune", {{"learning_rate", {0.01, 0.03, 0.1}}, {"epochs", 1}}}})));
  const RunCase c = cases_of(tuned()).at(0);
  EXPECT_EQ(own, digest_of(with_chosen_rate(c, {.chosen = 0.03})));
  // A candidate is not the measurement at its rate.
  RunCase measured = RateSearch(c).cases()[0];
  measured.purpose = Purpose::measure;
  EXPECT_NE(digest_of(RateSearch(c).cases()[0]), digest_of(measured));
}

TEST(Tuning, EqualAndTunedStandInOneEntry) {
  const auto cases =
      cases_of(tuned({{"optimizer", {{"learning_rate", {0.02, "tuned"}}, {"momentum", 0.5}}}, {"seed", {1, 2}}}));
  ASSERT_EQ(cases.size(), 4u);
  int with_search = 0;
  for (const RunCase& c : cases) {
    EXPECT_EQ(c.optimizer.momentum, 0.5);
    with_search += c.tune.has_value();
    if (!c.tune) {
      EXPECT_EQ(c.optimizer.learning_rate, 0.02);
    }
  }
  EXPECT_EQ(with_search, 2);
}

TEST(Tuning, TheBestFinalMetricWinsAndTheLowerOfEqualRates) {
  const RunCase c = cases_of(tuned()).at(0);
  const auto chosen = [&](const std::vector<Record>& records) { return choose(c, records).chosen; };
  EXPECT_EQ(
      chosen({candidate(RecordOutcome::ok, 0.7), candidate(RecordOutcome::ok, 0.9), candidate(RecordOutcome::ok, 0.8)}),
      0.03);
  EXPECT_EQ(
      chosen({candidate(RecordOutcome::ok, 0.7), candidate(RecordOutcome::ok, 0.9), candidate(RecordOutcome::ok, 0.9)}),
      0.03);
  EXPECT_EQ(
      chosen({candidate(RecordOutcome::ok, 0.9), candidate(RecordOutcome::ok, 0.9), candidate(RecordOutcome::ok, 0.9)}),
      0.01);
  // However good a diverged or failed run was before it ended.
  EXPECT_EQ(chosen({candidate(RecordOutcome::ok, 0.2), candidate(RecordOutcome::diverged, 0.9),
                    candidate(RecordOutcome::failed, 0.9)}),
            0.01);
  EXPECT_EQ(chosen({candidate(RecordOutcome::timed_out, 0.9), candidate(RecordOutcome::ok, 0.1),
                    candidate(RecordOutcome::ok, 0.2)}),
            0.1);
  // Where nothing learns, the rate that shows it.
  EXPECT_EQ(chosen({candidate(RecordOutcome::failed, {}), candidate(RecordOutcome::diverged, {}),
                    candidate(RecordOutcome::diverged, {})}),
            0.03);
  EXPECT_EQ(chosen({candidate(RecordOutcome::failed, {}), candidate(RecordOutcome::failed, {}),
                    candidate(RecordOutcome::failed, {})}),
            0.01);
}

TEST(Tuning, LowerMayBeBetterAndWithoutATestSetTheLossDecides) {
  const RunCase c = cases_of(tuned()).at(0);
  std::vector<Record> records = {candidate(RecordOutcome::ok, 40), candidate(RecordOutcome::ok, 20),
                                 candidate(RecordOutcome::ok, 30)};
  for (Record& r : records) r.workload_facts = {.metric = "perplexity", .metric_direction = MetricDirection::down};
  EXPECT_EQ(choose(c, records).chosen, 0.03);
  EXPECT_EQ(choose(c, records).criterion, "perplexity on the validation part");
  records = {candidate(RecordOutcome::ok, {}, 0.5), candidate(RecordOutcome::ok, {}, 0.6),
             candidate(RecordOutcome::ok, {}, 0.4)};
  EXPECT_EQ(choose(c, records).chosen, 0.1);
  EXPECT_EQ(choose(c, records).criterion, "training loss");
}

TEST(Tuning, TheLossThatDecidesIsOfTheLastTenth) {
  const RunCase c = cases_of(tuned()).at(0);
  std::vector<Record> records = {candidate(RecordOutcome::ok, {}, 0.5), candidate(RecordOutcome::ok, {}, 0.5),
                                 candidate(RecordOutcome::ok, {}, 0.5)};
  for (std::size_t k = 0; k < 3; ++k) {
    records[k].curve.clear();
    // The third ends with one lucky batch, the second is the best on the whole.
    std::vector<double> losses(20, 1);  // the last tenth: two of 20
    losses[18] = k == 1 ? 0.2 : 0.6;
    losses[19] = k == 2 ? 0.1 : 0.3;
    for (std::size_t i = 0; i < losses.size(); ++i)
      records[k].curve.push_back({.step = static_cast<std::int64_t>(i + 1), .seconds = 1, .loss = losses[i]});
  }
  EXPECT_EQ(choose(c, records).chosen, 0.03);
}

TEST(Tuning, WhatWasTriedIsRecorded) {
  const RunCase c = cases_of(tuned()).at(0);
  const Tuning tuning = choose(c, {candidate(RecordOutcome::ok, 0.7), candidate(RecordOutcome::ok, 0.9),
                                   candidate(RecordOutcome::diverged, 0.2)});
  EXPECT_EQ(tuning.grid, (std::vector{0.01, 0.03, 0.1}));
  EXPECT_EQ(tuning.seed, 101u);
  EXPECT_EQ(tuning.epochs, 1);
  EXPECT_EQ(tuning.results.at(1).value, 0.9);
  EXPECT_EQ(tuning.results.at(2).value, std::nullopt);
  EXPECT_EQ(tuning.results.at(2).outcome, RecordOutcome::diverged);
  EXPECT_FALSE(tuning.results.at(0).digest.empty());
}

TEST(Tuning, RoundsKeepTheRatesThatAreBestInTheMeanOverTheSeeds) {
  const RunCase c = cases_of(tuned({{"tune",
                                     {{"learning_rate", {0.01, 0.03, 0.1, 0.3}},
                                      {"seed", {102, 101}},
                                      {"rounds", {{{"steps", 50}, {"keep", 2}}, {{"epochs", 1}, {"keep", 1}}}}}}}))
                        .at(0);
  RateSearch search(c);
  const std::vector<RunCase> first = search.cases();
  ASSERT_EQ(first.size(), 8u);
  EXPECT_EQ(first[0].seed, 101u);
  EXPECT_EQ(first[1].seed, 102u);
  EXPECT_EQ(first[1].steps, 50);
  EXPECT_EQ(first[1].epochs, 0);
  using enum RecordOutcome;
  // Means 0.5, 0.65 and 0.6; the best single training is of the rate that diverges with the other seed.
  search.end_round(std::vector{candidate(ok, 0.9), candidate(ok, 0.1), candidate(ok, 0.7), candidate(ok, 0.6),
                               candidate(ok, 0.6), candidate(ok, 0.6), candidate(ok, 0.95), candidate(diverged, 0.95)});
  ASSERT_FALSE(search.over());
  const std::vector<RunCase> second = search.cases();
  ASSERT_EQ(second.size(), 4u);
  EXPECT_EQ(second[0].optimizer.learning_rate, 0.03);
  EXPECT_EQ(second[2].optimizer.learning_rate, 0.1);
  EXPECT_EQ(second[2].epochs, 1);
  EXPECT_EQ(second[2].steps, 0);
  search.end_round(std::vector{candidate(ok, 0.7), candidate(ok, 0.7), candidate(ok, 0.8), candidate(ok, 0.7)});
  const std::vector<RunCase> third = search.cases();
  ASSERT_EQ(third.size(), 2u);  // as long as the case: 3 epochs
  EXPECT_EQ(third[0].epochs, 3);
  search.end_round(std::vector{candidate(ok, 0.7), candidate(ok, 0.9)});
  EXPECT_TRUE(search.over());
  const Tuning& tuning = search.result();
  EXPECT_EQ(tuning.chosen, 0.1);
  EXPECT_EQ(tuning.epochs, 3);
  ASSERT_EQ(tuning.rounds.size(), 2u);
  EXPECT_EQ(tuning.rounds[0].keep, 2);
  ASSERT_EQ(tuning.results.size(), 4u + 2 + 1);
  EXPECT_NEAR(*tuning.results[1].value, 0.65, 1e-12);
  EXPECT_EQ(tuning.results[3].outcome, diverged);
  EXPECT_EQ(tuning.results[3].value, std::nullopt);
  EXPECT_EQ(tuning.results[6].round, 2);
  EXPECT_NEAR(*tuning.results[6].value, 0.8, 1e-12);
}

TEST(Tuning, ARoundKeepsNoRateThatDoesNotCountUnlessNoneDoes) {
  const RunCase c =
      cases_of(
          tuned({{"tune",
                  {{"learning_rate", {0.01, 0.03, 0.1}}, {"rounds", {{{"steps", 50}, {"keep", 2}}}}, {"epochs", 1}}}}))
          .at(0);
  using enum RecordOutcome;
  RateSearch one(c), none(c);
  one.end_round(std::vector{candidate(failed, {}), candidate(ok, 0.2), candidate(diverged, {})});
  ASSERT_EQ(one.cases().size(), 1u);
  EXPECT_EQ(one.cases()[0].optimizer.learning_rate, 0.03);
  none.end_round(std::vector{candidate(failed, {}), candidate(diverged, {}), candidate(diverged, {})});
  ASSERT_EQ(none.cases().size(), 1u);
  EXPECT_EQ(none.cases()[0].optimizer.learning_rate, 0.03);
}

TEST(Tuning, BadInputIsRejectedWithItsPlace) {
  const std::string at = "s.json: /grid/0/";
  const auto tune = [](const Json& value) { return tuned({{"tune", value}}); };
  Json entry = tuned();
  entry.erase("tune");
  EXPECT_TRUE(error_in(entry).starts_with(at + "tune: is missing")) << error_in(entry);
  EXPECT_EQ(error_in(tune({{"learning_rate", Json::array()}})),
            at + "tune/learning_rate: must be a list of at least one rate");
  EXPECT_EQ(error_in(tune({{"learning_rate", {0.1, 0}}})), at + "tune/learning_rate: 0 is not a number above 0");
  EXPECT_EQ(error_in(tune({{"learning_rate", {0.1}}, {"seed", 1}})),
            at + "tune/seed: 1 is also a seed that is measured; tune on a seed of its own, e.g. 101");
  EXPECT_EQ(error_in(tune({{"learning_rate", {0.1}}, {"epochs", 1}, {"steps", 9}})),
            at + "tune/steps: give epochs or steps, not both");
  EXPECT_EQ(error_in(tune({{"learning_rate", {0.1}}, {"epoch", 1}})),
            at + "tune/epoch: unknown key 'epoch'; did you mean 'epochs'?");
  const auto rounds = [&](const Json& list) { return tune({{"learning_rate", {0.1, 0.2}}, {"rounds", list}}); };
  EXPECT_EQ(error_in(rounds({{{"keep", 1}}})),
            at + "tune/rounds/0/steps: is missing; give the round's steps or epochs");
  EXPECT_EQ(error_in(rounds({{{"steps", 5}, {"keep", 2}}})),
            at + "tune/rounds/0/keep: 2 of 2 rates drops none; keep fewer than the round trains");
  EXPECT_EQ(error_in(rounds({{{"epochs", 3}, {"keep", 1}}})),
            at + "tune/rounds: round 2 is not longer than the one before it; give rounds of rising length, those in "
                 "steps first; the last is as long as the search");
  EXPECT_EQ(error_in(tune({{"learning_rate", {0.1}}, {"seed", {101, 1}}})),
            at + "tune/seed: 1 is also a seed that is measured; tune on a seed of its own, e.g. 101");
  EXPECT_EQ(error_in(tune({{"learning_rate", {0.1}}, {"seed", Json::array()}})),
            at + "tune/seed: must be a seed or a list of at least one");
  EXPECT_EQ(error_in(tuned({{"optimizer", {{"learning_rate", "tunde"}}}})),
            at + "optimizer/learning_rate: must be a number, is string");
  EXPECT_EQ(error_in(tuned({{"clock", "virtual"}, {"epochs", 0}, {"steps", 4}, {"train", false}})),
            at + "optimizer/learning_rate: only training can be tuned");
  EXPECT_TRUE(error_in(tuned({{"purpose", "boundary"}, {"epochs", 0}, {"steps", 5}}))
                  .starts_with(at + "purpose: a divergence boundary needs a grid of rates"));
}

TEST(Boundary, IsAGridOfRatesThatKeepsEveryLoss) {
  const Json entry = {{"system", {"single_device", "*asynchronous"}},
                      {"workload", "fmnist_mlp"},
                      {"purpose", "boundary"},
                      {"steps", 20},
                      {"optimizer", {{"learning_rate", {0.01, 0.1}}}}};
  const auto cases = cases_of(entry);
  EXPECT_GE(cases.size(), 4u);
  for (const RunCase& c : cases) {
    EXPECT_EQ(c.purpose, Purpose::boundary);
    EXPECT_NE(c.system, "gpipe");
    RunCase measured = c;
    measured.purpose = Purpose::measure;
    EXPECT_NE(digest_of(c), digest_of(measured));
  }
  Json epochs = entry;
  epochs.erase("steps");
  EXPECT_TRUE(error_in(epochs).starts_with("s.json: /grid/0/steps: a divergence boundary needs"));
}

TEST(Shard, CoversEveryCaseOnce) {
  const auto all = cases_of(tuned({{"seed", {1, 2, 3, 4, 5, 6, 7}}, {"optimizer", {{"learning_rate", 0.1}}}}));
  for (const std::size_t n : {1, 2, 3, 7, 9}) {
    std::multiset<std::uint64_t> seeds;
    for (std::size_t i = 0; i < n; ++i)
      for (const RunCase& c : shard(all, std::to_string(i) + "/" + std::to_string(n))) seeds.insert(c.seed);
    EXPECT_EQ(seeds, (std::multiset<std::uint64_t>{1, 2, 3, 4, 5, 6, 7})) << n;
  }
}

TEST(Shard, RejectsWhatIsNotAShard) {
  const auto all = cases_of(tuned());
  for (const char* text : {"", "1", "/", "0/", "/2", "2/2", "3/2", "0/0", "-1/2", "0/-1", "a/2", "0/2x", "0x/2", " 0/2",
                           "1/18446744073709551615"})
    EXPECT_TRUE(error_of([&] { shard(all, text); }).starts_with("--shard: '")) << text;
}

TEST(Shard, SearchesThatShareATrainingStayTogether) {
  const auto search = [](const Json& rates) {
    return cases_of(tuned({{"seed", 1}, {"tune", {{"learning_rate", rates}, {"epochs", 1}}}})).front();
  };
  // The third search needs a training of the first and one of the second.
  const std::vector<RunCase> all = {search({0.01, 0.02}), search({0.04, 0.05}), search({0.02, 0.04}),
                                    search({0.07, 0.08})};
  EXPECT_EQ(shard(all, "0/2").size(), 3u);
  EXPECT_EQ(shard(all, "1/2").size(), 1u);
}

TEST(Shard, ATunedCaseStaysWithItsSearch) {
  const auto all = cases_of(tuned({{"system", {"pipedream", "gpipe", "one_f_one_b"}},
                                   {"optimizer", {{"learning_rate", {0.02, "tuned"}}}},
                                   {"seed", {1, 2, 3}}}));
  ASSERT_EQ(all.size(), 18u);
  std::size_t cases = 0;
  std::map<std::string, int> shard_of;
  for (int i = 0; i < 4; ++i)
    for (const RunCase& c : shard(all, std::to_string(i) + "/4")) {
      ++cases;
      if (!c.tune) continue;
      const std::string search = digest_of(RateSearch(c).cases()[0]);
      EXPECT_EQ(shard_of.emplace(search, i).first->second, i);
    }
  EXPECT_EQ(cases, 18u);
  EXPECT_EQ(shard_of.size(), 3u);
}

}  // namespace
}  // namespace sluice
