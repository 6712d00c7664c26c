// A case is what its files hold: where one was edited, --resume runs the case again, and the two are compared as two.
#include <string>
#include <vector>

#include "harness/cli/cli_test_support.h"
#include "harness/model/cost_graph.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

class EditedFiles : public Cli {
 protected:
  struct Kind {
    std::string file;  // in the test's folder
    std::string before, after;
    Arguments flags;
    std::string system = "1f1b", workload = "tiny";
  };

  Finished run(const Kind& kind, const Variables& variables) const {
    Arguments all = {"run",     "--system", kind.system, "--workload", kind.workload,
                     "--ranks", "2",        "--clock",   "virtual",    "--no-train",
                     "--steps", "2",        "--resume",  "--out",      at("r.jsonl")};
    all.insert(all.end(), kind.flags.begin(), kind.flags.end());
    return sluice(all, variables);
  }

  // Runs the case, then again with the same file, then with the edited one.
  void expect_noticed(const Kind& kind, const Variables& variables = {}) const {
    SCOPED_TRACE(kind.file);
    fs::remove(at("r.jsonl"));
    put(kind.file, kind.before);
    const Finished first = run(kind, variables);
    ASSERT_EQ(first.code, 0) << first.err;
    const Finished same = run(kind, variables);
    EXPECT_NE(same.err.find("1 of 1 cases were finished before and skipped"), std::string::npos) << same.err;
    put(kind.file, kind.after);
    const Finished edited = run(kind, variables);
    EXPECT_EQ(edited.code, 0) << edited.err;
    EXPECT_EQ(edited.err.find("skipped"), std::string::npos) << edited.err;
    const std::vector<Json> found = records(at("r.jsonl"));
    ASSERT_EQ(found.size(), 2u);
    EXPECT_NE(found[0]["digest"], found[1]["digest"]);
    for (const Json& record : found) EXPECT_EQ(record["outcome"], "ok") << record["reason"].dump();
    std::size_t rows = 0;
    for (const Json& comparison : document({"compare", at("r.jsonl"), "--json"})) rows += comparison["rows"].size();
    EXPECT_EQ(rows, 2u);
  }

  // Costs of the workload tiny, `times` as slow as a device of one TFLOP/s.
  static std::string costs_of_tiny(double times) {
    const Workload& tiny = find_workload("tiny");
    return to_json(analytic_costs(tiny.model, tiny.batch / tiny.microbatches, Device{.flops = 1e12 / times})).dump();
  }
  static std::string cluster(const std::string& bandwidth) {
    return R"({"name": "two", "devices": [{"count": 2}], "all_to_all": {"bandwidth": ")" + bandwidth + "\"}}";
  }
  static std::string episode(int slowdown) {
    return R"({"episodes": [{"resource": "compute", "device": 1, "slowdown": )" + std::to_string(slowdown) + "}]}";
  }
  static std::string gavel(const std::string& slowdown) {
    return "gpu,victim,beside,steps,n,slowdown\nv100,a,x,2,1,1.5\nv100,b,x,4,1," + slowdown + "\n";
  }
  static std::string co_runs(const std::string& slowdown) {
    return R"({"schema": "sluice/co_run/1", "rows": [{"features": {"seconds": 1}, "slowdown": )" + slowdown + "}]}";
  }
  static std::string pipedream_profile(const std::string& milliseconds) {
    std::string text;
    for (const char* node : {"node1", "node2", "node3", "node4"})
      text += node + std::string(" -- ReLU(inplace) -- forward_compute_time=") + milliseconds +
              ", backward_compute_time=2.0, activation_size=8.0, parameter_size=4.0\n";
    return text + "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n";
  }
};

TEST_F(EditedFiles, AreOtherCasesWhicheverFileItIs) {
  expect_noticed({"cluster.json", cluster("10GB/s"), cluster("1MB/s"), {"--cluster", "cluster.json"}});
  expect_noticed({"costs.json", costs_of_tiny(1), costs_of_tiny(100), {"--costs", "costs.json"}});
  expect_noticed({"slow.json", episode(2), episode(20), {"--interference", "slow.json"}});
  expect_noticed({"gavel.csv", gavel("2"), gavel("7"), {"--interference", "gavel-v100:file=gavel.csv"}});
  expect_noticed({"rows.json", co_runs("1.5"), co_runs("2.5"), {"--set", "forest=rows.json"}, "dynpipe"});
  expect_noticed({"rows.csv", gavel("2"), gavel("7"), {"--set", "published=rows.csv"}, "dynpipe"});
  expect_noticed({"graph.txt", pipedream_profile("1.5"), pipedream_profile("3.5"), {}, "1f1b", "graph.txt"});
}

TEST_F(EditedFiles, AShippedClusterOrCalibrationThatWasEditedIsNoticedToo) {
  const std::string home = at("home"), shipped = SLUICE_SOURCE_DIR "/workloads";
  fs::create_directories(home + "/workloads");
  for (const char* folder : {"/clusters", "/devices"}) fs::copy(shipped + folder, home + "/workloads" + folder);
  const std::string clusters = content(shipped + "/clusters/dgx1_v100.json"),
                    kernels = content(shipped + "/devices/v100_sxm2_fp32.json");
  expect_noticed({"home/workloads/clusters/dgx1_v100.json", clusters, clusters + "\n", {"--cluster", "dgx1_v100"}},
                 {{"SLUICE_HOME", home}});
  expect_noticed({"home/workloads/devices/v100_sxm2_fp32.json",
                  kernels,
                  kernels + "\n",
                  {"--cluster", "flat:2", "--costs", "calibrated"}},
                 {{"SLUICE_HOME", home}});
}

TEST_F(EditedFiles, AFileOfAnOptionThatIsWrongIsAnErrorBeforeAnythingRuns) {
  const std::string out = at("r.jsonl");
  Arguments all = {"run",     "--system",   "dynpipe", "--workload", "tiny",  "--ranks", "2",    "--clock",
                   "virtual", "--no-train", "--steps", "2",          "--out", out,       "--set"};
  const auto rejected = [&](const std::string& set, const std::vector<std::string>& texts) {
    Arguments with = all;
    with.push_back(set);
    rejects(with, texts);
    EXPECT_FALSE(fs::exists(out));
  };
  rejected("forest=nowhere.json", {"--set", "forest", "nowhere.json", "no such file"});
  put("other.json", R"({"schema": "sluice/cost_graph/1"})");
  rejected("forest=other.json", {"forest", "other.json", "/schema: is not 'sluice/co_run/1'"});
  put("cut.json", co_runs("1.5").substr(0, 40));
  rejected("forest=cut.json", {"forest", "cut.json"});
  rejected("published=nowhere.csv", {"published", "nowhere.csv", "no such file"});
}

}  // namespace
}  // namespace sluice
