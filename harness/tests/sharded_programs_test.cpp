// What the systems that shard really run, written out: two copies of a pipeline of two ranks whose
// stages two ranks hold together, and FSDP on two ranks.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/pipeline/replicas.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/program/program.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

using Given = std::map<std::string, std::string>;

// `microbatches`: of each copy.
Program program_of(const std::string& name, int ranks, int microbatches, const Given& given,
                   const PipelineReplicas& replicas) {
  const System& system = find_system(name, "test");
  const Options options = resolve_options(system.options, given, "test");
  const StageCost one{Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)};
  const UniformChain chain =
      uniform_chain(system, options, latency_cluster(ranks * replicas.count, Seconds(0)), ranks, microbatches, one);
  const RankMap map = ranks_of(replicate(chain.plan, ranks, microbatches, replicas));
  return checked(lower(replicate(system.schedule(chain.problem, options), replicas), chain.problem.graph, map.placement,
                       system.weights(chain.problem, options), system.sharding(chain.problem, options)));
}

// Without the messages.
std::string text_of(const std::vector<Instruction>& rank) {
  std::string text;
  for (const Instruction& i : rank)
    if (!is_along_edge(i.opcode)) text += (text.empty() ? "" : " ; ") + to_text(i);
  return text;
}

// The first rank of the first of two pipelines.
std::string first_rank(const std::string& name, const Given& given, int microbatches = 2) {
  const Program program = program_of(name, 2, microbatches, given, {2});
  for (const auto& rank : program.ranks) EXPECT_FALSE(rank.empty());
  return text_of(program.ranks[0]);
}

TEST(ShardedPrograms, ZeroPPGathersOncePerVisit) {
  EXPECT_EQ(first_rank("zeropp", {}),
            "gather 0 ; 0F0 ; gather 2 ; 0F1 ; free 0 ; 2F0 ; 2F1 ; 2I0 ; 2W0 ; 2I1 ; free 2 ; "
            "gather 0 ; 2W1 ; reduce_scatter 2 ; 0I0 ; 0W0 ; 0I1 ; free 0 ; 0W1 ; "
            "reduce_scatter 0 ; step 0 ; step 2");
  EXPECT_EQ(first_rank("zeropp", {{"reduce", "microbatch"}}),
            "gather 0 ; 0F0 ; gather 2 ; 0F1 ; free 0 ; 2F0 ; 2F1 ; 2I0 ; 2W0 ; reduce_scatter 2 ; "
            "2I1 ; free 2 ; gather 0 ; 2W1 ; reduce_scatter 2 ; 0I0 ; 0W0 ; reduce_scatter 0 ; "
            "0I1 ; free 0 ; 0W1 ; reduce_scatter 0 ; step 0 ; step 2");
}

TEST(ShardedPrograms, BreadthFirstGathersTwiceAndScattersOnce) {
  EXPECT_EQ(first_rank("breadth_first", {}),
            "gather 0 ; 0F0 ; gather 2 ; 0F1 ; free 0 ; 2F0 ; 2F1 ; 2B0 ; gather 0 ; 2B1 ; "
            "free 2 ; reduce_scatter 2 ; 0B0 ; 0B1 ; free 0 ; reduce_scatter 0 ; step 0 ; step 2");
}

TEST(ShardedPrograms, MemoryEfficientOneForwardOneBackward) {
  EXPECT_EQ(first_rank("one_f_one_b", {}), "0F0 ; 0F1 ; 0B0 ; 0B1 ; reduce 0 ; step 0");
  EXPECT_EQ(first_rank("one_f_one_b", {{"zero", "1"}}), "0F0 ; 0F1 ; 0B0 ; 0B1 ; reduce_scatter 0 ; step 0 ; gather 0");
  EXPECT_EQ(first_rank("one_f_one_b", {{"zero", "3"}}),
            "gather 0 ; 0F0 ; free 0 ; gather 0 ; 0F1 ; free 0 ; gather 0 ; 0B0 ; free 0 ; "
            "reduce_scatter 0 ; gather 0 ; 0B1 ; free 0 ; reduce_scatter 0 ; step 0");
}

