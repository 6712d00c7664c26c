#include "workloads/models/workload_file.h"

#include <gtest/gtest.h>
#include <sluice_build.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/model/model_json.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

class WorkloadFile : public testing::Test {
 protected:
  WorkloadFile() { std::filesystem::create_directories(folder_); }
  ~WorkloadFile() override { std::filesystem::remove_all(folder_); }
  std::string put(const Json& json, const std::string& name = "w.json") const {
    std::ofstream(folder_ + "/" + name) << json.dump();
    return folder_ + "/" + name;
  }
  // What reading the workload says after a member of it was changed, without the folder's name.
  std::string error(const std::string& pointer, const Json& value) const {
    Json json = usual();
    at_pointer(json, pointer) = value;
    const std::string path = put(json);
    std::string text = error_of([&] { read_workload(path, "w"); });
    return text.starts_with(folder_) ? text.substr(folder_.size() + 1) : text;
  }
  static Json usual() {
    Json json = to_json(find_workload("fmnist_mlp"));
    json["optimizer"]["kind"] = "adam";
    json["optimizer"]["momentum"] = 0;
    return json;
  }
  const std::string folder_ =
      testing::TempDir() + "workload_file_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(WorkloadFile, EveryListedWorkloadRoundTrips) {
  for (const Workload& w : all_workloads()) {
    SCOPED_TRACE(w.name);
    const Json written = to_json(w);
    const Workload back = read_workload(put(written), w.name);
    EXPECT_EQ(to_json(back), written);
    const std::string text = file_text(w);
    EXPECT_EQ(to_json(read_workload(put(Json::parse(text, "text")), w.name)), written);
    if (w.name == "gpt_1.3b") {
      EXPECT_LT(std::ranges::count(text, '\n'), 40) << text;
    }
    EXPECT_EQ(back.model.shapes(), w.model.shapes());
    EXPECT_EQ(parameter_count(back.model), parameter_count(w.model));
    EXPECT_EQ(back.name, w.name);
    EXPECT_EQ(back.title, w.title);
    EXPECT_EQ(back.dataset, w.dataset);
    EXPECT_EQ(back.metric_direction, w.metric_direction);
    EXPECT_EQ(back.target, w.target);
    EXPECT_EQ(back.epochs, w.epochs);
    EXPECT_EQ(back.batch, w.batch);
    EXPECT_EQ(back.optimizer.lr, w.optimizer.lr);
    EXPECT_EQ(back.runs_for_real, w.runs_for_real);
    for (std::size_t i = 0; i < w.model.layers.size(); ++i) {
      EXPECT_EQ(back.model.layers[i].inputs, w.model.layers[i].inputs);
      EXPECT_EQ(back.model.layers[i].block, w.model.layers[i].block);
    }
  }
}

TEST_F(WorkloadFile, AModelAloneTrainsOnOneRandomBatch) {
  const std::string path = put(to_json(find_workload("fmnist_cnn").model));
  const Workload& w = find_workload(path);
  EXPECT_EQ(w.name, path);
  EXPECT_EQ(w.dataset, "synthetic");
  EXPECT_EQ(w.batch, 32);
  EXPECT_EQ(w.microbatches, 4);
  EXPECT_TRUE(w.runs_for_real);
  EXPECT_EQ(&find_workload(path), &w);
}

TEST_F(WorkloadFile, TheModelMayBeAFileBesideIt) {
  put(to_json(find_workload("fmnist_mlp").model), "layers.json");
  Json json = usual();
  json["model"] = "layers.json";
  EXPECT_EQ(read_workload(put(json), "w").model.layers.size(), find_workload("fmnist_mlp").model.layers.size());
  json["model"] = "elsewhere.json";
  EXPECT_EQ(error_of([&] { read_workload(put(json), "w"); }),
            folder_ + "/elsewhere.json: no such file; check its name and folder");
}

TEST_F(WorkloadFile, MistakesNameTheirPlace) {
  EXPECT_EQ(error("/batch", 130),
            "w.json: /microbatches: 4 micro-batches do not divide the batch of 130; choose a batch that is a multiple");
  EXPECT_EQ(error("/optimizer/kind", "adma"), "w.json: /optimizer/kind: unknown value 'adma'; did you mean 'adam'?");
  EXPECT_EQ(error("/optimizer/momentum", 0.9),
            "w.json: /optimizer/momentum: belongs to sgd, not to adam; leave it out");
  EXPECT_EQ(error("/optimizer/lr", 0.9),
            "w.json: /optimizer/lr: unknown key 'lr'; known: kind, learning_rate, momentum, weight_decay");
  EXPECT_EQ(error("/precision", "bf16"), "w.json: /precision: unknown value 'bf16'; known: fp32");
  EXPECT_EQ(error("/data/set", "synthetic"), "w.json: /data/epochs: one random batch has no epochs; leave it out");
  EXPECT_EQ(error("/model/layers/1/kind", "Dense").substr(0, 51),
            "w.json: /model/layers/1/kind: unknown kind 'Dense';");
  const std::string last = std::to_string(find_workload("fmnist_mlp").model.layers.size() - 1);
  EXPECT_EQ(
      error("/model/layers/" + last, {{"name", "end"}, {"kind", "Flatten"}}),
      "w.json: /model/layers: the last layer, 'end', is no loss; end the layers with {\"name\": \"loss\", \"kind\": "
      "\"CrossEntropyLoss\"} or MseLoss");
  EXPECT_EQ(
      error("/model/layers/" + last, {{"name", "end"}, {"kind", "MseLoss"}}),
      "w.json: /data/set: data sets have classes, the model ends in MseLoss; end it in CrossEntropyLoss, or leave "
      "data out: one random batch then");
}

TEST_F(WorkloadFile, OtherFilesAreNone) {
  EXPECT_FALSE(is_workload_file(put({{"schema", "sluice/cost_graph/1"}})));
  EXPECT_FALSE(is_workload_file(folder_));
  EXPECT_FALSE(is_workload_file(folder_ + "/none.json"));
  const std::string costs = put({{"schema", "sluice/cost_graph/1"}});
  EXPECT_EQ(error_of([&] { find_workload(costs); }), "--workload: '" + costs +
                                                         "' holds no layers that could run; give a file of "
                                                         "sluice/workload/1 or sluice/model/1");
}

TEST_F(WorkloadFile, TheSchemaKnowsEveryMember) {
  const Json schema = parse_json_file(SLUICE_SOURCE_DIR "/workloads/models/workload.schema.json");
  Json all = usual();
  for (const auto& [key, value] : all.items()) EXPECT_TRUE(schema["properties"].contains(key)) << key;
  for (const auto& [key, value] : schema["properties"].items()) EXPECT_TRUE(all.contains(key)) << key;
  for (const char* part : {"data", "optimizer"}) {
    for (const auto& [key, value] : all[part].items())
      EXPECT_TRUE(schema["properties"][part]["properties"].contains(key)) << part << "/" << key;
    EXPECT_EQ(schema["properties"][part]["properties"].size(), all[part].size());
  }
}

}  // namespace
}  // namespace sluice
