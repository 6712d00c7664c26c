// The contract (harness/case/contract.h) for every listed system, and for systems that break it.
#include "harness/case/contract.h"

#include <gtest/gtest.h>

#include <set>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/make_plan.h"
#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"

namespace sluice {
namespace {

class SystemContractTest : public testing::TestWithParam<const System*> {};

TEST_P(SystemContractTest, HoldsOnGeneratedProblems) {
  const ContractReport report = check_contract(*GetParam(), {.max_faults = 1});
  for (const ContractFault& fault : report.faults)
    ADD_FAILURE() << fault.problem << ": " << fault.text << "\n" << fault.drawing;
  EXPECT_GE(report.taken, 6);
  // harness/README.md (Messages) lists them.
  const std::set<std::string> end_with_any_sends = {"gpipe",         "torchgpipe", "edgepipe",
                                                    "single_device", "fsdp",       "data_parallel"};
  EXPECT_EQ(report.needs_buffered_sends.empty(), end_with_any_sends.contains(GetParam()->name))
      << report.needs_buffered_sends;
}

// With the shortest queue there is: what could wait for ever does.
TEST_P(SystemContractTest, ItsForwardsAloneAreAPipelineOfInference) {
  const System& system = *GetParam();
  for (const Options& options : contract_choices(system))
    for (const auto& [ranks, microbatches] : {std::pair{1, 3}, {2, 4}, {4, 8}, {3, 12}}) {
      SCOPED_TRACE(system.name + " ranks=" + std::to_string(ranks));
      const CostGraph costs = forward_only(contract_layers(ranks));
      const Cluster cluster = latency_cluster(ranks, Seconds(0));
      Problem problem{costs, cluster, system.one_process ? 1 : ranks, 2L * microbatches, microbatches, {}};
      problem.inference = true;
      problem.simulate = [](const PlannedPipeline&) { return Seconds(1); };
      // Systems that accumulate: the smallest number that divides and is no less than the ranks.
      int per_update = system.accumulates ? std::min(ranks, microbatches) : 1;
      while (microbatches % per_update != 0) ++per_update;
      try {
        Plan plan = make_plan(system, problem, options).plan;
        for (PlanStage& stage : plan.stages) stage.weight_gradient_device.reset();
        const StageGraph graph = stage_graph(plan, costs);
        const RankMap map = ranks_of(plan);
        const ScheduleProblem order{graph,      map.placement, count_of(map.devices), microbatches, {},
                                    Seconds(0), per_update};
        const Schedule once = forwards_of(system.schedule(order, options));
        const PlacedSchedule all = repeated(once, graph, map.placement, 3);
        const auto wrong = check(lower(all.schedule, graph, all.placement, {}, {}, {.queue = 1}));
        EXPECT_TRUE(wrong.empty()) << wrong.front().text;
      } catch (const InputError& e) {
        EXPECT_STRNE(e.what(), "");
      }
    }
}

TEST_P(SystemContractTest, IsFoundByNameAndAlias) {
  EXPECT_EQ(&find_system(GetParam()->name, "test"), GetParam());
  for (const std::string& alias : GetParam()->aliases) EXPECT_EQ(&find_system(alias, "test"), GetParam());
}

std::vector<const System*> listed() { return {all_systems().begin(), all_systems().end()}; }

INSTANTIATE_TEST_SUITE_P(All, SystemContractTest, testing::ValuesIn(listed()),
                         [](const auto& test) { return test.param->name; });

TEST(SystemTableTest, NamesAndAliasesAreUnique) {
  std::set<std::string> names;
  for (const System* system : all_systems()) {
    EXPECT_TRUE(names.insert(system->name).second) << system->name;
    for (const std::string& alias : system->aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
  }
  EXPECT_GE(names.size(), 5u);
}

TEST(SystemTableTest, UnknownNamesAreRejectedWithTheNearest) {
  try {
    find_system("gpip", "quick.json: /grid/0/system");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "quick.json: /grid/0/system: unknown system 'gpip'; did you mean 'gpipe'?");
  }
}

// GPipe's order under another name, to be broken.
System wrong() {
  return {.name = "wrong",
          .title = "Wrong",
          .citation = "nobody",
          .written_from = WrittenFrom::ours,
          .schedule = [](const ScheduleProblem& problem, const Options&) {
            return orders::fill_drain(problem, BackwardOrder::lifo);
          }};
}

std::string first_fault(const System& system) {
  const ContractReport report = check_contract(system, {.max_ranks = 3, .max_microbatches = 4});
  return report.faults.empty() ? "none" : report.faults.front().text;
}

TEST(Contract, AcceptsAPlainSystemAndNotesThatItsTheoryIsLeftOut) {
  const ContractReport report = check_contract(wrong(), {.max_ranks = 3, .max_microbatches = 4});
  EXPECT_TRUE(report.faults.empty()) << report.faults.front().text;
  EXPECT_EQ(report.taken, 12);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_TRUE(report.notes.front().starts_with("theory is left out"));
}

TEST(Contract, FindsAWeightRuleThatAccumulatesWithoutTheSystemSayingSo) {
  System system = wrong();
  system.synchronous = false;
  system.schedule = [](const ScheduleProblem& problem, const Options&) { return orders::one_f_one_b(problem); };
  system.theory = [](const ScheduleProblem&, const Options&) { return Theory{}; };
  system.weights = [](const ScheduleProblem&, const Options&) {
    return WeightRule{.update = WeightRule::Update::every_backward, .accumulate = 2};
  };
  EXPECT_EQ(
      first_fault(system),
      "its weight rule makes one update of 2 micro-batches, but .accumulates is not true: every micro-batch would "
      "count as an update");
}

TEST(Contract, FindsPartsOfOurOwnThatAreNotExplained) {
  System system = wrong();
  system.written_from = {WrittenFrom::paper, {{"planner", WrittenFrom::ours}}};
  EXPECT_EQ(first_fault(system),
            ".written_from has parts that are ours, but its sentence that says what is ours is empty");
  system.written_from.ours = "The planner is ours.";
  EXPECT_EQ(first_fault(system), "none");
}

TEST(Contract, FindsASentenceOnWhatIsOursWithoutSuchAPart) {
  System system = wrong();
  system.written_from = {WrittenFrom::paper, {{"planner", WrittenFrom::memory}}, "The planner's limit is ours."};
  EXPECT_EQ(first_fault(system), ".written_from has a sentence that says what is ours, but none of its parts is ours");
  system.written_from.parts.push_back({"planner's limit", WrittenFrom::ours});
  EXPECT_EQ(first_fault(system), "none");
}

TEST(Contract, FindsAFlushThatIsNone) {
  System system = wrong();
  system.synchronous = false;
  EXPECT_EQ(first_fault(system), ".synchronous is false, but its weight rule updates at a flush");
}

TEST(Contract, FindsChunksThatContradictThePlan) {
  System system = wrong();
  system.plan = [](const Problem& problem, const Options&) {
    return chunked_chain(problem, 2, ChunkPlacement::loop, "wrong");
  };
  EXPECT_EQ(first_fault(system), "its plan puts 2 on a rank, .chunks says nothing, which means 1");
  system.chunks = [](const Options&) { return 3; };
  EXPECT_EQ(first_fault(system), "its plan puts 2 on a rank, .chunks says 3");
  system.chunks = [](const Options&) { return 2; };
  EXPECT_EQ(first_fault(system), "none");
}

TEST(Contract, FindsATheoryThatIsNotWhatHappens) {
  System system = wrong();
  system.theory = [](const ScheduleProblem& problem, const Options&) {
    Theory theory = flush_theory(problem.ranks);
    theory.in_flight.assign(problem.ranks, 1);
    return theory;
  };
  EXPECT_EQ(first_fault(system), "theory.in_flight of rank 0 is 1, its order shows 2");
}

TEST(Contract, NamesEveryFaultOfAScheduleAndDrawsItUntilThere) {
  System system = wrong();
  system.schedule = [](const ScheduleProblem& problem, const Options&) {
    Schedule schedule = empty_schedule(problem);
    for (int s = 0; s < problem.stages(); ++s) {
      auto& ops = schedule.ops(problem.rank_of(s));
      ops = {forward_op(s, 0), backward_op(s, 0)};
      if (s == 1) std::swap(ops[0], ops[1]);
    }
    return schedule;
  };
  const ContractReport report = check_contract(system, {.max_ranks = 2, .max_microbatches = 1});
  ASSERT_FALSE(report.faults.empty());
  EXPECT_EQ(report.faults.front().problem, "ranks=2 microbatches=1");
  EXPECT_EQ(report.faults.front().text, "rank 0: 0B0 is blocked: it waits for 1B0 of rank 1, which is blocked at 1B0");
  EXPECT_EQ(report.faults.at(1).text, "rank 1: 1B0 comes before 1F0, which it needs");
  EXPECT_EQ(report.faults.front().drawing,
            "rank 0  F0\nrank 1  ..\nrank 0 stops before 0B0\nrank 1 stops before 1B0\n");
}

TEST(Contract, TellsWhatARejectionSays) {
  System system = wrong();
  system.require = [](int ranks, int, const Options&) {
    if (ranks > 1) throw InputError("wrong", "one rank only", "use single_device");
  };
  const ContractReport report = check_contract(system, {.max_ranks = 2, .max_microbatches = 6});
  EXPECT_TRUE(report.faults.empty()) << report.faults.front().text;
  EXPECT_EQ(report.rejected, 6);
  ASSERT_EQ(report.rejections.size(), 1u);
  EXPECT_EQ(report.rejections.begin()->first, "wrong: one rank only; use single_device");
  EXPECT_EQ(report.rejections.begin()->second, "ranks=2 microbatches=1");
}

TEST(Contract, ChecksTheNameAndTheOptions) {
  System system = wrong();
  system.name = "gpipe";
  system.options = {{"depth", "0", ""}};
  const ContractReport report = check_contract(system, {.max_ranks = 0});
  std::set<std::string> texts;
  for (const ContractFault& fault : report.faults) texts.insert(fault.text);
  EXPECT_TRUE(texts.contains("'gpipe' is a name of gpipe, too"));
  EXPECT_TRUE(texts.contains("option 'depth' has no help text"));
  EXPECT_TRUE(std::ranges::any_of(texts, [](const auto& t) { return t.starts_with("the default of option 'depth'"); }));
  system.name = "my-system";
  EXPECT_EQ(first_fault(system), "'my-system' is no name: use lower-case letters, digits and _, a letter first");
}

}  // namespace
}  // namespace sluice
