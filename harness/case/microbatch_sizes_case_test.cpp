// The setting microbatch_sizes: how it is read, what it decides, and with what it cannot be combined.
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/make_program.h"
#include "harness/case/predict_memory.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/sweep.h"
#include "harness/case/test_profiles.h"

namespace sluice {
namespace {

Entry entry_of(const Json& more) {
  Json entry = {{"system", "1f1b"},    {"workload", "fmnist_cnn"}, {"clock", "virtual"}, {"cluster", "flat:2"},
                {"costs", "analytic"}, {"train", false},           {"steps", 1}};
  entry.update(more);
  return {entry, in_file("test", "")};
}

template <class Action>
void expect_error(Action action, const std::string& text) {
  EXPECT_NE(error_of(action).find(text), std::string::npos) << error_of(action);
}

Prepared prepared(const Json& more) { return prepare(resolve(entry_of(more)), test_profiles()); }

TEST(MicrobatchSizesOfACaseTest, DecideBatchAndMicrobatches) {
  const RunCase c = resolve(entry_of({{"microbatch_sizes", {3, 3, 2, 2}}}));
  EXPECT_EQ(c.batch, 10);
  EXPECT_EQ(c.microbatches, 4);
  EXPECT_EQ(digest_of(resolve({to_json(c), in_file("test", "")})), digest_of(c));
  EXPECT_EQ(digest_of(resolve(entry_of({{"microbatch_sizes", {3, 3, 2, 2}}, {"batch", 10}, {"microbatches", 4}}))),
            digest_of(c));
  EXPECT_NE(digest_of(resolve(entry_of({{"microbatch_sizes", {3, 2, 3, 2}}}))), digest_of(c));
  EXPECT_EQ(record_options(c).at("microbatch_sizes"), "[3,3,2,2]");
}

TEST(MicrobatchSizesOfACaseTest, ThatAreAllTheSameAreThoseOfTheBatch) {
  const ReadCase same = read_case(entry_of({{"microbatch_sizes", {2, 2, 2, 2}}}));
  EXPECT_EQ(digest_of(same.c), digest_of(resolve(entry_of({{"batch", 8}, {"microbatches", 4}}))));
  EXPECT_TRUE(same.without_effect.empty()) << "they decide the batch";
  EXPECT_TRUE(read_case(entry_of({{"microbatch_sizes", {2, 2, 2, 2}}, {"batch", 8}, {"microbatches", 4}}))
                  .without_effect.contains("/microbatch_sizes"));
}

TEST(MicrobatchSizesOfACaseTest, MustBeWholeAndAgreeWithBatchAndMicrobatches) {
  const auto read = [](const Json& more) { return [more] { resolve(entry_of(more)); }; };
  expect_error(read({{"microbatch_sizes", {3, 0}}}), "/microbatch_sizes/1");
  expect_error(read({{"microbatch_sizes", {3, 1.5}}}), "/microbatch_sizes/1");
  expect_error(read({{"microbatch_sizes", Json::array()}}), "is an empty list");
  expect_error(read({{"microbatch_sizes", {3, 1}}, {"batch", 5}}), "is 5 samples, and microbatch_sizes add up to 4");
  expect_error(read({{"microbatch_sizes", {3, 1}}, {"microbatches", 4}}), "are 4, and microbatch_sizes has 2");
}

TEST(MicrobatchSizesOfACaseTest, AListIsOneValueOfASweep) {
  EXPECT_EQ(expand_case(entry_of({{"microbatch_sizes", {3, 1}}})).size(), 1u);
  const auto two = expand_case(entry_of({{"microbatch_sizes", Json::array({Json{3, 1}, Json{2, 1, 1}})}}));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].microbatch_sizes, (std::vector<std::int64_t>{2, 1, 1}));
}

TEST(MicrobatchSizesOfACaseTest, CostsAreThoseOfEachSize) {
  const Prepared p = prepared({{"microbatch_sizes", {3, 1}}});
  EXPECT_EQ(samples_per_update(p), 4);
  EXPECT_EQ(p.plan.micro_batch, 3);
  const Costs costs = costs_of(p);
  ASSERT_EQ(costs.of_size.size(), 2u);
  for (const std::int64_t size : {1, 3}) {
    const Prepared alone = prepared({{"batch", 2 * size}, {"microbatches", 2}, {"stages", "4"}});
    const Prepared both = prepared({{"microbatch_sizes", {3, 1}}, {"stages", "4"}});
    const Costs one = costs_of(alone), of_size = costs_of(both).of_size[size == 1 ? 0 : 1];
    for (std::size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(one.stages[s].forward, of_size.stages[s].forward);
      EXPECT_EQ(one.stages[s].input_gradient, of_size.stages[s].input_gradient);
      EXPECT_EQ(one.stages[s].weight_gradient, of_size.stages[s].weight_gradient);
    }
    EXPECT_EQ(one.edges.front().bytes, of_size.edges.front().bytes);
    EXPECT_EQ(stage_memory(alone, {}, {})[0].stash, stage_memory(both, {}, {})[0].of_size[size == 1 ? 0 : 1].stash);
  }
}

