// That no figure counts twice as evidence, and that the committed claims use whatever scenarios can measure.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include <map>
#include <set>

#include "harness/claims/claim.h"

namespace sluice {
namespace {

const std::filesystem::path kCommitted = SLUICE_SOURCE_DIR "/results/claims";

const std::vector<PaperClaims>& committed() {
  static const std::vector<PaperClaims> papers = [] {
    std::vector<PaperClaims> all;
    for (const std::string& paper : listed_papers(kCommitted))
      all.push_back(read_claims(kCommitted / (paper + ".json")));
    return all;
  }();
  return papers;
}

// A scenario that is a member of another one, with the fields that they share.
Json member_of(const Json& whole, const Json& own) {
  const Json* both = whole.find("both");
  Json member = both ? *both : Json::object();
  merge_fields(member, own);
  return member;
}

std::vector<Json> members_of(const Json& scenario) {
  std::vector<Json> members;
  if (scenario["kind"] == "ratio")
    for (const char* part : {"numerator", "denominator"}) members.push_back(member_of(scenario, scenario[part]));
  if (const Json* of = scenario.find("of"))
    for (const auto& [name, own] : of->items()) members.push_back(member_of(scenario, own));
  return members;
}

// "group, name" of the claims that count and say nothing new: their scenario is that of another claim that counts, or
// a ratio of two such scenarios.
std::set<std::string> counted_twice(const PaperClaims& paper) {
  std::map<std::string, std::string> first;  // claims by their scenarios
  std::set<std::string> twice;
  const auto counted = [](const Claim& claim) { return claim.scenario && counts(claim.evidence); };
  const auto name_of = [](const Claim& claim) { return claim.group + ", " + claim.name; };
  for (const Claim& claim : paper.claims)
    if (counted(claim) && !first.try_emplace(claim.scenario_json.dump(), name_of(claim)).second)
      twice.insert(name_of(claim));
  for (const Claim& claim : paper.claims) {
    if (!counted(claim) || claim.scenario_json["kind"] != "ratio") continue;
    const std::vector<Json> parts = members_of(claim.scenario_json);
    if (first.contains(parts[0].dump()) && first.contains(parts[1].dump())) twice.insert(name_of(claim));
  }
  return twice;
}

// Makespans of GPipe on 2 ranks with 4 and 8 micro-batches, and their ratio.
Json makespans() {
  return Json::parse(R"({"title": "A paper", "citation": "Somebody, 2020", "groups": [
    {"name": "times", "kind": "formula", "source": "Table 1", "evidence": "A", "what": "makespan",
     "scenario": {"kind": "schedule", "system": "gpipe", "ranks": 2, "measure": "makespan"},
     "claims": [{"name": "four", "published": 15, "scenario": {"microbatches": 4}},
                {"name": "eight", "published": 27, "scenario": {"microbatches": 8}}]},
    {"name": "ratios", "kind": "formula", "source": "Table 1", "evidence": "A", "what": "ratio", "effect": "gain",
     "claims": [{"name": "eight over four", "published": 1.8, "scenario": {"kind": "ratio",
       "both": {"kind": "schedule", "system": "gpipe", "ranks": 2, "measure": "makespan"},
       "numerator": {"microbatches": 8}, "denominator": {"microbatches": 4}}}]}]})");
}

std::set<std::string> counted_twice(const Json& document) {
  return counted_twice(claims_from_json(document, "paper", "paper.json"));
}

TEST(CountedTwice, IsARatioOfTwoFiguresThatCount) {
  Json document = makespans();
  EXPECT_EQ(counted_twice(document), std::set<std::string>{"ratios, eight over four"});
  document["groups"][0]["claims"][1]["evidence"] = "derived";
  EXPECT_TRUE(counted_twice(document).empty());
}

TEST(CountedTwice, IsAFigureWithTheScenarioOfAnother) {
  Json document = makespans();
  document["groups"].erase(1);
  EXPECT_TRUE(counted_twice(document).empty());
  document["groups"][0]["claims"][1]["scenario"]["microbatches"] = 4;
  EXPECT_EQ(counted_twice(document), std::set<std::string>{"times, eight"});
}

TEST(CommittedEvidence, CountsNoFigureTwice) {
  for (const PaperClaims& paper : committed()) EXPECT_EQ(counted_twice(paper), std::set<std::string>{}) << paper.paper;
}

TEST(CommittedEvidence, NoToleranceWasChosenAfterItsOutcome) {
  for (const PaperClaims& paper : committed())
    for (const Claim& claim : paper.claims)
      for (const char* afterwards : {"outcome", "in advance", "at hand"})
        EXPECT_EQ(claim.tolerance.reason.find(afterwards), std::string::npos)
            << paper.paper << ": " << claim.group << ", " << claim.name << ": " << claim.tolerance.reason;
}

// A derived figure is a part of a ratio that counts, whose other part counts, too.
TEST(CommittedEvidence, DerivedFiguresFollowFromThoseThatCount) {
  for (const PaperClaims& paper : committed()) {
    std::set<std::string> counted, derivable;
    for (const Claim& claim : paper.claims)
      if (claim.scenario && counts(claim.evidence)) counted.insert(claim.scenario_json.dump());
    for (const Claim& claim : paper.claims) {
      if (!claim.scenario || !counts(claim.evidence) || claim.scenario_json["kind"] != "ratio") continue;
      const std::vector<Json> parts = members_of(claim.scenario_json);
      for (const int known : {0, 1})
        if (counted.contains(parts[known].dump())) derivable.insert(parts[1 - known].dump());
    }
    for (const Claim& claim : paper.claims) {
      const bool follows = claim.evidence != Evidence::derived || derivable.contains(claim.scenario_json.dump());
      EXPECT_TRUE(follows) << paper.paper << ": " << claim.group << ", " << claim.name;
    }
  }
}

// Measures by kind of scenario, and closed formulas, of a scenario and its members.
void add_used(const Json& scenario, std::map<std::string, std::set<std::string>>& used) {
  const std::string kind = scenario["kind"].get<std::string>();
  if (const Json* measure = scenario.find("measure")) used[kind].insert(measure->get<std::string>());
  if (kind == "formula") used[kind].insert(scenario["formula"].get<std::string>());
  for (const Json& member : members_of(scenario)) add_used(member, used);
}

TEST(CommittedEvidence, UsesEveryMeasureAndEveryFormula) {
  std::map<std::string, std::set<std::string>> used;
  for (const PaperClaims& paper : committed()) {
    for (const Claim& claim : paper.claims)
      if (claim.scenario) add_used(claim.scenario_json, used);
    const Json document = parse_json_file((kCommitted / (paper.paper + ".json")).string());
    for (const Json& group : document["groups"])
      for (const Json& claim : group["claims"])
        if (claim.contains("published") && claim["published"].is_object())
          used["formula"].insert(claim["published"]["formula"].get<std::string>());
  }
  const auto set_of = [](const std::vector<std::string>& names) {
    return std::set<std::string>(names.begin(), names.end());
  };
  EXPECT_EQ(used["schedule"], set_of(schedule_measures()));
  EXPECT_EQ(used["model"], set_of(model_measures()));
  EXPECT_EQ(used["case"], set_of(case_measures()));
  EXPECT_EQ(used["transformer"], set_of(transformer_measures()));
  EXPECT_EQ(used["formula"], set_of(formula_names()));
}

}  // namespace
}  // namespace sluice
