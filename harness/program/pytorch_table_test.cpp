#include "harness/program/pytorch_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

Program program_of(const Schedule& schedule, const Placement& placement, const WeightRule& rule = {}) {
  return lower(schedule, chain(static_cast<int>(placement.stages.size())), placement, rule);
}

std::string table(const std::string& text, const Placement& placement, const WeightRule& rule = {}) {
  const Schedule schedule = parse_schedule(text);
  return pytorch_table(schedule, program_of(schedule, placement, rule), "test").csv;
}

TEST(PyTorchTableTest, HasALineForEveryRankAndACellForEveryStep) {
  EXPECT_EQ(table("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1I0 1W0 1F1 1B1\n", one_stage_per_rank(2)),
            "0F0,0F1,0B0,0B1\n1F0,1I0,1W0,1F1,1B1\n");
  EXPECT_EQ(table("rank 0: 0F0 (0F1;0B0) 0B1\n", one_stage_per_rank(1)), "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
}

TEST(PyTorchTableTest, RejectsAStageOnTwoRanks) {
  const Placement two{.stages = {{Rank(0), Rank(1)}}};
  EXPECT_EQ(error_of([&] { table("rank 0: 0F0 0B0\nrank 1: 0F1 0B1\n", two); }),
            "test: stage 0 is on ranks 0 and 1: PyTorch gives a stage one rank; choose a system whose schedule PyTorch "
            "can run: 1f1b, interleaved_1f1b, zero_bubble, gpipe, hanayo, ...");
}

TEST(PyTorchTableTest, NamesWhatItLoses) {
  const Schedule schedule = parse_schedule("rank 0: 0F0 0B0\n");
  const Program program = program_of(schedule, one_stage_per_rank(1), {.recompute = WeightRule::Recompute::newest});
  const PyTorchTable made = pytorch_table(schedule, program, "test");
  ASSERT_EQ(made.lost.size(), 1u);
  EXPECT_TRUE(made.lost.front().starts_with("recomputation")) << made.lost.front();
}

TEST(PyTorchTableTest, EmptyCellsAndBlanksAreSteps) {
  const OrderFromTable read = read_pytorch_table("0F0, 0F1,,\"0B0\",0B1\r\n,1F0,1B0,1F1,1B1,\n\n", "t.csv");
  EXPECT_EQ(to_text(read.schedule), "rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n");
  EXPECT_EQ(read.schedule.microbatches, 2);
  EXPECT_EQ(read.graph.stages(), 2);
  EXPECT_FALSE(read.communication);
}

// The example of both ranks of a pipeline with one stage each, with messages and sharded weights.
const char* const kWithMessages =
    "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n"
    "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1RESHARD\n";

std::vector<std::string> faults_with(const std::string& cell, const std::string& instead) {
  std::string text = kWithMessages;
  text.replace(text.find(cell), cell.size(), instead);
  std::vector<std::string> faults;
  for (const Violation& fault : read_pytorch_table(text, "t.csv").faults) faults.push_back(fault.text);
  return faults;
}

TEST(PyTorchTableTest, MessagesAreChecked) {
  const OrderFromTable read = read_pytorch_table(kWithMessages, "t.csv");
  EXPECT_TRUE(read.communication);
  EXPECT_TRUE(read.faults.empty());
  using Faults = std::vector<std::string>;
  EXPECT_EQ(faults_with("1RECV_F0,", ""), Faults{"rank 1: 1RECV_F0 is missing"});
  EXPECT_EQ(faults_with("0SEND_F0", "0SEND_F0,0SEND_F0"), Faults{"rank 0: 0SEND_F0 is there twice"});
  EXPECT_EQ(faults_with("0F0,0SEND_F0", "0SEND_F0,0F0"), Faults{"rank 0: 0SEND_F0 comes before 0F0"});
  EXPECT_EQ(faults_with("1RECV_F0,1F0", "1F0,1RECV_F0"), Faults{"rank 1: 1RECV_F0 comes after 1F0"});
  EXPECT_EQ(faults_with("1SEND_B0", "1SEND_B0,1SEND_F0"),
            Faults{"rank 1: 1SEND_F0 belongs to no op of this rank that needs it"});
  EXPECT_EQ(faults_with("0SEND_F0,0RECV_B0", "0WAIT_SEND_F0,0SEND_F0,0RECV_B0"),
            (Faults{"rank 0: a wait for 0SEND_F0 stands where that is not under way"}));
  EXPECT_EQ(faults_with(",1WAIT_SEND_B0", ""),
            Faults{"rank 1: 1SEND_B0 has no wait, as other sends of the table have"});
}

std::vector<std::string> faults_of(const std::string& table) {
  std::vector<std::string> faults;
  for (const Violation& fault : read_pytorch_table(table, "t.csv").faults) faults.push_back(fault.text);
  return faults;
}

// Rank 1 takes the second activation first, out of a queue that has no tags: it computes 1F0 with micro-batch 1.
TEST(PyTorchTableTest, AMessageOutOfPlaceIsNamed) {
  EXPECT_EQ(faults_of("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                      "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n"),
            std::vector<std::string>{"channel 0 -> 1: message 0 is 0SEND_F0, but its receiver expects 1RECV_F1"});
}

// pytorch/pytorch#172668: interleaved 1F1B on two ranks whose receives stand before the op that needs them. Rank 0
// sends 0F1 while rank 1, not there yet, sends it 1F0: it ends where sends are buffered, and hung over two nodes.
TEST(PyTorchTableTest, RanksThatWaitWhereASendWaitsForItsReceiveAreNamed) {
  EXPECT_EQ(
      faults_of(
          "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,0F2,0SEND_F2,2RECV_B0,2B0,2SEND_B0,"
          "0F3,0SEND_F3,2RECV_B1,2B1,2SEND_B1,2RECV_F2,2F2,2SEND_F2,0RECV_B0,0B0,2RECV_F3,2F3,2SEND_F3,0RECV_B1,0B1,"
          "2RECV_B2,2B2,2SEND_B2,2RECV_B3,2B3,2SEND_B3,0RECV_B2,0B2,0RECV_B3,0B3\n"
          "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,3F1,3B1,3SEND_B1,1RECV_F2,"
          "1F2,1SEND_F2,1RECV_B0,1B0,1SEND_B0,1RECV_F3,1F3,1SEND_F3,1RECV_B1,1B1,1SEND_B1,3RECV_F2,3F2,3B2,3SEND_B2,"
          "3RECV_F3,3F3,3B3,3SEND_B3,1RECV_B2,1B2,1SEND_B2,1RECV_B3,1B3,1SEND_B3\n"),
      std::vector<std::string>{"where a send waits for its receive, ranks wait for one another in a cycle: rank 0 at "
                               "0SEND_F1 for 1RECV_F1 of rank 1, rank 1 at 1SEND_F0 for 2RECV_F0 of rank 0"});
}

// Rank 0 waits for a gradient before it has sent the activation that it comes from.
TEST(PyTorchTableTest, AReceiveThatComesTooEarlyIsADeadlockAlsoWithBufferedSends) {
  EXPECT_EQ(faults_of("0RECV_B0,0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"),
            std::vector<std::string>{"ranks wait for one another in a cycle: rank 0 at 0RECV_B0 for 1SEND_B0 of rank "
                                     "1, rank 1 at 1RECV_F0 for 0SEND_F0 of rank 0"});
}

// As PyTorch writes it: receives where the message is made, a wait for the send of an activation after its backward.
TEST(PyTorchTableTest, ATableWithMessagesHasThemInAnOrderThatEnds) {
  const Schedule schedule = example_1f1b(2, 2);
  const std::string text =
      pytorch_table(schedule, program_of(schedule, one_stage_per_rank(2)), "test", TableFormat::compute_comms).csv;
  EXPECT_EQ(text,
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1,0REDUCE_GRAD,"
            "0WAIT_REDUCE_GRAD\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1WAIT_SEND_B0,"
            "1WAIT_SEND_B1\n");
  EXPECT_EQ(faults_of(text), std::vector<std::string>{});
}

TEST(PyTorchTableTest, SendsAreWaitedForOnceEach) {
  using Faults = std::vector<std::string>;
  EXPECT_EQ(faults_with("0WAIT_SEND_F0,", ""),
            Faults{"rank 0: 0SEND_F0 has no wait, as other sends of the table have"});
  EXPECT_EQ(faults_with("0WAIT_SEND_F0", "0WAIT_SEND_F0,0WAIT_SEND_F0"),
            Faults{"rank 0: a wait for 0SEND_F0 stands where that is not under way"});
}

// Two micro-batches over two ranks. PyTorch 2.15 runs the first table and hangs in the second.
TEST(PyTorchTableTest, WaitsForSendsDoNotBlockEachOther) {
  EXPECT_EQ(faults_of("0F0,0SEND_F0,0F1,0SEND_F1,0WAIT_SEND_F0,0WAIT_SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                      "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1\n"),
            std::vector<std::string>{});
  // Rank 0 waits for the receive of F1 before it posts that of B0, rank 1 the other way round.
  EXPECT_EQ(
      faults_of("0F0,0SEND_F0,0WAIT_SEND_F0,0F1,0SEND_F1,0WAIT_SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1WAIT_SEND_B1\n"),
      std::vector<std::string>{"where a send waits for its receive, ranks wait for one another in a cycle: rank 0 "
                               "at 0SEND_F1 for 1RECV_F1 of rank 1, rank 1 at 1SEND_B0 for 0RECV_B0 of rank 0"});
}

TEST(PyTorchTableTest, ShardedWeightsAreThereWhenOpsRun) {
  using Faults = std::vector<std::string>;
  EXPECT_EQ(faults_with("0UNSHARD,", ""), (Faults{"rank 0: 0F0 runs while the weights of its stage are sharded",
                                                  "rank 0: 0B0 runs while the weights of its stage are sharded"}));
  EXPECT_EQ(faults_with("0RECV_B0,0B0", "0RESHARD,0RECV_B0,0B0"),
            Faults{"rank 0: 0B0 runs while the weights of its stage are sharded"});
  EXPECT_EQ(faults_with("0UNSHARD", "0UNSHARD,0UNSHARD"), Faults{"rank 0: 0UNSHARD: the weights are there already"});
  EXPECT_EQ(faults_with("1UNSHARD", "1UNSHARD,0UNSHARD"), Faults{"rank 1: 0UNSHARD: the stage is on another rank"});
  EXPECT_EQ(faults_with("1RECV_F0,1F0", "1RECV_F0,1F0,1RESHARD,1RESHARD,1UNSHARD"),
            Faults{"rank 1: 1RESHARD: the weights are sharded already"});
}

TEST(PyTorchTableTest, GradientsAreReducedOnceAfterTheLastBackward) {
  using Faults = std::vector<std::string>;
  EXPECT_EQ(faults_with("0REDUCE_GRAD,0WAIT_REDUCE_GRAD,", ""), Faults{"rank 0: 0REDUCE_GRAD is missing"});
  EXPECT_EQ(faults_with("0WAIT_REDUCE_GRAD,", ""), Faults{"rank 0: 0WAIT_REDUCE_GRAD is missing"});
  EXPECT_EQ(faults_with("0REDUCE_GRAD,0WAIT", "0WAIT_REDUCE_GRAD,0REDUCE_GRAD,0WAIT"),
            Faults{"rank 0: 0WAIT_REDUCE_GRAD waits for no reduction"});
  EXPECT_EQ(faults_with("1F0,1B0", "1F0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1UNSHARD,1B0"),
            Faults{"rank 1: 1REDUCE_GRAD comes before 1B0"});
}

TEST(PyTorchTableTest, AByteOrderMarkIsNoPartOfTheFirstCell) {
  EXPECT_EQ(read_pytorch_table("\xef\xbb\xbf"
                               "0F0,0B0\n",
                               "t.csv")
                .schedule,
            read_pytorch_table("0F0,0B0\n", "t.csv").schedule);
}

TEST(PyTorchTableTest, WrongCellsAreNamedByLineAndCell) {
  const auto error = [](const std::string& text) { return error_of([&] { read_pytorch_table(text, "t.csv"); }); };
  const std::string advice = "; write an action like 5F2, (5F1;2B0)OVERLAP_F_B or 0SEND_F1";
  EXPECT_EQ(error("0F0,0X0\n"), "t.csv: line 1, cell 2: '0X0' is no action" + advice);
  EXPECT_EQ(error("0F0\n1F0,1SEND_Q0\n"), "t.csv: line 2, cell 2: '1SEND_Q0' is no action" + advice);
  EXPECT_EQ(error("(0F0;0B0)\n"), "t.csv: line 1, cell 1: '(0F0;0B0)' is no pair" + advice);
  EXPECT_EQ(error("0F0,F0\n"), "t.csv: line 1, cell 2: 'F0' is no action" + advice);
  EXPECT_EQ(error(std::string(3000, 'x')),
            "t.csv: line 1, cell 1: '" + std::string(59, 'x') + "…' is no action" + advice);
  EXPECT_EQ(error("0F0,0B0\n0F1,0B1\n"),
            "t.csv: line 2, cell 1: 0F1: stage 0 is on rank 0 already; a stage has one rank");
  EXPECT_EQ(error("0F0,2F0\n"), "t.csv: no rank has stage 1; number the 3 stages from 0 without a gap");
  EXPECT_EQ(error(",,\n"), "t.csv: holds no action; write one line per rank: 0F0,0F1,0B0,0B1");
}

RC_GTEST_PROP(PyTorchTableTest, WhatIsWrittenIsRead, ()) {
  const int ranks = *rc::gen::inRange(1, 6), microbatches = *rc::gen::inRange(1, 9);
  const Schedule schedule = *rc::gen::element(example_1f1b(ranks, microbatches), example_gpipe(ranks, microbatches));
  const Program program = program_of(schedule, one_stage_per_rank(ranks));
  const OrderFromTable read = read_pytorch_table(pytorch_table(schedule, program, "test").csv, "t.csv");
  RC_ASSERT(read.schedule == schedule);
  RC_ASSERT(read.placement.stages == one_stage_per_rank(ranks).stages);
  const OrderFromTable with_messages =
      read_pytorch_table(pytorch_table(schedule, program, "test", TableFormat::compute_comms).csv, "t.csv");
  RC_ASSERT(with_messages.schedule == schedule);
  RC_ASSERT(with_messages.faults.empty());
}

// Whatever bytes a file holds: an order or an InputError.
RC_GTEST_PROP(PyTorchTableTest, AnyTextIsReadOrRejected, ()) {
  const std::vector<char> bytes = *rc::gen::container<std::vector<char>>(rc::gen::element(
      '0', '1', 'F', 'B', 'I', 'W', 'S', 'E', 'N', 'D', '_', ',', '\n', '(', ')', ';', ' ', '"', '\r'));
  try {
    const OrderFromTable read = read_pytorch_table(std::string(bytes.begin(), bytes.end()), "t.csv");
    RC_ASSERT(!read.placement.stages.empty());
    check(read.schedule, read.graph, read.placement);
  } catch (const InputError&) {
  }
}

}  // namespace
}  // namespace sluice
