// PyTorch's own schedules, as the tables that its classes make (harness/peers/schedules --tables): op for op the orders
// of the same systems here.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include <algorithm>
#include <sstream>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_schedule.h"
#include "harness/program/lowering.h"
#include "harness/program/pytorch_table.h"
#include "harness/sim/latency_cluster.h"

namespace sluice {
namespace {

using Given = std::map<std::string, std::string>;

struct Table {
  std::string schedule;
  int ranks, microbatches;
  OrderFromTable order;
  bool with_messages;
  std::string text;
};

std::vector<Table> tables() {
  const std::string file = std::string(SLUICE_SOURCE_DIR) + "/harness/tests/data/pytorch_tables.json";
  std::vector<Table> result;
  const Json document = parse_json_file(file);
  for (const Json& entry : document.at("tables"))
    for (const char* form : {"compute_only", "compute_comms"})
      if (entry.contains(form))
        result.push_back({entry.at("schedule").get<std::string>(), entry.at("ranks").get<int>(),
                          entry.at("microbatches").get<int>(),
                          read_pytorch_table(entry.at(form).get<std::string>(), file),
                          std::string(form) == "compute_comms", entry.at(form).get<std::string>()});
  return result;
}

Schedule ours(const std::string& name, const Given& given, const Table& table) {
  const System& system = find_system(name, "test");
  const Options options = resolve_options(system.options, given, "test");
  const StageCost one{Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)};
  const UniformChain made =
      uniform_chain(system, options, latency_cluster(table.ranks, Seconds(0)), table.ranks, table.microbatches, one);
  return system.schedule(made.problem, options);
}

TEST(PyTorchTables, AreTheOrdersOfTheSameSystems) {
  const std::map<std::string, std::pair<std::string, Given>> same = {
      {"GPipe", {"gpipe", {{"backward", "fifo"}}}},
      {"Interleaved1F1B", {"interleaved_1f1b", {{"rule", "torch"}}}},
      {"InterleavedZeroBubble", {"interleaved_1f1b", {{"rule", "torch"}, {"variant", "zero_bubble"}}}},
      {"LoopedBFS", {"breadth_first", {{"backward", "lifo"}}}},
      {"ZBVZeroBubble", {"zero_bubble", {{"variant", "v"}}}},
      {"DualPipeV", {"dualpipe", {{"variant", "v"}}}}};
  std::set<std::string> seen;
  for (const Table& table : tables()) {
    const auto found = same.find(table.schedule);
    if (found == same.end()) continue;
    SCOPED_TRACE(table.schedule + " on " + std::to_string(table.ranks) + " ranks, " +
                 std::to_string(table.microbatches) + " micro-batches");
    const auto& [name, given] = found->second;
    EXPECT_EQ(to_text(table.order.schedule), to_text(ours(name, given, table)));
    EXPECT_EQ(table.order.schedule.microbatches, table.microbatches);
    seen.insert(table.schedule);
  }
  EXPECT_EQ(seen.size(), same.size());
}

// The cells before the rank's first reduction of gradients; without those of sharded weights, which are no order's.
std::vector<std::string> cells_before_reduction(const std::string& row) {
  std::vector<std::string> cells;
  for (std::size_t begin = 0; begin < row.size();) {
    const std::size_t end = std::min(row.find(',', begin), row.size());
    const std::string cell = row.substr(begin, end - begin);
    if (cell.find("REDUCE") != std::string::npos) break;
    if (cell.find("SHARD") == std::string::npos) cells.push_back(cell);
    begin = end + 1;
  }
  return cells;
}

// Reductions are steps of their own in PyTorch's pass that places messages, so that receives after the first stand
// elsewhere.
TEST(PyTorchTables, SendsAndReceivesStandWherePyTorchPutsThem) {
  int compared = 0;
  for (const Table& table : tables()) {
    if (!table.with_messages) continue;
    SCOPED_TRACE(table.schedule + " on " + std::to_string(table.ranks) + " ranks");
    const OrderFromTable& order = table.order;
    const Program program = lower(order.schedule, order.graph, order.placement, {});
    const std::string made = pytorch_table(order.schedule, program, "test", TableFormat::compute_comms).csv;
    std::istringstream ours(made), theirs(table.text);
    for (std::string our_row, their_row; std::getline(ours, our_row);) {
      ASSERT_TRUE(std::getline(theirs, their_row));
      const std::vector<std::string> expected = cells_before_reduction(our_row);
      std::vector<std::string> cells = cells_before_reduction(their_row);
      ASSERT_GE(cells.size(), expected.size());
      EXPECT_TRUE(std::ranges::all_of(cells.begin() + static_cast<std::ptrdiff_t>(expected.size()), cells.end(),
                                      [](const std::string& cell) { return cell.find("RECV") != std::string::npos; }));
      cells.resize(expected.size());
      EXPECT_EQ(cells, expected);
      ++compared;
    }
  }
  EXPECT_GE(compared, 24);
}

TEST(PyTorchTables, PassTheCheckWithTheirMessages) {
  int with_messages = 0;
  for (const Table& table : tables()) {
    if (table.schedule == "1F1B") continue;
    SCOPED_TRACE(table.schedule);
    EXPECT_TRUE(check(table.order.schedule, table.order.graph, table.order.placement).empty());
    EXPECT_TRUE(table.order.faults.empty()) << table.order.faults.front().text;
    EXPECT_EQ(table.order.communication, table.with_messages);
    with_messages += table.with_messages;
  }
  EXPECT_GE(with_messages, 8);
}

// The table that PyTorch 2.15 makes for Schedule1F1B says something else than what the class runs: on the last rank the
// forwards are one micro-batch ahead, so that the first is missing and one too many is there.
TEST(PyTorchTables, TheFaultOfPyTorchs1F1BIsFound) {
  int seen = 0;
  for (const Table& table : tables()) {
    if (table.schedule != "1F1B") continue;
    ++seen;
    const Schedule expected = ours("one_f_one_b", {}, table);
    for (int r = 0; r + 1 < table.ranks; ++r)
      EXPECT_EQ(table.order.schedule.ops(Rank(r)), expected.ops(Rank(r))) << "rank " << r;
    const std::string missing = std::to_string(table.ranks - 1) + "F0 is run by no rank";
    const auto faults = check(table.order.schedule, table.order.graph, table.order.placement);
    EXPECT_TRUE(std::ranges::any_of(faults, [&](const Violation& fault) { return fault.text == missing; }));
  }
  EXPECT_EQ(seen, 4);
}

}  // namespace
}  // namespace sluice
