#include "harness/train/segments.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/case/sweep.h"
#include "workloads/data/order.h"

namespace sluice {
namespace {

using Numbers = std::vector<std::int64_t>;

// A case, and of its preparation what segments read.
struct Subject {
  RunCase c;
  Prepared prepared;

  explicit Subject(const Json& more) {
    Json entry = {{"system", "pipedream"}, {"workload", "fmnist_mlp"}, {"clock", "virtual"}, {"batch", 12}};
    entry.update(more);
    c = expand_case({entry, in_file("s.json")}).at(0);
    prepared.system = &find_system(c.system, "test");
    prepared.microbatches_per_update = c.microbatches;
    prepared.micro_batch = c.batch / c.microbatches;
  }
  Segments segments(std::int64_t train_samples) const { return {c, prepared, train_samples}; }
};

TEST(Segments, DrainedOnesAreRunOneByOneAndCoverEveryEpochInItsOrder) {
  const Subject subject({{"epochs", 2}, {"evaluations_per_epoch", 3}});
  const Segments segments = subject.segments(125);  // 10 updates, and 5 samples that are dropped
  EXPECT_EQ(segments.updates_per_epoch(), 10);
  EXPECT_EQ(segments.total_updates(), 20);
  Numbers updates, order;
  for (const UndrainedSegment& segment : segments.undrained()) {
    updates.push_back(segment.updates());
    const Numbers samples = segments.samples(segment);
    EXPECT_EQ(static_cast<std::int64_t>(samples.size()), 12 * segment.updates());
    order.insert(order.end(), samples.begin(), samples.end());
  }
  EXPECT_EQ(updates, (Numbers{3, 3, 4, 3, 3, 4}));
  Numbers expected;
  for (const int epoch : {0, 1}) {
    const Numbers all = epoch_order(125, subject.c.seed, epoch);
    expected.insert(expected.end(), all.begin(), all.begin() + 120);
  }
  EXPECT_EQ(order, expected);
}

TEST(Segments, WithSnapshotsAllRunWithoutADrainBetween) {
  const Subject subject({{"epochs", 2}, {"evaluations_per_epoch", 3}, {"evaluation", "snapshot"}});
  const std::vector<UndrainedSegment> all = subject.segments(125).undrained();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].ends, (Numbers{3, 6, 10, 13, 16, 20}));
}

TEST(Segments, APartialUpdateEndsAnEpoch) {
  // 40 samples: 3 updates of 4 micro-batches of 3, one more micro-batch, and a sample that is dropped.
  const Subject subject({{"system", "pipedream_2bw"}, {"microbatches", 4}, {"epochs", 2}, {"leftover", "partial"}});
  const Segments segments = subject.segments(40);
  EXPECT_EQ(segments.updates_per_epoch(), 4);
  const UndrainedSegment first = segments.undrained().at(0);
  EXPECT_EQ(segments.samples(first).size(), 39u);
  EXPECT_EQ(segments.microbatches_of_program(0, first.updates()), 13);
  EXPECT_EQ(segments.iterations_of_program(first.updates()), 1);
}

TEST(Segments, ASynchronousProgramIsOneUpdatesAndRepeated) {
  const Subject subject({{"system", "gpipe"}, {"microbatches", 4}, {"steps", 7}});
  const Segments segments = subject.segments(30);
  ASSERT_EQ(segments.undrained().size(), 1u);
  EXPECT_EQ(segments.microbatches_of_program(0, 7), 4);
  EXPECT_EQ(segments.iterations_of_program(7), 7);
  EXPECT_GE(segments.samples(segments.undrained()[0]).size(), 84u);  // of several epochs
  EXPECT_TRUE(subject.segments(0).samples(segments.undrained()[0]).empty());
}

TEST(Segments, AnEpochShorterThanItsEvaluationsIsRejected) {
  const Subject subject({{"epochs", 1}, {"evaluations_per_epoch", 3}});
  EXPECT_THROW(subject.segments(30), InputError);
}

}  // namespace
}  // namespace sluice
