#include <gtest/gtest.h>
#include <sluice_build.h>

#include <map>

#include "harness/base/error.h"
#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/run/verify.h"

namespace sluice {
namespace {

const Json& vectors() {
  static const Json file = parse_json_file(std::string(SLUICE_SOURCE_DIR) + "/harness/tests/data/weights.json");
  return file;
}

// The file with only the case of that name.
Json only_case(const std::string& name) {
  Json file = vectors();
  Json kept = Json::array();
  for (const auto& c : file["cases"])
    if (c["name"] == name) kept.push_back(c);
  EXPECT_EQ(kept.size(), 1u) << name;
  file["cases"] = kept;
  return file;
}

VerifyResult verify_one(const Json& file) {
  const auto results = verify(file, "test.json", 1e-9, {});
  EXPECT_EQ(results.size(), 1u);
  return results.front();
}

std::string verify_error_of(const Json& file, const std::vector<std::string>& only = {}) {
  try {
    verify(file, "test.json", 1e-9, only);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Verify, AllCasesPass) {
  const auto results = verify(vectors(), "weights.json", 1e-9, {});
  EXPECT_EQ(results.size(), 200u);
  double largest = 0;
  for (const VerifyResult& r : results) {
    EXPECT_EQ(r.verdict, VerifyResult::Verdict::pass) << r.name << ": " << r.detail;
    largest = std::max(largest, r.largest_error);
  }
  // Something was compared: exact agreement of all the sums would be a miracle.
  EXPECT_GT(largest, 0);
  EXPECT_LE(largest, 1e-9);
}

// NAdam, Muon and Adam in a rotated basis on PipeDream's and 2BW's versions, error feedback, the stages' own rates and
// momenta, and weights rebuilt from a moving average.
TEST(Verify, AllCasesOf2025Pass) {
  const Json file = parse_json_file(std::string(SLUICE_SOURCE_DIR) + "/harness/tests/data/weights_2025.json");
  const std::vector<VerifyResult> results = verify(file, "weights_2025.json", 1e-9, {});
  EXPECT_EQ(results.size(), 134u);
  for (const VerifyResult& r : results) EXPECT_EQ(r.verdict, VerifyResult::Verdict::pass) << r.name << ": " << r.detail;
}

TEST(Verify, AChangedWeightIsFoundAndNamed) {
  Json file = only_case("pipedream-K2-sgd");
  auto& weight = file["cases"][0]["weights"][1][4][0];
  weight = weight.get<double>() + 1e-6;
  const VerifyResult result = verify_one(file);
  EXPECT_EQ(result.verdict, VerifyResult::Verdict::mismatch);
  EXPECT_NE(result.detail.find("weight of stage 1 after update 4"), std::string::npos) << result.detail;
  EXPECT_NEAR(result.largest_error, 1e-6, 1e-9);
}

TEST(Verify, AChangedLossIsFound) {
  Json file = only_case("flush-K2-m2-sgdm");
  auto& loss = file["cases"][0]["losses"][3];
  loss = loss.get<double>() + 1e-6;
  const VerifyResult result = verify_one(file);
  EXPECT_EQ(result.verdict, VerifyResult::Verdict::mismatch);
  EXPECT_NE(result.detail.find("loss of update"), std::string::npos) << result.detail;
}

TEST(Verify, AChangedVersionIsFoundForForwardsAndBackwards) {
  for (const char* direction : {"F", "B"}) {
    Json file = only_case("pipedream-K2-sgd");
    auto& entry = file["cases"][0]["versions"]["stage0"][direction][3];
    entry[1] = entry[1].get<int>() + 1;
    const VerifyResult result = verify_one(file);
    EXPECT_EQ(result.verdict, VerifyResult::Verdict::mismatch) << direction;
    EXPECT_NE(result.detail.find("reads version"), std::string::npos) << result.detail;
  }
}

TEST(Verify, AVersionListThatLeavesABatchOutIsFound) {
  Json file = only_case("pipedream-K2-sgd");
  file["cases"][0]["versions"]["stage0"]["F"].erase(2);
  EXPECT_EQ(verify_one(file).verdict, VerifyResult::Verdict::mismatch);
}

TEST(Verify, AMissingUpdateIsFound) {
  Json file = only_case("sequential-K2-sgd");
  file["cases"][0]["weights"][0].erase(8);
  const VerifyResult result = verify_one(file);
  EXPECT_EQ(result.verdict, VerifyResult::Verdict::mismatch);
  EXPECT_NE(result.detail.find("made 8 updates, expected 7"), std::string::npos) << result.detail;
}

TEST(Verify, WeightsOfFewerStagesThanTheCaseHasAreAnError) {
  // It would otherwise pass with half of it unseen.
  Json file = only_case("sequential-K2-sgd");
  file["cases"][0]["weights"].erase(1);
  EXPECT_NE(verify_error_of(file).find("each of the 2 stages"), std::string::npos) << verify_error_of(file);
}

TEST(Verify, ASystemThatNobodyReplaysIsUnsupportedNotPassed) {
  Json file = only_case("sequential-K2-sgd");
  file["cases"][0]["system"] = "perpetuum_mobile";
  const VerifyResult result = verify_one(file);
  EXPECT_EQ(result.verdict, VerifyResult::Verdict::unsupported);
  EXPECT_NE(result.detail.find("perpetuum_mobile"), std::string::npos);
}

TEST(Verify, ANamePicksOneCaseAndAStarAPrefix) {
  EXPECT_EQ(verify(vectors(), "weights.json", 1e-9, {"naive-K2-sgd"}).size(), 1u);
  EXPECT_EQ(verify(vectors(), "weights.json", 1e-9, {"flush-*"}).size(), 18u);
  EXPECT_NE(verify_error_of(vectors(), {"nothing-*"}).find("no case matches"), std::string::npos);
}

TEST(Verify, FilesOfAnotherKindAreInputErrors) {
  const Json good = only_case("pipedream-K2-sgd");
  const auto changed = [&](const char* pointer, Json value) {
    Json file = good;
    at_pointer(file, pointer) = std::move(value);
    return verify_error_of(file);
  };
  EXPECT_EQ(verify_error_of(good), "");
  EXPECT_NE(verify_error_of(Json::object()), "");
  EXPECT_NE(verify_error_of(Json::array()), "");
  EXPECT_NE(changed("/cases", 3), "");
  EXPECT_NE(changed("/cases/0", "a case"), "");
  EXPECT_NE(changed("/cases/0/name", 3), "");
  EXPECT_NE(changed("/x", "numbers"), "");
  EXPECT_NE(changed("/x", Json::array()), "");         // fewer batches
  EXPECT_NE(changed("/x/0", Json::array({1.0})), "");  // fewer samples
  EXPECT_NE(changed("/a0", Json::array({1.0})), "");   // fewer stages
  EXPECT_NE(changed("/b0/1", "one"), "");
  EXPECT_NE(changed("/cases/0/stages", 0), "");
  EXPECT_NE(changed("/cases/0/stages", -3), "");
  EXPECT_NE(changed("/cases/0/batches", 0), "");
  EXPECT_NE(changed("/cases/0/drained_epochs", 3), "");                          // does not divide 8
  for (const char* accumulate : {"/cases/0/accumulate", "/cases/1/accumulate"})  // an asynchronous system's, too
    EXPECT_NE(changed(accumulate, 3), "");
  EXPECT_NE(changed("/cases/0/drained_epochs", 100), "");
  EXPECT_NE(changed("/cases/0/accumulate", 0), "");
  EXPECT_NE(changed("/cases/0/optimizer_config/kind", "lion"), "");
  EXPECT_NE(changed("/cases/0/optimizer_config/lr", "fast"), "");
  EXPECT_NE(changed("/cases/0/weights", "heavy"), "");
  EXPECT_NE(changed("/cases/0/weights/0/0", Json::array()), "");  // no numbers inside
  EXPECT_NE(changed("/cases/0/weights/0/0/0", nullptr), "");
  EXPECT_NE(changed("/cases/0/losses", Json::array({0.5})), "");
  EXPECT_NE(changed("/cases/0/versions", Json::object()), "");
  EXPECT_NE(changed("/cases/0/versions/stage0/F/0", Json::array()), "");
}

}  // namespace
}  // namespace sluice
