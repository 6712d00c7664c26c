#include <map>

#include "harness/cli/cli_test_support.h"

namespace sluice {
namespace {

class PerfettoTrace : public Cli {
 protected:
  std::vector<Json> events(const Arguments& arguments) const {
    const Finished run = sluice(arguments);
    EXPECT_EQ(run.code, 0) << run.err;
    const Json trace = Json::parse(content(at("t.json")), "t.json");
    std::vector<Json> result;
    for (const Json& e : trace["traceEvents"]) result.push_back(e);
    return result;
  }
  static std::vector<Json> of_phase(const std::vector<Json>& all, const std::string& phase) {
    std::vector<Json> result;
    for (const Json& e : all)
      if (e["ph"] == phase) result.push_back(e);
    return result;
  }
  // The op on a lane at a time, in the format's microseconds.
  static std::string op_at(const std::vector<Json>& all, int lane, double when) {
    for (const Json& e : of_phase(all, "X"))
      if (e["tid"] == lane && e["ts"].get<double>() <= when && when <= e["ts"].get<double>() + e["dur"].get<double>())
        return e["name"].get<std::string>();
    return "nothing";
  }
};

// Two ranks, two micro-batches, each op a second, a message a second: 1F1B.
TEST_F(PerfettoTrace, OfAScheduleHasOpsMessagesAndArrowsBetweenTheirOps) {
  const auto all = events({"schedule", "-s", "1f1b", "-n", "2", "-m", "2", "--costs", "1/1/1+1", "--trace", "t.json"});
  const auto ops = of_phase(all, "X");
  EXPECT_EQ(ops.size(), 2u * (2 + 2 + 1));  // F and B of each micro-batch, and the step
  EXPECT_EQ(ops.front()["name"], "0F0");
  EXPECT_EQ(ops.front()["cat"], "forward");
  EXPECT_EQ(ops.front()["dur"], 1e6);
  EXPECT_EQ(ops.front()["args"], Json({{"stage", 0}, {"micro-batch", 0}, {"version", 0}}));
  const auto begun = of_phase(all, "b"), ended = of_phase(all, "e");
  ASSERT_EQ(begun.size(), 4u);
  EXPECT_EQ(begun.front()["name"], "send_activation 0->1 0");
  EXPECT_EQ(ended.front()["ts"].get<double>() - begun.front()["ts"].get<double>(), 1e6);
  const auto starts = of_phase(all, "s"), ends = of_phase(all, "f");
  ASSERT_EQ(starts.size(), 4u);
  std::map<std::string, std::string> arrows;
  for (std::size_t k = 0; k < starts.size(); ++k)
    arrows[op_at(all, starts[k]["tid"].get<int>(), starts[k]["ts"].get<double>())] =
        op_at(all, ends[k]["tid"].get<int>(), ends[k]["ts"].get<double>());
  EXPECT_EQ(arrows,
            (std::map<std::string, std::string>{{"0F0", "1F0"}, {"0F1", "1F1"}, {"1B0", "0B0"}, {"1B1", "0B1"}}));
}

TEST_F(PerfettoTrace, OfAPlanNamesDevicesAndHasBytesOfMessagesAndMemory) {
  const auto all = events({"plan", "-s", "gpipe", "-w", "tiny", "-c", "flat:2", "-m", "4", "--trace", "t.json"});
  const auto names = of_phase(all, "M");
  EXPECT_EQ(names.front()["args"]["name"], "GPipe, tiny on flat:2");
  const auto counters = of_phase(all, "C");
  ASSERT_FALSE(counters.empty());
  EXPECT_EQ(counters.front()["name"], "rank 0 bytes");
  std::int64_t most = 0, last = -1;
  for (const Json& c : counters)
    if (c["name"] == "rank 0 bytes") {
      last = c["args"]["activations"].get<std::int64_t>();
      most = std::max(most, last);
    }
  EXPECT_GT(most, 0);
  EXPECT_EQ(last, 0);  // after the update nothing waits for a backward
  for (const Json& message : of_phase(all, "b")) EXPECT_GT(message["args"]["bytes"].get<double>(), 0);
}

TEST_F(PerfettoTrace, OfARunIsItsTimeline) {
  const auto all = events({"run", "-s", "pipedream", "-w", "tiny", "-c", "flat:2", "--clock", "virtual", "--costs",
                           "analytic", "--no-train", "-m", "8", "--out", "a.jsonl", "--trace", "t.json"});
  EXPECT_EQ(all.front()["args"]["name"], "PipeDream, tiny on flat:2");
  EXPECT_FALSE(of_phase(all, "X").empty());
  const std::vector<Json> messages = of_phase(all, "b"), begins = of_phase(all, "s"), ends = of_phase(all, "f");
  ASSERT_FALSE(messages.empty());
  const Json& bytes = messages[0]["args"]["bytes"];
  EXPECT_EQ(messages[0]["args"],
            (Json{{"from", "rank 0, stage 0"}, {"to", "rank 1, stage 1"}, {"micro-batch", 0}, {"bytes", bytes}}));
  EXPECT_EQ(bytes, 64 * 64 * 4);  // a micro-batch is the whole batch
  ASSERT_FALSE(begins.empty());
  ASSERT_EQ(begins.size(), ends.size());
  EXPECT_EQ(op_at(all, begins[0]["tid"].get<int>(), begins[0]["ts"].get<double>()), "0F0");
  EXPECT_EQ(op_at(all, ends[0]["tid"].get<int>(), ends[0]["ts"].get<double>()), "1F0");
}

// The page's script computes with what this holds; plots/browser_test.py runs it.
TEST_F(PerfettoTrace, APageHoldsOpsWithTheirMessages) {
  EXPECT_EQ(sluice({"schedule", "-s", "1f1b", "-n", "2", "-m", "1", "--costs", "1/2/3+4", "--html", "p.html"}).code, 0);
  const std::string page = content(at("p.html"));
  EXPECT_NE(page.find(R"([0,"forward","0F0",1.0,0.0,[]])"), std::string::npos) << page;
  EXPECT_NE(page.find(R"([1,"forward","1F0",1.0,0.0,[[0,4.0]]])"), std::string::npos);
  EXPECT_NE(page.find(R"([0,"backward","0B0",5.0,0.0,)"), std::string::npos);
  EXPECT_EQ(page.find("/*DATA*/"), std::string::npos);
  EXPECT_EQ(sluice({"schedule", "-s", "gpipe", "-n", "2", "-m", "1", "--html", "p.html"}).code, 0);  // its own
  put("other.html", "<!DOCTYPE html>");
  rejects({"plan", "-s", "gpipe", "-w", "tiny", "-c", "flat:2", "--html", "other.html"}, {"other.html"});
  rejects({"schedule", "-s", "gpipe", "-n", "8", "-m", "20000", "--html", "p.html"}, {"--html", "a page has at most"});
}

TEST_F(PerfettoTrace, APageOfARunIsItsTimeline) {
  const Arguments run = {"run", "-s", "1f1b", "-w", "tiny",   "-c",     "flat:2",     "--clock", "virtual",
                         "-m",  "2",  "-n",   "2",  "--html", "p.html", "--no-train", "--costs", "analytic"};
  Arguments stored = run;
  stored.insert(stored.end(), {"--out", "a.jsonl"});
  EXPECT_EQ(sluice(stored).code, 0);
  const std::string page = content(at("p.html"));
  EXPECT_NE(page.find("\"what\":\"one update\""), std::string::npos);
  const std::size_t begin = page.find("\"ops\":"), end = page.find(",\"ranks\":");
  ASSERT_LT(begin, end);
  const Json ops = Json::parse(page.substr(begin + 6, end - begin - 6));
  // Two micro-batches: each rank's forwards and backwards, and its step.
  std::map<std::string, Json> by_name;
  for (const Json& op : ops) by_name[op[0].dump() + op[2].get<std::string>()] = op;
  EXPECT_EQ(ops.size(), 10u);
  EXPECT_EQ(by_name.at("00F0")[5].size(), 0u);
  EXPECT_EQ(by_name.at("11F0")[5].size(), 1u);  // waits for a message of 0F0
  EXPECT_EQ(by_name.at("00B1")[5].size(), 1u);
  const Json sweep = {{"name", "s"}, {"grid", {{{"system", {"gpipe", "1f1b"}}, {"workload", "tiny"}}}}};
  put("s.json", sweep.dump());
  rejects({"run", "s.json", "--html", "p.html"}, {"--html", "is of one case"});
}

TEST_F(PerfettoTrace, IsOfOneCaseAndReplacesNoOtherFile) {
  put("notes.txt", "mine");
  rejects({"plan", "-s", "gpipe", "-w", "tiny", "-c", "flat:2", "--trace", "notes.txt"}, {"notes.txt"});
  EXPECT_EQ(content(at("notes.txt")), "mine");
  rejects({"plan", "-s", "gpipe,1f1b", "-w", "tiny", "-c", "flat:2", "--trace", "t.json"},
          {"--trace", "is of one plan"});
  rejects({"run", "-s", "gpipe,1f1b", "-w", "tiny", "-c", "flat:2", "--clock", "virtual", "--no-train", "--out",
           "a.jsonl", "--trace", "t.json"},
          {"--trace", "is of one case"});
}

}  // namespace
}  // namespace sluice
