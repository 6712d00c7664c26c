// Text on its way into a session and out of it: limits, batches, token accuracy, greedy decoding,
// BLEU.
#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/base/json.h"
#include "harness/case/feed.h"
#include "harness/case/sweep.h"
#include "harness/case/test_profiles.h"
#include "harness/run/run_case.h"
#include "harness/tests/test_support.h"
#include "workloads/data/test_files.h"
#include "workloads/data/text.h"

namespace sluice {
namespace {

TEST(TextLimits, AreWhatTheModelDeclares) {
  const TextLimits translation = text_limits(test_gnmt());
  EXPECT_EQ(translation.source_length, 5);
  EXPECT_EQ(translation.target_length, 6);
  EXPECT_EQ(translation.source_vocabulary, 15);
  EXPECT_EQ(translation.target_vocabulary, 15);
  const TextLimits sentiment = text_limits(test_residual_lstm());
  EXPECT_EQ(sentiment.source_length, 6);
  EXPECT_EQ(sentiment.target_length, 0);
  EXPECT_EQ(text_limits(test_cnn()).source_length, 0);
}

std::shared_ptr<DataSplit> two_pairs() {
  auto split = std::make_shared<DataSplit>();
  for (Dataset* part : {&split->train, &split->test}) {
    part->samples = 2;
    part->columns = {{.length = 3, .ids = {4, kEnd, 0, 5, 6, kEnd}},
                     {.length = 4, .ids = {kBegin, 4, 5, 0, kBegin, 6, 0, 0}}};
    part->targets = {.length = 4, .ids = {4, 5, kEnd, kNoTarget, 6, kEnd, kNoTarget, kNoTarget}};
  }
  split->references = {{"four", "five"}, {"six"}};
  split->words = [](std::span<const std::int32_t> ids) {
    static const std::vector<std::string> names{"", "", "", "", "four", "five", "six"};
    std::vector<std::string> words;
    for (const std::int32_t id : ids) words.push_back(names.at(id));
    return words;
  };
  return split;
}

TEST(Feed, FillsTokensAndTargetsInTheOrderAskedFor) {
  const DataFeed feed = feed_of(two_pairs());
  const std::vector<std::int64_t> order{1, 0};
  std::vector<std::int64_t> source(6), targets(8);
  feed.tokens(true, 0, order, source.data());
  EXPECT_EQ(source, (std::vector<std::int64_t>{5, 6, kEnd, 4, kEnd, 0}));
  feed.classes(false, order, targets.data());
  EXPECT_EQ(targets, (std::vector<std::int64_t>{6, kEnd, -100, -100, 4, 5, kEnd, -100}));
  ASSERT_TRUE(feed.decoding);
  EXPECT_EQ(feed.decoding->samples, 2);
}

TEST(Feed, WhatChoosesIsNotTheTestPart) {
  auto split = std::make_shared<DataSplit>(*two_pairs());
  split->validation = split->train;
  split->validation.samples = 1;
  const DataFeed feed = feed_of(split, HeldOut::validation);
  EXPECT_EQ(feed.test_samples, 1);
  EXPECT_FALSE(feed.decoding);
  std::vector<std::int64_t> targets(4);
  split->validation.targets.ids[0] = 6;
  feed.classes(false, std::vector<std::int64_t>{0}, targets.data());
  EXPECT_EQ(targets[0], 6);
}

TEST(Feed, ScoresWhatWasDecodedByBleu) {
  const DataFeed feed = feed_of(two_pairs());
  // Two words of three, one pair and no longer n-gram: no 3-gram at all makes it 0.
  EXPECT_EQ(feed.decoding->score(std::vector<std::vector<std::int32_t>>{{4, 5}, {5}}), 0);
  // Precisions 3/6, 1/4, (1/2)/2 and (1/4)/1, smoothed where nothing matches.
  EXPECT_NEAR(feed.decoding->score(std::vector<std::vector<std::int32_t>>{{4, 5, 5, 5}, {6, 6}}),
              100 * std::pow(3.0 / 6 * 1 / 4 * 0.5 / 2 * 0.25 / 1, 0.25), 1e-9);
}

// A model that answers every token with next[token], whatever the source is: identity embedding,
// attention that adds nothing, and a head that is the table.
struct Table {
  static constexpr std::int64_t kWords = 7;
  ModelGraph model{.name = "table",
                   .inputs = {{.shape = {3}, .is_token_ids = true}, {.shape = {4}, .is_token_ids = true}},
                   .layers = {{"source", Embedding{kWords, kWords}, {-1}},
                              {"target", Embedding{kWords, kWords}, {-2}},
                              {"attention", CrossAttention{kWords, kWords, 1}, {1, 0, -1}},
                              {"add", Add{}, {1, 2}},
                              {"head", Linear{kWords, kWords, false}, {3}},
                              {"loss", CrossEntropyLoss{}, {4}}}};

