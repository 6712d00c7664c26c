#include "workloads/profiles/profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "workloads/profiles/operator_profile.h"

namespace sluice {
namespace {

std::string node_line(const std::string& id, const std::string& description, const std::string& forward = "1.0",
                      const std::string& activation = "8.0", const std::string& parameters = "0.0") {
  return id + " -- " + description + " -- forward_compute_time=" + forward +
         ", backward_compute_time=2.0, activation_size=" + activation + ", parameter_size=" + parameters + "\n";
}

TEST(PipeDreamProfileTest, IsReadInTopologicalOrderWithSecondsAndBytes) {
  const PublishedProfile profile = read_pipedream_profile(
      node_line("node3", "Linear(in_features=4, out_features=2)", "500", "[8.0; 4.0]", "40.0") +
          node_line("node1", "Input0", "90") + node_line("node2", "ReLU(inplace)") +
          node_line("node4", "__getitem__(0)") + "\tnode2 -- node3\n  node1 -- node2 \n\tnode3 -- node4\n",
      "f");
  const auto& layers = profile.costs.layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].name, "node2 ReLU(inplace)");
  EXPECT_EQ(layers[0].inputs, std::vector{-1});  // the Input node
  EXPECT_DOUBLE_EQ(layers[0].input_gradient.value, 2e-3);
  EXPECT_EQ(layers[0].weight_gradient, Seconds(0));
  EXPECT_EQ(layers[1].inputs, std::vector{0});
  EXPECT_DOUBLE_EQ(layers[1].forward.value, 0.5);
  EXPECT_DOUBLE_EQ(layers[1].weight_gradient.value, 1e-3);
  EXPECT_EQ(layers[1].output, Bytes(12));
  EXPECT_EQ(layers[1].parameters, Bytes(40));
  ASSERT_EQ(profile.warnings.size(), 4u);
  EXPECT_EQ(profile.warnings[0],
            "1 Input node(s) are the model's inputs and no layers: 92 ms of data loading left out");
}

TEST(PipeDreamProfileTest, MalformedLinesAreNamed) {
  const auto error = [](const std::string& text) { return error_of([&] { read_pipedream_profile(text, "f.txt"); }); };
  const std::string good = node_line("node1", "ReLU");
  EXPECT_EQ(error(good + "node2 -- ReLU\n"),
            "f.txt:2: a node line has 3 or 4 parts between ' -- ', this one 2; edges begin with a "
            "blank");
  EXPECT_EQ(error(node_line("node1", "ReLU", "fast")), "f.txt:1: forward_compute_time: 'fast' is not a number");
  EXPECT_EQ(error(node_line("node1", "ReLU", "-1")), "f.txt:1: forward_compute_time: -1 is negative");
  EXPECT_EQ(error(node_line("node1", "ReLU", "nan")), "f.txt:1: forward_compute_time: 'nan' is not a number");
  EXPECT_EQ(error("node1 -- ReLU -- forward_compute_time=1\n"), "f.txt:1: has no activation_size");
  EXPECT_EQ(error("node1 -- ReLU -- forward_compute_time=1, forward_compute_time=1\n"),
            "f.txt:1: 'forward_compute_time=1' is no field of a node, or is there twice; known: "
            "forward_compute_time, backward_compute_time, activation_size, parameter_size");
  EXPECT_EQ(error(good + good), "f.txt:2: node 'node1' is there twice");
  EXPECT_EQ(error(good + "\n\tnode1 -- node9\n"), "f.txt:3: node 'node9' does not exist");
  EXPECT_EQ(error(good + "\tnode1\n"), "f.txt:2: an edge line is 'SOURCE -- READER'");
  EXPECT_EQ(error(good + node_line("node2", "Add") + "\tnode1 -- node2\n\tnode2 -- node1\n"),
            "f.txt: the graph has a cycle through or before 'node1'");
  EXPECT_EQ(error(node_line("node1", "Input")), "f.txt: has no layer");
}

