#include "harness/cli/chakra_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harness/base/json.h"
#include "harness/case/predict_update.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/cli/case_flags.h"
#include "harness/cli/cli_test_support.h"
#include "harness/cli/evaluated_plan.h"
#include "harness/sim/communication.h"

namespace sluice {
namespace {

using RanksOfNodes = std::vector<std::vector<ChakraNode>>;

EvaluatedPlan chakra_plan(const std::string& name, const std::string& cluster,
                          const std::map<std::string, std::string>& options = {}, int data_parallel = 1) {
  const System& system = find_system(name, "test");
  Entry entry{timed_only(), in_file("test")};
  entry.values.update({{"system", system.name},
                       {"options", options},
                       {"workload", "vgg16"},
                       {"cluster", cluster},
                       {"batch", 64},
                       {"data_parallel", data_parallel}});
  if (system.synchronous || system.accumulates) entry.values["microbatches"] = 8;
  return evaluate_plan(resolve(entry), test_profiles());
}

// What a simulator does with the nodes: microseconds at which all ranks are done. A message takes `latency`
// microseconds, whatever its size, a collective none once all of its members have come to it.
class ChakraReplay {
 public:
  ChakraReplay(const RanksOfNodes& ranks, const Json& groups, double latency)
      : ranks_(ranks), groups_(groups), latency_(latency), ends_(ranks.size()) {}

  // A node's data_deps may name any node of its rank, whatever its place.
  double end() {
    std::size_t done = 0, all = 0;
    for (const auto& rank : ranks_) all += rank.size();
    for (bool again = true; again;) {
      again = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        for (const ChakraNode& node : ranks_[r]) {
          if (ends_[r].contains(node.id) || !finish(r, node)) continue;
          again = true;
          ++done;
        }
    }
    if (done < all) ADD_FAILURE() << all - done << " nodes are never done";
    double last = 0;
    for (const auto& rank : ends_)
      for (const auto& [id, end] : rank) last = std::max(last, end);
    return last;
  }

 private:
  bool finish(std::size_t r, const ChakraNode& node) {
    double start = 0;
    for (const std::uint64_t dep : node.data_deps) {
      if (!ends_[r].contains(dep)) return false;
      start = std::max(start, ends_[r].at(dep));
    }
    if (node.type == ChakraType::collective) return meet(r, node, start);
    const std::tuple message{node.source.value, node.destination.value, node.tag, node.bytes};
    if (node.type == ChakraType::send) {
      EXPECT_EQ(node.source.index(), r);
      EXPECT_TRUE(arrivals_.emplace(message, start + latency_).second) << "two messages have one tag";
    } else if (node.type == ChakraType::receive) {
      EXPECT_EQ(node.destination.index(), r);
      const auto arrival = arrivals_.find(message);
      if (arrival == arrivals_.end()) return false;
      start = std::max(start, arrival->second);
    }
    ends_[r][node.id] = start + static_cast<double>(node.micros);
    return true;
  }

  // The n-th collective of a group is the n-th of each of its members.
  bool meet(std::size_t r, const ChakraNode& node, double start) {
    if (coming_.insert({r, node.id}).second) {
      const int number = numbers_[{r, node.group}]++;
      number_of_[{r, node.id}] = number;
      auto& meeting = meetings_[{node.group, number}];
      ++meeting.first;
      meeting.second = std::max(meeting.second, start);
    }
    const auto& meeting = meetings_[{node.group, number_of_.at({r, node.id})}];
    if (meeting.first < groups_.at(std::to_string(node.group)).size()) return false;
    ends_[r][node.id] = meeting.second;
    return true;
  }

