#include "harness/exec/torch/stage/micro_batch_slices.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

// Stage 0 takes 4 micro-batches at once, stage 1 takes 6, stage 2 one.
StageGraph graph() {
  StageGraph g = chain(3);
  g.microbatches_per_op = {4, 6, 1};
  return g;
}

// Rows first, first + 1, ... of one element.
at::Tensor rows(std::int64_t first, std::int64_t count) {
  return at::arange(first, first + count, at::kDouble).view({count, 1});
}

TEST(MicroBatchSlices, IsTheMessagesPlaceInTheOpsOfBothEnds) {
  const MicroBatchSlice made = slice_of_message(graph(), StageId(0), Micro(3), StageId(1));
  EXPECT_EQ(made.op, Micro(1));
  EXPECT_EQ(made.number, 1);
  EXPECT_EQ(made.of, 2);
  const MicroBatchSlice taken = slice_of_message(graph(), StageId(1), Micro(3), StageId(0));
  EXPECT_EQ(taken.op, Micro(1));
  EXPECT_EQ(taken.number, 0);
  EXPECT_EQ(taken.of, 3);
  EXPECT_EQ(slices_per_op(graph(), StageId(1), StageId(2)), 6);
  EXPECT_TRUE(slice_of_message(graph(), StageId(2), Micro(5), StageId(1)).whole());
  EXPECT_EQ(slices_per_op(chain(2), StageId(0), StageId(1)), 1);
}

TEST(MicroBatchSlices, RowsGoThroughMessagesFromOneGroupingToAnother) {
  // 12 micro-batches of 2 samples.
  const StageGraph g = graph();
  std::vector<at::Tensor> taken(2);
  for (Micro m(5); m.value >= 0; --m.value) {  // in any order
    const MicroBatchSlice from = slice_of_message(g, StageId(0), m, StageId(1));
    const MicroBatchSlice to = slice_of_message(g, StageId(1), m, StageId(0));
    const at::Tensor made = rows(8 * from.op.value, 8);
    put_rows(taken[to.op.index()], rows_of(made, from), to);
  }
  EXPECT_TRUE(at::equal(taken[0], rows(0, 12)));
  EXPECT_TRUE(at::equal(taken[1], rows(12, 12)));
}

TEST(MicroBatchSlices, GradientsOfReadersThatCutThemDifferentlyAddUp) {
  at::Tensor sum;
  add_rows(sum, rows(10, 2), {.op = Micro(0), .number = 1, .of = 2});
  EXPECT_TRUE(at::equal(sum, at::tensor({0.0, 0.0, 10.0, 11.0}).view({4, 1})));
  add_rows(sum, rows(1, 4), {});
  add_rows(sum, rows(20, 2), {.op = Micro(0), .number = 0, .of = 2});
  EXPECT_TRUE(at::equal(sum, at::tensor({21.0, 23.0, 13.0, 15.0}).view({4, 1})));
}

TEST(MicroBatchSlices, AddingLeavesATensorAloneThatOthersHold) {
  const at::Tensor whole = rows(0, 4);
  at::Tensor sum = whole;
  add_rows(sum, rows(1, 2), {.op = Micro(0), .number = 0, .of = 2});
  EXPECT_TRUE(at::equal(whole, rows(0, 4)));
  EXPECT_TRUE(at::equal(sum, at::tensor({1.0, 3.0, 2.0, 3.0}).view({4, 1})));
}

}  // namespace
}  // namespace sluice
