// What the setting stages does: every system runs on the given stages, or says why it cannot.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/make_program.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/model/pipeline_layout.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

RunCase on_given_stages(const System& system, const std::string& stages) {
  return resolve({{{"system", system.name},
                   {"workload", "gpt_tiny"},
                   {"clock", "virtual"},
                   {"cluster", "flat:2"},
                   {"batch", 16},
                   {"microbatches", 8},
                   {"steps", 1},
                   {"stages", stages}},
                  in_file("test", "")});
}

// A lopsided cut, which no planner would make: the first layer alone. Systems with two stages on a device get four.
TEST(GivenStages, EverySystemRunsOnThemOrIsOfTheWholeModel) {
  std::vector<std::string> others;
  for (const System* system : all_systems()) {
    RunCase c = on_given_stages(*system, "1");
    if (c.first_layers.empty()) continue;
    std::size_t stages = 2;
    if (error_of([&] { prepare(c, test_profiles()); }).find("cuts the model into 4") != std::string::npos)
      c = on_given_stages(*system, "1,2,3"), stages = 4;
    const std::size_t slices = system->divides_words ? 4 : 0;  // of embedding and head on two devices
    if (system->name == "layerpipe_style") c = on_given_stages(*system, ""), stages = 0;  // one stage, two devices
    const std::string error = error_of([&] {
      const Prepared p = prepare(c, test_profiles());
      if (stages == 0) return;
      ASSERT_EQ(p.pipeline.stages.size(), stages + slices) << system->name;
      for (std::size_t s = 0; s + 1 < stages && slices == 0; ++s)
        EXPECT_EQ(p.pipeline.stages[s].layers, std::vector{static_cast<int>(s)}) << system->name;
      make_program(p, p.microbatches_per_update);
    });
    if (error != "no error") others.push_back(system->name + ": " + error);
  }
  EXPECT_EQ(others, std::vector<std::string>());
}

TEST(GivenStages, CutsBetweenBlocksMakeALayoutThatIsReadAsTheSameStages) {
  const Json entry = {{"system", "interleaved_1f1b"}, {"workload", "gpt_1.3b"},     {"clock", "virtual"},
                      {"cluster", "dgx_h100"},        {"options", {{"chunks", 2}}}, {"cuts", "blocks"}};
  const auto first_layers = [](const RunCase& c) {
    std::vector<int> first;
    for (const PlanStage& stage : prepare(c, test_profiles()).pipeline.stages) first.push_back(stage.layers.front());
    return std::vector<int>(first.begin() + 1, first.end());
  };
  const std::vector<int> cuts = first_layers(resolve({entry, in_file("test", "")}));
  const std::string layout = layout_of_stages(cuts, find_workload("gpt_1.3b").model);
  ASSERT_NE(layout, "");
  Json given = entry;
  given.erase("cuts");
  given["stages"] = layout;
  EXPECT_EQ(first_layers(resolve({given, in_file("test", "")})), cuts);
  Json none = entry;
  none["workload"] = "fmnist_mlp";
  EXPECT_EQ(error_of([&] {
              resolve({none, in_file("test", "")});
            }),
            "test: /cuts: 'fmnist_mlp' has no blocks that repeat; use messages or compute");
}

}  // namespace
}  // namespace sluice
