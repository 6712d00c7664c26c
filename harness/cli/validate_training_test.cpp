// `sluice validate` from end to end, on one small case; how close the clocks are is measured by the test of the label
// `validation`, which needs an idle machine.
#include <map>
#include <set>

#include "harness/cli/cli_test_support.h"

namespace sluice {
namespace {

TEST_F(Cli, ValidateMeasuresAProfileAndRunsACaseOnBothClocksInEveryRound) {
  const Variables own_profiles = {{"SLUICE_PROFILE_CACHE", at("profiles")}};
  const Finished f = sluice({"validate", "--filter", "one_f_one_b tiny", "--threads-only", "--ranks", "2", "--rounds",
                             "2", "--seconds", "0.01", "--out", at("v.jsonl"), "--chart", at("v.vl.json"), "--json"},
                            own_profiles);
  ASSERT_EQ(f.code, 0) << f.err;
  const Json result = Json::parse(f.out);
  ASSERT_GE(result["cases"].size(), 1u);
  EXPECT_GT(result["cases"][0]["wall_seconds"].get<double>(), 0);
  EXPECT_GT(result["cases"][0]["simulated_seconds"].get<double>(), 0);
  EXPECT_FALSE(fs::exists(at("profiles")));  // the rounds' short profiles are for nothing else
  EXPECT_TRUE(Json::parse(content(at("v.vl.json"))).contains("layer"));
  int wall = 0;
  std::map<int, std::set<std::string>> profiles;  // of a round's cases, on both clocks
  for (const Json& record : records(at("v.jsonl"))) {
    EXPECT_TRUE(record["environment"].contains("profile"));
    EXPECT_FALSE(record["observed"]["staleness"].empty());
    wall += record["clock"] == "wall";
    profiles[record["environment"]["validation"]["round"].get<int>()].insert(
        record["environment"]["profile"]["made"].get<std::string>());
  }
  EXPECT_EQ(profiles.size(), 2u);
  EXPECT_NE(profiles[0], profiles[1]);
  EXPECT_EQ(wall, 2 * static_cast<int>(result["cases"].size()));
  // The records say the same again.
  const Json again = document({"validate", "--records", at("v.jsonl"), "--json"});
  EXPECT_EQ(again["cases"], result["cases"]);
}

TEST_F(Cli, ValidateRejectsWhatItCannotDo) {
  rejects({"validate", "--filter", "no such case"}, {"--filter", "no such case"});
  rejects({"validate", "--rounds", "0"}, {"--rounds"});
  rejects({"validate", "--device", "tpu"}, {"--device", "tpu", "cpu or cuda"});
  rejects({"validate", "--seconds", "0"}, {"--seconds"});
  rejects({"validate", "--out", put("there.jsonl", "")}, {"--out", "exists"});
}

}  // namespace
}  // namespace sluice