Json piper_json() {
  const auto variant = [](double seconds, Json in, Json out) {
    return Json{{"id", "vanilla"},      {"timePerSample", seconds}, {"parameterSize", 40.0}, {"memoryUsageA", 7.0},
                {"memoryUsageB", 80.0}, {"syncTimeFw", in},         {"syncTimeBw", out}};
  };
  return {
      {"maxDevices", 4},
      {"maxMemoryPerDevice", 1e9},
      {"bandwidth", 25e9},
      {"mbsInBatch", 8},
      {"nodes",
       {{{"id", 7}, {"name", "b"}, {"TMPCs", {{"1", {variant(3, {{"5", 1.0}}, Json::object())}}}}},
        {{"id", 5},
         {"name", "a"},
         {"TMPCs",
          {{"1", {variant(6, Json::object(), {{"7", 0.0}})}}, {"2", {variant(4, Json::object(), {{"7", 9.0}})}}}}}}},
      {"edges", {{{"sourceId", 5}, {"destId", 7}, {"communicationCost", 11.0}}}}};
}

TEST(PiperProfileTest, KeepsVariantsAndEdgeBytes) {
  const PublishedProfile profile = read_piper_profile(piper_json(), "p.json", ProfileUnits::physical);
  EXPECT_EQ(profile.microbatches, 8);
  const auto& layers = profile.costs.layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].name, "a 5");
  ASSERT_EQ(layers[0].variants.size(), 2u);
  EXPECT_EQ(layers[0].variants[1].tensor, 2);
  EXPECT_EQ(layers[0].variants[1].output_sync.at(1), Bytes(9));
  EXPECT_EQ(layers[0].output, Bytes(11));
  EXPECT_DOUBLE_EQ(layers[0].forward.value, 2);
  EXPECT_EQ(layers[1].inputs, std::vector{0});
  EXPECT_EQ(layers[1].input_bytes, std::vector{Bytes(11)});
  EXPECT_EQ(layers[1].variants[0].input_sync, std::vector{Bytes(1)});
  EXPECT_EQ(layers[1].variants[0].in_flight, Bytes(7));
}

TEST(PiperProfileTest, TheNameOfAVariantSaysThatItRecomputes) {
  Json json = piper_json();
  json["nodes"][1]["TMPCs"]["2"][0]["id"] = "activation recomp";
  const auto costs = read_piper_profile(json, "p.json", ProfileUnits::physical).costs;
  EXPECT_FALSE(costs.layers[0].variants[0].recompute);
  EXPECT_TRUE(costs.layers[0].variants[1].recompute);
}

TEST(PiperProfileTest, MillisecondsAreRecognised) {
  Json json = piper_json();
  json["nodes"][1]["TMPCs"]["1"][0]["timePerSample"] = 600.0;
  const PublishedProfile physical = read_piper_profile(json, "p.json", ProfileUnits::physical);
  EXPECT_DOUBLE_EQ(physical.costs.layers[0].variants[0].seconds.value, 0.6);
  EXPECT_DOUBLE_EQ(physical.costs.layers[0].forward.value, 0.2);
  EXPECT_NE(physical.warnings[0].find("milliseconds, read as such"), std::string::npos);
  const PublishedProfile raw = read_piper_profile(json, "p.json", ProfileUnits::published);
  EXPECT_DOUBLE_EQ(raw.costs.layers[0].variants[0].seconds.value, 600);
}

