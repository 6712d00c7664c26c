// Training with delayed weight gradients gives the weights that the delay rule alone gives. The expected weights are
// made by systems/layerpipe/testdata/delayed_weights.py, which knows no schedule and no program.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/run_program.h"
#include "harness/run/verify.h"

namespace sluice {
namespace {

const char* const kData = SLUICE_SOURCE_DIR "/systems/layerpipe/testdata/delayed_weights";

TEST(DelayedGradients, TrainingGivesTheWeightsOfTheDelayRule) {
  const auto results = verify(parse_json_file(std::string(kData) + ".json"), "delayed_weights.json", 1e-9, {});
  EXPECT_EQ(results.size(), 30u);
  for (const VerifyResult& r : results) EXPECT_EQ(r.verdict, VerifyResult::Verdict::pass) << r.name << ": " << r.detail;
}

TEST(DelayedGradients, AnotherDelayGivesOtherWeights) {
  Json file = parse_json_file(std::string(kData) + ".json");
  Json one = Json::array();
  for (const auto& c : file["cases"])
    if (c["name"] == "lanes-K4-stash-sgd") one.push_back(c);
  ASSERT_EQ(one.size(), 1u);
  one[0]["options"]["gradient_delay"] = 2;
  file["cases"] = one;
  EXPECT_EQ(verify(file, "delayed_weights.json", 1e-9, {}).front().verdict, VerifyResult::Verdict::mismatch);
}

TEST(DelayedGradients, TheExpectedWeightsAreThoseOfTheScriptThatStatesTheRule) {
  const ProgramEnd end = run_program({"python3", std::string(kData) + ".py", "--check"}, {.with_errors = true});
  if (end.error != 0) GTEST_SKIP() << "python3 is not there";
  EXPECT_TRUE(end.ok()) << end.output;
}

}  // namespace
}  // namespace sluice
