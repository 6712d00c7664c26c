// From costs of workloads/import_pytorch.py to the settings of torchtitan.
#include "harness/cli/cli_test_support.h"

namespace sluice {
namespace {

class Torchtitan : public Cli {
 protected:
  // A chain: an embedding, four blocks of two layers of a second each way, a head with its loss. Micro-batch: 2.
  std::string costs(const std::string& second_of_block = "layers") const {
    Json layers = Json::array();
    const auto add = [&](const std::string& name, const std::string& part, double seconds) {
      Json layer = {{"name", name},
                    {"inputs", {static_cast<int>(layers.size()) - 1}},
                    {"forward", seconds},
                    {"input_gradient", seconds},
                    {"weight_gradient", seconds},
                    {"update", 0},
                    {"parameters", 4000},
                    {"output", 400},
                    {"rides", name == "loss"}};
      if (!part.empty()) layer["part"] = part;
      layers.push_back(layer);
    };
    add("tok_embeddings", "tok_embeddings", 0.01);
    for (int i = 0; i < 4; ++i) {
      const std::string block = "layers." + std::to_string(i);
      add(block + ".attention", block, 1);
      add(block + ".mlp", second_of_block == "layers" ? block : block + ".mlp", 1);
    }
    add("output", "output", 0.01);
    add("loss", "", 0.001);
    return put("net.costs.json", Json{{"schema", "sluice/cost_graph/1"},
                                      {"model", "net"},
                                      {"source", "test"},
                                      {"device", "test"},
                                      {"micro_batch", 2},
                                      {"layers", layers}}
                                     .dump());
  }
  Arguments plan(const Arguments& more, const std::string& system = "1f1b") const {
    Arguments all = {"plan", "-s", system, "-w", at("net.costs.json"), "-c", "flat:2", "-b", "16", "-m", "8"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(Torchtitan, APlanNamesTheModulesOfItsStages) {
  costs();
  EXPECT_EQ(document(plan({"--json"}))["module_fqns_per_model_part"].dump(),
            R"([["tok_embeddings","layers.0","layers.1"],["layers.2","layers.3","output"]])");
}

TEST_F(Torchtitan, StagesAreReadFromTheModulesThatAPlanNames) {
  costs();
  const std::string modules = R"([["tok_embeddings","layers.0"],["layers.1","layers.2","layers.3","output"]])";
  const Json of_modules = document(plan({"--json", "--stages", modules}));
  EXPECT_EQ(of_modules["module_fqns_per_model_part"].dump(), modules);
  EXPECT_EQ(of_modules["stages"], document(plan({"--json", "--stages", "3"}))["stages"]);
  rejects(plan({"--stages", R"([["tok_embeddings","layers.0"],["layers.1","layers.2","output"]])"}),
          {"--stages", "no stage has the layer 'layers.3'"});
}

TEST_F(Torchtitan, ACutInsideAModuleIsLeftOutWithTheReason) {
  costs();
  const Finished f = sluice(plan({"--json", "--stages", "4"}));
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.out.find("module_fqns"), std::string::npos);
  EXPECT_NE(f.err.find("no module_fqns_per_model_part: 'layers.1' is in stages 0 and 1"), std::string::npos) << f.err;
  rejects(plan({"--torchtitan", at("t.toml"), "--stages", "4"}), {"torchtitan", "'layers.1' is in stages 0 and 1"});
  EXPECT_FALSE(fs::exists(at("t.toml")) || fs::exists(at("t.csv")));
}

TEST_F(Torchtitan, SettingsAreWrittenInOneCommand) {
  costs();
  EXPECT_EQ(sluice(plan({"--torchtitan", at("t.toml")})).code, 0);
  const std::string settings = content(at("t.toml"));
  EXPECT_EQ(settings,
            "[training]\n"
            "local_batch_size = 16  # 8 micro-batches of 2 samples, of each replica\n"
            "global_batch_size = 16\n\n"
            "[parallelism]\n"
            "pipeline_parallel_degree = 2\n"
            "data_parallel_replicate_degree = 1\n"
            "data_parallel_shard_degree = 1\n"
            "tensor_parallel_degree = 1\n"
            "pipeline_parallel_schedule = \"1F1B\"  # names the placement; the table below is the order\n"
            "pipeline_parallel_schedule_csv = \"" +
                at("t.csv") +
                "\"\n"
                "pipeline_parallel_microbatch_size = 2\n"
                "module_fqns_per_model_part = [[\"tok_embeddings\",\"layers.0\",\"layers.1\"],"
                "[\"layers.2\",\"layers.3\",\"output\"]]\n\n"
                "[activation_checkpoint]\n"
                "mode = \"none\"  # as in the plan\n");
  EXPECT_EQ(content(at("t.csv")), sluice({"schedule", "-s", "1f1b", "-n", "2", "-m", "8", "--csv"}).out);
}

TEST_F(Torchtitan, TheScheduleIsNamedAfterThePlacement) {
  costs();
  const auto named = [&](const std::string& system, const std::string& option) {
    fs::remove(at("t.toml"));
    const Finished f = sluice(plan({"-O", option, "--torchtitan", at("t.toml")}, system));
    EXPECT_EQ(f.code, 0) << f.err;
    const std::string text = content(at("t.toml")), key = "pipeline_parallel_schedule = ";
    return text.substr(text.find(key) + key.size(), text.find("  #", text.find(key)) - text.find(key) - key.size());
  };
  EXPECT_EQ(named("interleaved_1f1b", "chunks=2"), "\"Interleaved1F1B\"");
  EXPECT_EQ(named("zero_bubble", "variant=v"), "\"ZBVZeroBubble\"");
  EXPECT_EQ(named("hanayo", "waves=1"), "\"ZBVZeroBubble\"");
  rejects(plan({"-O", "waves=2", "--torchtitan", at("u.toml")}, "hanayo"), {"torchtitan", "rank 0 has the stages"});
}

TEST_F(Torchtitan, RecomputationIsActivationCheckpointingOfAllBlocksOrNone) {
  costs();
  EXPECT_EQ(sluice(plan({"-O", "recompute=all", "--torchtitan", at("t.toml")})).code, 0);
  EXPECT_NE(content(at("t.toml")).find("[activation_checkpoint]\nmode = \"full\"  # of every block"),
            std::string::npos);
  // Where a backward follows its forward at once, or of an update's last micro-batch, nothing is recomputed.
  const std::vector<std::string> reason = {"torchtitan", "recomputes some micro-batches of an update and keeps others"};
  rejects(plan({"-O", "recompute=needed", "--torchtitan", at("u.toml")}), reason);
  rejects(plan({"--torchtitan", at("u.toml")}, "torchgpipe"), reason);
}

TEST_F(Torchtitan, ReplicasAreADegree) {
  costs();
  EXPECT_EQ(sluice({"plan", "-s", "1f1b", "-w", at("net.costs.json"), "-c", "flat:4", "-b", "32", "-m", "16",
                    "--data-parallel", "2", "--torchtitan", at("t.toml")})
                .code,
            0);
  const std::string settings = content(at("t.toml"));
  for (const char* line : {"local_batch_size = 16 ", "global_batch_size = 32\n", "pipeline_parallel_degree = 2\n",
                           "data_parallel_replicate_degree = 2\n"})
    EXPECT_NE(settings.find(line), std::string::npos) << line << settings;
}

TEST_F(Torchtitan, AdviceNamesModulesAndWritesSettings) {
  costs();
  const Arguments advise = {"advise", "-w", at("net.costs.json"), "-c", "flat:2", "-b", "16", "-m", "8", "-s", "1f1b"};
  Arguments json = advise;
  json.insert(json.end(), {"--json", "--torchtitan", at("t.toml")});
  EXPECT_EQ(document(json)["winner"]["module_fqns_per_model_part"].size(), 2u);
  EXPECT_NE(content(at("t.toml")).find("pipeline_parallel_degree = 2"), std::string::npos);
}

TEST_F(Torchtitan, AWinnerThatPyTorchCannotRunLeavesTheUsersTableAlone) {
  costs();
  const std::string table = put("w.csv", "0F0,0B0\n");
  const Finished f = sluice({"advise", "-w", at("net.costs.json"), "-c", "flat:2", "-b", "16", "-m", "8", "-s",
                             "data_parallel", "--csv", table});
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.out.find("data_parallel"), std::string::npos);  // the advice is printed
  EXPECT_EQ(content(table), "0F0,0B0\n");
}

TEST_F(Torchtitan, AdviceWhoseFilesCannotBeWrittenIsNoDocument) {
  costs();
  for (const Arguments& files : {Arguments{"-s", "data_parallel", "--csv", at("w.csv")},
                                 Arguments{"-s", "1f1b", "--torchtitan", at("none/t.toml")}}) {
    Arguments json = {"advise", "-w", at("net.costs.json"), "-c", "flat:2", "-b", "16", "-m", "8", "--json"};
    json.insert(json.end(), files.begin(), files.end());
    const Finished f = sluice(json);
    EXPECT_EQ(f.code, 2) << f.err;
    EXPECT_EQ(f.out, "");
    EXPECT_NE(f.err, "");
  }
}

TEST_F(Torchtitan, WhatIsFrozenHasNoGradientAndNoOptimizerState) {
  const std::string text = content(costs());
  const auto memory = [&](const std::string& frozen) {
    std::string edited = text;
    edited.insert(edited.find("\"parameters\":4000"), frozen);
    put("net.costs.json", edited);
    const Finished f = sluice({"run", "-s", "single_device", "-w", at("net.costs.json"), "--clock", "virtual", "-c",
                               "flat:1", "-n", "1", "--optimizer", "adamw", "--out", at(frozen.empty() ? "a" : "b")});
    EXPECT_EQ(f.code, 0) << f.err;
    return Json::parse(content(at(frozen.empty() ? "a" : "b")))["peak_bytes"][0];
  };
  const Json all = memory(""), without = memory("\"frozen\":3000,");
  EXPECT_EQ(all["weights"], without["weights"]);
  EXPECT_EQ(all["gradients"].get<int>() - without["gradients"].get<int>(), 3000);
  EXPECT_EQ(all["optimizer"].get<int>() - without["optimizer"].get<int>(), 2 * 3000);
}

TEST_F(Torchtitan, WhatIsFrozenIsNoMoreThanTheParameters) {
  std::string text = content(costs());
  const std::string key = "\"parameters\":4000";
  text.insert(text.find(key), "\"frozen\":4001,");
  put("net.costs.json", text);
  rejects(plan({}), {"/layers/0/frozen", "more than the layer's parameters"});
}

}  // namespace
}  // namespace sluice