TEST(PiperProfileTest, MistakesAreNamed) {
  const auto error = [](auto change) {
    Json json = piper_json();
    change(json);
    return error_of([&] { read_piper_profile(json, "p.json", ProfileUnits::physical); });
  };
  EXPECT_EQ(error([](auto& j) { j["nodes"][0]["TMPCs"]["1"][0]["syncTimeFw"] = Json::object(); }),
            "p.json: /nodes/0/TMPCs/1/0/syncTimeFw/5: is missing; every edge of the node needs a key");
  EXPECT_EQ(error([](auto& j) { j["nodes"][0]["TMPCs"]["1"][0]["syncTimeBw"]["5"] = 1; }),
            "p.json: /nodes/0/TMPCs/1/0/syncTimeBw/5: there is no such edge");
  EXPECT_EQ(error([](auto& j) { j["nodes"][1]["id"] = 7; }), "p.json: /nodes/1/id: 7 is there twice");
  EXPECT_EQ(error([](auto& j) { j["edges"].push_back(j["edges"][0]); }),
            "p.json: /edges/1/destId: the edge is there twice");
  EXPECT_EQ(error([](auto& j) { j["edges"][0]["sourceId"] = 6; }), "p.json: /edges/0/sourceId: there is no such node");
  EXPECT_EQ(error([](auto& j) { j["nodes"][0]["TMPCs"]["1"][0]["timePerSample"] = -1; }),
            "p.json: /nodes/0/TMPCs/1/0/timePerSample: must not be negative");
  EXPECT_EQ(error([](auto& j) { j["nodes"][0]["TMPCs"] = Json::object(); }),
            "p.json: /nodes/0/TMPCs: gives no way to run the node");
  EXPECT_EQ(error([](auto& j) { j["nodes"][0]["TMPCs"]["two"] = j["nodes"][0]["TMPCs"]["1"]; }),
            "p.json: /nodes/0/TMPCs/two: the key must be a whole number");
  EXPECT_EQ(error([](auto& j) { j["bandwidth"] = 0; }), "p.json: /bandwidth: must be greater than 0");
  EXPECT_EQ(error([](auto& j) { j.erase("mbsInBatch"); }), "p.json: /mbsInBatch: is missing");
}

Json operator_json() {
  const auto node = [](int id, bool backward, double latency, int color) {
    return Json{{"id", id},
                {"name", "n" + std::to_string(id)},
                {"supportedOnFpga", 1},
                {"isBackwardNode", backward ? 1 : 0},
                {"fpgaLatency", latency},
                {"cpuLatency", 10 * latency},
                {"size", 100.0},
                {"colorClass", color}};
  };
  const auto edge = [](int from, int to, double bytes) {
    return Json{{"sourceId", from}, {"destId", to}, {"cost", bytes / 2147483648.0}, {"size", bytes}};
  };
  return {{"maxSizePerFPGA", 1000.0},
          {"maxFPGAs", 2},
          {"maxCPUs", 1},
          {"nodes", {node(1, false, 2, 1), node(2, false, 4, 2), node(3, true, 6, 2), node(4, true, 8, 1)}},
          {"edges", {edge(1, 2, 1e6), edge(2, 3, 2e6), edge(3, 4, 1e6)}}};
}

TEST(OperatorProfileTest, IsReadAsPublished) {
  const OperatorGraph graph = read_operator_graph(operator_json(), "o.json");
  ASSERT_EQ(graph.operators.size(), 4u);
  EXPECT_TRUE(graph.operators[2].backward);
  EXPECT_DOUBLE_EQ(graph.operators[1].cpu, 40);
  EXPECT_DOUBLE_EQ(graph.operators[0].send, 1e6 / 2147483648.0);
}

TEST(OperatorProfileTest, ACostGraphHasALayerForEachGroup) {
  const PublishedProfile profile = read_operator_profile(operator_json(), "o.json", ProfileUnits::physical);
  const auto& layers = profile.costs.layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].name, "n1");
  EXPECT_DOUBLE_EQ(layers[0].forward.value, 2e-3);
  EXPECT_DOUBLE_EQ((layers[0].input_gradient + layers[0].weight_gradient).value, 8e-3);
  EXPECT_EQ(layers[0].parameters, Bytes(200));
  EXPECT_EQ(layers[0].output, Bytes(1'000'000));  // costs in seconds at 2 GiB/s
  EXPECT_EQ(layers[1].inputs, std::vector{0});
  ASSERT_EQ(layers[0].on.size(), 1u);
  EXPECT_DOUBLE_EQ(layers[0].on[0].forward.value, 20e-3);
  EXPECT_NE(profile.warnings[0].find("edge costs are seconds"), std::string::npos);
  // As the authors' program has it, the same number counts as milliseconds.
  EXPECT_EQ(read_operator_profile(operator_json(), "o.json", ProfileUnits::published).costs.layers[0].output,
            Bytes(1000));
}