  std::vector<std::vector<std::vector<double>>> weights(const std::map<std::int64_t, std::int64_t>& next) const {
    std::vector<std::vector<std::vector<double>>> all;
    for (const LayerSpec& layer : model.layers) {
      auto& tensors = all.emplace_back();
      for (const ParameterSpec& parameter : parameters(layer))
        tensors.emplace_back(static_cast<std::size_t>(elements(parameter.shape)), 0.0);
    }
    const auto at = [](std::int64_t row, std::int64_t column) {
      return static_cast<std::size_t>(row * kWords + column);
    };
    for (std::int64_t i = 0; i < kWords; ++i) all[1][0][at(i, i)] = 1;
    for (const auto& [from, to] : next) all[4][0][at(to, from)] = 1;
    return all;
  }

  Evaluation evaluate(const std::map<std::int64_t, std::int64_t>& next, const DataFeed& feed, int ranks) const {
    const TestSetup setup("gpipe", {}, model, ranks, 2, 2);
    SessionSpec spec = setup.spec({});
    spec.feed = feed;
    spec.initial = weights(next);
    return make_session(spec)->evaluate();
  }
};

TEST(Decoding, FollowsTheLikeliestTokenUntilTheEnd) {
  DataFeed feed = feed_of(two_pairs());
  std::vector<std::vector<std::int32_t>> seen;
  feed.decoding->score = [&](std::span<const std::vector<std::int32_t>> generated) {
    seen.assign(generated.begin(), generated.end());
    return 12.5;
  };
  for (const int ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    const Evaluation e = Table().evaluate({{kBegin, 4}, {4, 5}, {5, kEnd}}, feed, ranks);
    EXPECT_EQ(seen, (std::vector<std::vector<std::int32_t>>{{4, 5}, {4, 5}}));
    EXPECT_EQ(e.extra.at("bleu"), 12.5);
    // Without an end: as long as the model's input.
    Table().evaluate({{kBegin, 4}, {4, 6}, {6, 4}}, feed, ranks);
    EXPECT_EQ(seen, (std::vector<std::vector<std::int32_t>>{{4, 6, 4, 6}, {4, 6, 4, 6}}));
  }
}

TEST(Decoding, StopsAtTheSamplesAskedFor) {
  DataFeed feed = feed_of(two_pairs());
  feed.decoding->samples = 1;
  std::size_t count = 0;
  feed.decoding->score = [&](auto generated) { return count = generated.size(), 0.0; };
  Table().evaluate({{kBegin, 4}}, feed, 1);
  EXPECT_EQ(count, 1u);
}

TEST(TokenAccuracy, IsOverRealPositions) {
  // Right at <s> 4 and 5 of the first, wrong at <s> of the second, right at its 6: 4 of 5; padding
  // does not count.
  const Evaluation e = Table().evaluate({{kBegin, 4}, {4, 5}, {5, kEnd}, {6, kEnd}}, feed_of(two_pairs()), 2);
  EXPECT_DOUBLE_EQ(e.accuracy, 0.8);
}

Record run_workload(const std::string& workload, const std::string& system, int ranks) {
  const Json entry = {{"system", system},
                      {"workload", workload},
                      {"ranks", ranks},
                      {"clock", "virtual"},
                      {"costs", "analytic"},
                      {"epochs", 1},
                      {"cluster", "flat:" + std::to_string(ranks)}};
  return run_case(expand_case({entry, in_file("test")}).at(0), test_profiles(), {});
}

using TextWorkloads = DataFiles;

TEST_F(TextWorkloads, RecordTokenAccuracyAndBleu) {
  std::filesystem::create_directories(at("libreoffice-de"));
  std::vector<std::pair<std::string, std::string>> train, test;
  for (char a = 'a'; a <= 'z'; ++a)
    for (char b = 'a'; b < 'f'; ++b)
      train.emplace_back(std::string{'x', ' ', a, ' ', b, ' ', 'y'}, std::string{'u', ' ', b, ' ', a, ' ', 'v'});
  for (char a = 'a'; a <= 'e'; ++a)
    test.emplace_back(std::string{'y', ' ', a, ' ', 'x'}, std::string{'v', ' ', a, ' ', 'u'});
  put("libreoffice-de/sw.mo", mo_bytes(train));
  put("libreoffice-de/sd.mo", mo_bytes(test));
  ::setenv("SLUICE_DATA", folder_.c_str(), 1);
  const Record record = run_workload("translation_transformer", "one_f_one_b", 3);
  ::unsetenv("SLUICE_DATA");
  ASSERT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
  EXPECT_EQ(record.updates_per_epoch, 130 / 64);
  ASSERT_EQ(record.curve.size(), 1u);
  EXPECT_GE(*record.curve[0].metric, 0);
  EXPECT_LE(*record.curve[0].metric, 1);
  EXPECT_GE(record.curve[0].extra.at("bleu"), 0);
}

TEST(Sentiment, LearnsInAnEpoch) {
  Record record;
  try {
    record = run_workload("sentiment_transformer", "one_f_one_b", 4);
  } catch (const InputError& e) {
    GTEST_SKIP() << "the movie reviews are not on this machine: " << e.what();
  }
  ASSERT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
  EXPECT_GT(*record.curve.back().metric, 0.6);  // 0.51 would be the larger class
}

}  // namespace
}  // namespace sluice