  const RanksOfNodes& ranks_;
  const Json& groups_;
  double latency_;
  std::vector<std::map<std::uint64_t, double>> ends_;
  std::map<std::tuple<int, int, int, std::int64_t>, double> arrivals_;
  std::set<std::pair<std::size_t, std::uint64_t>> coming_;
  std::map<std::pair<std::size_t, int>, int> numbers_;
  std::map<std::pair<std::size_t, std::uint64_t>, int> number_of_;
  std::map<std::pair<int, int>, std::pair<std::size_t, double>> meetings_;
};

double replayed_seconds(const EvaluatedPlan& e, double latency_micros) {
  const std::string groups = chakra_groups(e.program);
  const Json parsed = groups.empty() ? Json::object() : Json::parse(groups);
  const RanksOfNodes nodes = chakra_nodes(e.program, costs_of(e.p));
  return ChakraReplay(nodes, parsed, latency_micros).end() * 1e-6;
}

// Every change of ranks on the longest path may round by a microsecond.
double rounding_of(const EvaluatedPlan& e) {
  std::size_t ops = 0;
  for (const auto& rank : e.program.ranks) ops += rank.size();
  return 1e-6 * static_cast<double>(ops);
}

TEST(ChakraTraceTest, ReplayedItTakesWhatTheVirtualClockTakes) {
  const std::string cluster = "flat:4,bandwidth=1000000000GiB/s,latency=300us";
  for (const char* system : {"gpipe", "1f1b", "interleaved_1f1b", "zero_bubble", "hanayo", "pipedream", "pipedream_2bw",
                             "layerpipe", "zeropp"}) {
    SCOPED_TRACE(system);
    const EvaluatedPlan e = chakra_plan(system, cluster);
    EXPECT_EQ(chakra_groups(e.program), "");  // a collective of the virtual clock would take its latency, too
    EXPECT_NEAR(replayed_seconds(e, 300), e.simulation.end, rounding_of(e));
    EXPECT_GT(e.simulation.end, 100 * rounding_of(e));
  }
}

TEST(ChakraTraceTest, ReplayedWithCollectivesItTakesWhatTheVirtualClockTakes) {
  const std::string cluster = "flat:4,bandwidth=1000000000GiB/s,latency=0us";
  for (const auto& [system, replicas] :
       std::map<std::string, int>{{"1f1b", 2}, {"data_parallel", 1}, {"fsdp", 1}, {"chimera", 1}, {"dualpipe", 1}}) {
    SCOPED_TRACE(system);
    const EvaluatedPlan e = chakra_plan(system, cluster, {}, replicas);
    EXPECT_NE(chakra_groups(e.program), "");
    EXPECT_NEAR(replayed_seconds(e, 0), e.simulation.end, rounding_of(e));
  }
}

TEST(ChakraTraceTest, MessagesHoldTheBytesThatRanksSend) {
  for (const char* system : {"1f1b", "interleaved_1f1b", "layerpipe", "pipedream"}) {
    SCOPED_TRACE(system);
    const EvaluatedPlan e = chakra_plan(system, "flat:4");
    const Costs costs = costs_of(e.p);
    const std::vector<SentBytes> sent = sent_bytes(e.program, costs);
    const RanksOfNodes nodes = chakra_nodes(e.program, costs);
    for (std::size_t r = 0; r < nodes.size(); ++r) {
      double bytes = 0;
      for (const ChakraNode& node : nodes[r])
        if (node.type == ChakraType::send) bytes += static_cast<double>(node.bytes);
      EXPECT_NEAR(bytes / e.program.updates, sent[r].messages, 1e-9 * sent[r].messages + 1);
      EXPECT_GT(bytes, 0);
    }
  }
}

TEST(ChakraTraceTest, CollectivesNameTheGroupAndWhatAMemberBrings) {
  const EvaluatedPlan e = chakra_plan("fsdp", "flat:4");
  const Costs costs = costs_of(e.p);
  EXPECT_EQ(Json::parse(chakra_groups(e.program)).at("1"), Json({0, 1, 2, 3}));
  std::set<ChakraCollective> seen;
  const RanksOfNodes nodes = chakra_nodes(e.program, costs);
  for (const ChakraNode& node : nodes.front()) {
    if (node.type != ChakraType::collective) continue;
    seen.insert(node.collective);
    const std::int64_t whole = costs.stages[static_cast<std::size_t>(node.group - 1)].parameters.value;
    EXPECT_EQ(node.bytes, node.collective == ChakraCollective::all_gather ? (whole + 3) / 4 : whole);
  }
  EXPECT_EQ(seen, (std::set{ChakraCollective::all_gather, ChakraCollective::reduce_scatter}));
}

// Worked out by hand from et_def.proto; a length stands before every message.
TEST(ChakraTraceTest, BytesAreThoseOfTheSchema) {
  ChakraNode op, send;
  op.name = "0F0";
  op.micros = 300;
  send.id = 1;
  send.name = "s";
  send.type = ChakraType::send;
  send.data_deps = {0};
  send.source = Rank(0);
  send.destination = Rank(1);
  send.tag = 2;
  send.bytes = 5;
  const auto attribute = [](const std::string& before, const std::string& name, const std::string& value) {
    return before + name + value;
  };
  const std::string zero(1, '\0');
  const std::string cpu = attribute("\x52\x0e\x0a\x09", "is_cpu_op", "\xd8\x01" + zero);  // bool_val false
  const std::string metadata = attribute("\x07\x0a\x05", "1.0.0", "");
  const std::string first = attribute("\x1a\x12\x03", "0F0", "\x18\x04\x38\xac\x02") + cpu;  // COMP_NODE, 300
  const std::string second = "\x53\x08\x01\x12\x01s\x18\x05\x2a\x01" + zero + cpu +          // COMM_SEND_NODE, [0]
                             attribute("\x52\x0c\x0a\x08", "comm_src", "\x38" + zero) +      // int32_val
                             attribute("\x52\x0c\x0a\x08", "comm_dst", "\x38\x01") +
                             attribute("\x52\x0c\x0a\x08", "comm_tag", "\x38\x02") +
                             attribute("\x52\x0d\x0a\x09", "comm_size", "\x48\x05");  // int64_val
  EXPECT_EQ(chakra_file({op, send}), metadata + first + second);
}

class ExportTracesTest : public Cli {};

TEST_F(ExportTracesTest, WritesAFileForEveryRankAndTheirGroups) {
  const Finished f = sluice({"export", "--format", "chakra", "-s", "fsdp", "-w", "vgg16", "-c", "flat:2", "-o", "t"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.out, "t.0.et to t.1.et, and t.groups.json\n");
  EXPECT_EQ(content(at("t.0.et")).substr(0, 8),
            "\x07\x0a\x05"
            "1.0.0");
  EXPECT_EQ(Json::parse(content(at("t.groups.json"))), Json({{"1", Json::array({0, 1})}}));
}

TEST_F(ExportTracesTest, RejectionsSayWhatIsMissing) {
  rejects({"export", "--format", "chakra", "-w", "vgg16"}, {"--system"});
  rejects({"export", "--format", "chakra", "-s", "1f1b", "-w", "vgg16"}, {"--out", "PREFIX.0.et"});
  rejects({"export", "runs.jsonl", "--format", "chakra"}, {"not of records", "runs.jsonl"});
  rejects({"export", "runs.jsonl", "--system", "1f1b"}, {"--system", "--format chakra"});
  rejects({"export"}, {"no file of records"});
  rejects({"export", "--format", "chakra", "-s", "1f1b", "-w", "vgg16", "-o", "none/t"}, {"none/t.0.et"});
}

}  // namespace
}  // namespace sluice