TEST(OperatorProfileTest, MistakesAreNamed) {
  const auto error = [](auto change) {
    Json json = operator_json();
    change(json);
    return error_of([&] { read_operator_profile(json, "o.json", ProfileUnits::physical); });
  };
  EXPECT_EQ(error([](auto& j) { j["nodes"][0]["supportedOnFpga"] = 2; }),
            "o.json: /nodes/0/supportedOnFpga: must be true, false, 0 or 1");
  EXPECT_EQ(error([](auto& j) {
              j["edges"].push_back({{"sourceId", 1}, {"destId", 4}, {"cost", 5.0}});
            }),
            "o.json: /edges/3/cost: differs from that of another edge of the same source; all edges "
            "of a source must cost the same");
  EXPECT_EQ(error([](auto& j) { j["edges"][2]["destId"] = 1; }),
            "o.json: the graph has a cycle through or before 'n1'");
  EXPECT_EQ(error([](auto& j) {
              j["nodes"][0]["isBackwardNode"] = true;
              j["nodes"][3]["isBackwardNode"] = false;
            }),
            "operators: backward operator 'n1' feeds forward operator 'n2'");
  EXPECT_EQ(error([](auto& j) { j["nodes"][1]["supportedOnFpga"] = false; }),
            "o.json: 'n2' runs on a CPU only; costs are of one kind of device: give a latency on the accelerator of "
            "every operator");
}

class PipeEdgeProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    write("models.yml",
          "m:\n  layers: 2\n  mem_MB: [1.5, 2]\n  parameters_in: 9\n  parameters_out: [3, 4]\n"
          "Dummy:\n  layers: 0\n  mem_MB: []\n  parameters_in: 0\n  parameters_out: []\n");
    write("device_types.yml",
          "Dummy:\n  bw_Mbps: 0\n  mem_MB: 0\n  model_profiles:\n"
          "board:\n  bw_Mbps: 1000\n  mem_MB: 2048\n  model_profiles:\n    m:\n"
          "    - batch_size: 8\n      dtype: torch.float32\n      time_s: [0.5,\n        0.25]\n"
          "server:\n  bw_Mbps: 1000\n  mem_MB: 8192\n  model_profiles:\n    m:\n"
          "    - batch_size: 8\n      dtype: torch.float32\n      time_s: [0.1, 0.2]\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ + "/" + name) << text; }
  std::string error() const {
    std::string text = error_of([&] { load_profile(folder_ + "/models.yml"); });
    if (text.starts_with(folder_)) text = text.substr(folder_.size() + 1);
    return text;
  }
  // Tests of this class run as processes of their own, side by side.
  std::string folder_ =
      testing::TempDir() + "/pipeedge_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(PipeEdgeProfileTest, HasATimeForEveryTypeOfDevice) {
  const PublishedProfile profile = load_profile(folder_ + "/device_types.yml");
  EXPECT_EQ(profile.costs.model, "m");
  EXPECT_EQ(profile.costs.device, "board");
  EXPECT_EQ(profile.costs.micro_batch, 8);
  const auto& layers = profile.costs.layers;
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_DOUBLE_EQ(layers[1].forward.value, 0.25);
  ASSERT_EQ(layers[1].on.size(), 2u);
  EXPECT_EQ(layers[1].on[1].device, "server");
  EXPECT_DOUBLE_EQ(layers[1].on[1].forward.value, 0.2);
  EXPECT_EQ(layers[1].output, Bytes(4 * 8 * 4));
  EXPECT_EQ(layers[0].parameters, Bytes(1'500'000));
  EXPECT_EQ(layers[0].inputs, std::vector{-1});
}