TEST(ShardedPrograms, FsdpInTwoParts) {
  const auto fsdp = [](const std::string& mode) {
    return text_of(program_of("fsdp", 2, 4, {{"accumulation", mode}, {"chunks", "2"}}, {}).ranks[0]);
  };
  EXPECT_EQ(fsdp("reshard"),
            "gather 0 ; gather 1 ; 0F0 ; free 0 ; 1F0 ; free 1 ; gather 1 ; gather 0 ; 1B0 ; "
            "free 1 ; reduce_scatter 1 ; 0B0 ; free 0 ; reduce_scatter 0 ; "
            "gather 0 ; gather 1 ; 0F1 ; free 0 ; 1F1 ; free 1 ; gather 1 ; gather 0 ; 1B1 ; "
            "free 1 ; reduce_scatter 1 ; 0B1 ; free 0 ; reduce_scatter 0 ; step 0 ; step 1");
  EXPECT_EQ(fsdp("no_sync"),
            "gather 0 ; gather 1 ; 0F0 ; free 0 ; 1F0 ; free 1 ; gather 1 ; gather 0 ; 1B0 ; "
            "free 1 ; 0B0 ; free 0 ; "
            "gather 0 ; gather 1 ; 0F1 ; free 0 ; 1F1 ; free 1 ; gather 1 ; gather 0 ; 1B1 ; "
            "free 1 ; reduce_scatter 1 ; 0B1 ; free 0 ; reduce_scatter 0 ; step 0 ; step 1");
  EXPECT_EQ(fsdp("keep"),
            "gather 0 ; gather 1 ; 0F0 ; 1F0 ; 1B0 ; 0B0 ; 0F1 ; 1F1 ; 1B1 ; free 1 ; "
            "reduce_scatter 1 ; 0B1 ; free 0 ; reduce_scatter 0 ; step 0 ; step 1");
}

// Instructions of a kind on the first rank.
std::ptrdiff_t count(const Program& program, Opcode opcode) {
  return std::ranges::count(program.ranks[0], opcode, &Instruction::opcode);
}

// The papers' counts: ZeroPP (m / U)(2 v - 2) + 1 gathers and v scatters a unit, or m v; and
// breadth-first 2 v - 1 and v, whatever m is.
TEST(ShardedPrograms, GathersAndScattersAreTheClosedForms) {
  for (const int p : {2, 3, 4})
    for (const int v : {1, 2, 3})
      for (const int units : {1, 2, 3})
        for (const int u : {p, 2 * p - 1}) {
          SCOPED_TRACE(testing::Message() << p << " ranks, " << v << " chunks, " << units << " units of " << u);
          const int m = units * u;
          const Given given{{"chunks", std::to_string(v)}, {"unit", std::to_string(u)}};
          const Program zeropp = program_of("zeropp", p, m, given, {2});
          EXPECT_EQ(count(zeropp, Opcode::gather_weights), units * (2 * v - 2) + 1);
          EXPECT_EQ(count(zeropp, Opcode::reduce_scatter), units * v);
          Given each = given;
          each["reduce"] = "microbatch";
          EXPECT_EQ(count(program_of("zeropp", p, m, each, {2}), Opcode::reduce_scatter), m * v);
          const Program bfpp = program_of("breadth_first", p, m, {{"chunks", given.at("chunks")}},
                                          {2, PipelineReplicas::Layout::pipelines});
          EXPECT_EQ(count(bfpp, Opcode::gather_weights), 2 * v - 1);
          EXPECT_EQ(count(bfpp, Opcode::reduce_scatter), v);
        }
}

TEST(ShardedPrograms, FsdpRanksNeedTheSameNumberOfMicroBatches) {
  EXPECT_NE(error_of([] { program_of("fsdp", 2, 3, {}, {}); }).find("its ranks need the same number of micro-batches"),
            std::string::npos);
  EXPECT_EQ(error_of([] { program_of("fsdp", 2, 3, {{"accumulation", "keep"}}, {}); }), "no error");
}

}  // namespace
}  // namespace sluice