// On one device an update is the sum of its micro-batches.
TEST(MicrobatchSizesOfACaseTest, AnUpdateOfOneDeviceTakesTheSumOfItsMicroBatches) {
  const auto seconds = [](const Json& more) {
    const Prepared p = prepared(more);
    return simulated_update(p, program_of_updates(p)).value;
  };
  const auto of = [&](int size) {
    return seconds({{"system", "single_device"}, {"batch", 2 * size}, {"microbatches", 2}});
  };
  EXPECT_NEAR(seconds({{"system", "single_device"}, {"microbatch_sizes", {3, 1}}}), (of(3) + of(1)) / 2, 1e-12);
}

TEST(MicrobatchSizesOfACaseTest, EveryPipelineTakesTheSame) {
  const Json two = {{"cluster", "flat:4"}, {"data_parallel", 2}};
  const auto with = [&](const Json& sizes) {
    Json more = two;
    more["microbatch_sizes"] = sizes;
    return more;
  };
  const Prepared p = prepared(with({3, 1, 3, 1}));
  EXPECT_EQ(schedule_problem(p, 4).sizes.batch(), 4);
  expect_error([&] { prepared(with({3, 3, 1, 1})); }, "give every pipeline the same sizes");
}

// 16 samples in 4 micro-batches, the first of them in halves; with two pipelines, the first of each.
TEST(MicrobatchSizesOfACaseTest, ASystemThatSlicesGivesThoseOfTheHalves) {
  const Json sliced = {{"system", "autopipe"}, {"options", {{"sliced", 1}}}, {"batch", 16}, {"microbatches", 4}};
  const auto with = [&](const Json& more) {
    Json entry = sliced;
    entry.update(more);
    return entry_of(entry);
  };
  const ReadCase one = read_case(with({}));
  EXPECT_EQ(one.c.microbatch_sizes, (std::vector<std::int64_t>{2, 2, 4, 4, 4}));
  EXPECT_EQ(one.c.microbatches, 5);
  EXPECT_TRUE(one.without_effect.empty());
  EXPECT_EQ(digest_of(resolve({to_json(one.c), in_file("test", "")})), digest_of(one.c));
  EXPECT_EQ(resolve(with({{"data_parallel", 2}, {"ranks", 4}, {"cluster", "flat:4"}})).microbatch_sizes,
            (std::vector<std::int64_t>{2, 2, 4, 2, 2, 4}));
  EXPECT_EQ(resolve(with({{"batch", 12}})).microbatch_sizes, (std::vector<std::int64_t>{2, 1, 3, 3, 3}));
  EXPECT_TRUE(resolve(with({{"task", "inference"}})).microbatch_sizes.empty());
  expect_error(
      [&] {
        resolve(with({{"options", {{"sliced", 4}}}}));
      },
      "are 4 of 4 samples in a pipeline, and autopipe takes the first 4 in halves");
  expect_error([&] { resolve(with({{"batch", 4}})); }, "of at least 2 samples");
}

TEST(MicrobatchSizesOfACaseTest, AreRejectedWithAReasonWhereOneSizeIsAssumed) {
  const auto with = [](Json more) {
    more["microbatch_sizes"] = {3, 1, 3, 1};
    return [more] { prepared(more); };
  };
  expect_error(with({{"system", "pipedream"}}), "pipedream is asynchronous");
  expect_error(with({{"system", "pipedream_2bw"}}), "pipedream_2bw is asynchronous");
  for (const char* planner : {"asteroid", "dapple", "piper", "spp", "graphpipe"})
    expect_error(with({{"system", planner}}), "its planner's objective is for micro-batches of one size");
  expect_error(with({{"system", "seq1f1b"}, {"workload", "gpt_1.3b"}}), "seq1f1b cuts sequences into chunks");
  expect_error(with({{"task", "inference"}}), "inference takes micro-batches of one size");
  expect_error(with({{"tensor", 2}, {"workload", "gpt_1.3b"}}), "tensor-parallel groups");
  expect_error(with({{"weight_gradient", "batched"}}), "as one product");
}

}  // namespace
}  // namespace sluice