TEST_F(PipeEdgeProfileTest, AModelIsPickedByName) {
  EXPECT_EQ(load_profile(folder_ + "/models.yml#m").costs.layers.size(), 2u);
  const std::string text = error_of([&] { load_profile(folder_ + "/models.yml#n"); });
  EXPECT_NE(text.find("has no model 'n'"), std::string::npos);
  write("models.yml",
        "m:\n  layers: 1\n  mem_MB: [1]\n  parameters_out: [3]\n"
        "n:\n  layers: 1\n  mem_MB: [1]\n  parameters_out: [3]\n");
  EXPECT_NE(error().find("models.yml: has several models; say which: "), std::string::npos);
}

TEST_F(PipeEdgeProfileTest, MistakesAreNamedWithTheirLine) {
  write("models.yml", "m:\n  layers: 3\n  mem_MB: [1, 2]\n  parameters_out: [3, 4]\n");
  EXPECT_EQ(error(), "models.yml:3: mem_MB has 2 values for 3 layers");
  write("models.yml", "m:\n  layers: 2\n  mem_MB: [1, x]\n  parameters_out: [3, 4]\n");
  EXPECT_EQ(error(), "models.yml:3: mem_MB: 'x' is not a number");
  write("models.yml", "m:\n  layers: 2\n  parameters_out: [3, 4]\n");
  EXPECT_EQ(error(), "models.yml:2: has no 'mem_MB'");
  write("models.yml", "m: [1, 2\n  parameters_out: 3\n");
  EXPECT_EQ(error().substr(0, 25), "models.yml:2: is not YAML");
  SetUp();
  write("device_types.yml", "board:\n  bw_Mbps: 1\n  mem_MB: 1\n  model_profiles:\n");
  EXPECT_EQ(error(), "device_types.yml: no device has measured 'm'");
  std::filesystem::remove(folder_ + "/device_types.yml");
  EXPECT_EQ(error(), "device_types.yml: no such file; PipeEdge's files stand side by side");
}

TEST(LoadProfileTest, FindsTheFormatByContent) {
  const std::string path = testing::TempDir() + "/load_profile_finds_the_format";
  const auto load = [&](const std::string& text) {
    std::ofstream(path) << text;
    return load_profile(path);
  };
  const auto error = [&](const std::string& text) { return error_of([&] { load(text); }).substr(path.size()); };
  EXPECT_EQ(load(node_line("node1", "ReLU")).costs.source, "PipeDream profile");
  EXPECT_EQ(load(piper_json().dump()).costs.source, "Piper profile");
  EXPECT_EQ(load(operator_json().dump()).costs.source, "dnn-partitioning profile");
  CostGraph graph{.model = "m", .source = "profile", .device = "d"};
  graph.layers.push_back({.name = "l", .inputs = {-1}});
  EXPECT_EQ(load(to_json(graph).dump()).costs.source, "profile");
  EXPECT_EQ(error("3 0 0 1\n"),
            ": is a FlexFlow stage file: it says where operators run, not what they take; give a "
            "profile");
  EXPECT_EQ(error("{}").substr(0, 30), ": is JSON of no known profile;");
  EXPECT_EQ(error(" \n"), ": is empty");
  EXPECT_TRUE(error("hello\n").starts_with(":1: is no known workload, model or profile; known: JSON with a schema"));
  EXPECT_EQ(error("{\"mbsInBatch\": \n").substr(0, 3), ":2:");
  EXPECT_TRUE(is_profile_path(path));
  EXPECT_TRUE(is_profile_path(path + "#model"));
  EXPECT_FALSE(is_profile_path("vgg16"));
  EXPECT_FALSE(is_profile_path(testing::TempDir()));
  std::filesystem::remove(path);
}

