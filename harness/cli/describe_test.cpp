#include "harness/cli/cli_test_support.h"

namespace sluice {
namespace {

class Describe : public Cli {
 protected:
  std::string said(const std::string& name, const std::string& key) const {
    const std::vector<std::string> all = sluice::lines(sluice(Arguments{"list", name}).out);
    for (const std::string& line : all)
      if (line.starts_with(key + " ")) return line.substr(line.find_first_not_of(' ', key.size()));
    return "nothing";
  }
};

TEST_F(Describe, AModelFileHasItsLayersParametersAndWork) {
  put("net.json", R"({"schema": "sluice/model/1", "name": "net", "inputs": [{"shape": [4]}], "layers": [
    {"repeat": 3, "layers": [{"name": "linear{i}", "kind": "Linear", "in": 4, "out": 4, "bias": false}]},
    {"name": "loss", "kind": "MseLoss"}]})");
  EXPECT_EQ(said("net.json", "title"), "net");
  EXPECT_EQ(said("net.json", "kinds"), "3 Linear, 1 MseLoss");
  EXPECT_EQ(said("net.json", "parameters"), "48");
  EXPECT_EQ(said("net.json", "inputs"), "[4]");
  // Three products of 16 multiply-adds, and as much again for each of their gradients.
  EXPECT_EQ(said("net.json", "work"), "9.6e-08 GFLOP a sample forward, 2.88e-07 with its gradients");
  EXPECT_EQ(document({"list", "net.json", "--json"})["layers"], 4);
}

TEST_F(Describe, OtherFilesSayWhatTheyAre) {
  put("s.json", R"({"title": "two", "grid": [{"system": ["gpipe", "1f1b"], "workload": "tiny", "train": false,
    "clock": "virtual"}]})");
  EXPECT_EQ(said("s.json", "systems"), "1 gpipe, 1 one_f_one_b");
  put("costs.json", R"({"schema": "sluice/cost_graph/1", "model": "m", "source": "p", "device": "c", "micro_batch": 4,
    "layers": [{"name": "a", "inputs": [-1], "forward": 0.5, "input_gradient": 1, "weight_gradient": 0.25, "update": 0,
                "parameters": 2048, "output": 10},
               {"name": "b", "inputs": [0], "forward": 0.5, "input_gradient": 1, "weight_gradient": 0.25, "update": 0,
                "parameters": 1024, "output": 30}]})");
  EXPECT_EQ(said("costs.json", "forward"), "1 s");
  EXPECT_EQ(said("costs.json", "weights"), "3 KiB");
  EXPECT_EQ(said("costs.json", "largest output"), "30 B, b");
  put("pair.json", R"({"name": "pair", "devices": [{"name": "A", "count": 2, "flops": 1e12, "memory": "1GB"}],
    "links": [{"from": 0, "to": 1, "bandwidth": "1GB/s", "latency": "1us"}]})");
  EXPECT_EQ(said("pair.json", "devices"), "2 A");
  rejects({"list", "none.json"}, {"there is no 'none.json'"});
  put("empty.json", "{}");
  rejects({"list", "empty.json"}, {"is JSON of no known profile"});
}

}  // namespace
}  // namespace sluice