// What the published files hold, counted in them by other means: layers without the Input nodes and without __getitem__
// nodes that nothing reads; seconds of a forward and a backward; bytes of parameters.
TEST(PublishedProfilesTest, PipeDream) {
  struct Expected {
    const char* name;
    std::size_t layers;
    double seconds;
    double parameters;
  };
  for (const Expected& e : {Expected{"vgg16", 40, 0.672535, 553e6}, Expected{"resnet50", 176, 0.443419, 102e6},
                            Expected{"alexnet", 22, 0.085321, 244e6}, Expected{"gnmt", 37, 0.089416, 775e6}}) {
    const PublishedProfile profile =
        load_profile(published_profile_path("pipedream/" + std::string(e.name) + ".graph.txt"));
    double seconds = 0, parameters = 0;
    for (const LayerCost& l : profile.costs.layers) {
      seconds += (l.forward + l.input_gradient + l.weight_gradient).value;
      parameters += static_cast<double>(l.parameters.value);
    }
    EXPECT_EQ(profile.costs.layers.size(), e.layers) << e.name;
    EXPECT_NEAR(seconds, e.seconds, 1e-9) << e.name;
    EXPECT_NEAR(parameters, e.parameters, 0.01 * e.parameters) << e.name;
  }
  for (const auto& file : std::filesystem::directory_iterator(published_profile_path("pipedream")))
    if (file.path().string().ends_with(".graph.txt")) {
      EXPECT_FALSE(load_profile(file.path()).costs.layers.empty()) << file.path();
    }
}

TEST(PublishedProfilesTest, Piper) {
  const PublishedProfile bert = load_profile(published_profile_path("piper/bert32a100.json"));
  ASSERT_EQ(bert.costs.layers.size(), 37u);
  EXPECT_EQ(bert.microbatches, 1920);
  double seconds = 0;
  for (const LayerCost& l : bert.costs.layers) {
    seconds += l.variants.front().seconds.value;
    EXPECT_EQ(l.variants.size(), 8u);
  }
  EXPECT_NEAR(seconds, 0.972864, 1e-6);
  const PublishedProfile resnet = load_profile(published_profile_path("piper/resnet.json"));
  seconds = 0;
  for (const LayerCost& l : resnet.costs.layers) seconds += l.variants.front().seconds.value;
  EXPECT_NEAR(seconds, 0.462381, 1e-6);  // the file has milliseconds
}

TEST(PublishedProfilesTest, DnnPartitioning) {
  const std::string folder = published_profile_path("dnn-partitioning/throughput-inputs/LayerGraphs/");
  const PublishedProfile resnet = load_profile(folder + "resnet50_training.json");
  double seconds = 0;
  for (const LayerCost& l : resnet.costs.layers) seconds += (l.forward + l.input_gradient + l.weight_gradient).value;
  EXPECT_NEAR(seconds, 0.462381, 1e-9);
  // 32 nodes; 4 of them have no latency and are put on the device of a neighbour.
  EXPECT_EQ(load_profile(folder + "bert24_inference.json").costs.layers.size(), 28u);
  for (const auto& file : std::filesystem::recursive_directory_iterator(published_profile_path("dnn-partitioning")))
    if (file.path().extension() == ".json") {
      EXPECT_FALSE(load_profile(file.path()).costs.layers.empty()) << file.path();
    }
}

TEST(PublishedProfilesTest, PipeEdgeAndFlexFlow) {
  const PublishedProfile vit = load_profile(published_profile_path("pipeedge/models.yml#google/vit-base-patch16-224"));
  ASSERT_EQ(vit.costs.layers.size(), 48u);
  double seconds = 0;
  for (const LayerCost& l : vit.costs.layers) seconds += l.forward.value;
  EXPECT_NEAR(8 / seconds, 0.6126, 5e-5);  // images a second on the MinnowBoard
  for (const auto& file : std::filesystem::directory_iterator(published_profile_path("flexflow_gpp"))) {
    const std::string name = file.path().filename();
    if (name.find("partition") == std::string::npos) continue;
    EXPECT_NE(error_of([&] { load_profile(file.path()); }).find("is a FlexFlow stage file"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace sluice
