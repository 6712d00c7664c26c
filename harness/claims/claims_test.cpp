// Claims: what their reader takes and rejects, how figures are judged, and that the committed pages, outcomes and
// claims belong together.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sluice_build.h>

#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/expect_error.h"
#include "harness/case/test_profiles.h"
#include "harness/claims/claim_page.h"
#include "harness/claims/scenario.h"
#include "plots/findings.h"
#include "plots/renderer.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

const fs::path kClaims = SLUICE_SOURCE_DIR "/results/claims";

Json one_claim() {
  return Json::parse(R"({
    "title": "A paper", "citation": "Somebody, 2020",
    "groups": [{"name": "bubbles", "kind": "formula", "source": "Table 1", "evidence": "A", "what": "bubble",
                "tolerance": {"absolute": 0.01, "reason": "two digits"},
                "scenario": {"kind": "schedule", "system": "gpipe", "measure": "bubble"},
                "claims": [{"name": "two", "published": 0.2, "scenario": {"ranks": 2, "microbatches": 4}},
                           {"name": "four", "published": 0.43, "direction": "two",
                            "scenario": {"ranks": 4, "microbatches": 4}}]}]})");
}

std::string error_of_claims(const Json& document) {
  return error_of([&] { claims_from_json(document, "paper", "paper.json"); });
}

TEST(ClaimReader, AClaimHasTheFieldsOfItsGroupAndMergesItsScenario) {
  const PaperClaims claims = claims_from_json(one_claim(), "paper", "paper.json");
  ASSERT_EQ(claims.claims.size(), 2u);
  EXPECT_EQ(claims.claims[1].source, "Table 1");
  EXPECT_EQ(claims.claims[1].scenario_json["system"], "gpipe");
  EXPECT_NEAR(*claims.claims[0].scenario(test_profiles()).number, 0.2, 1e-12);  // 1 / (4 + 1)
  EXPECT_NEAR(*claims.claims[1].scenario(test_profiles()).number, 3.0 / 7, 1e-12);
}

TEST(ClaimReader, NamesWhatIsWrongWithItsPlace) {
  Json document = one_claim();
  document["groups"][0]["scenario"]["kind"] = "shedule";
  EXPECT_EQ(error_of_claims(document),
            "paper.json: /groups/0/claims/0/scenario: /kind: unknown kind of scenario 'shedule'; did you mean "
            "'schedule'?");
  document = one_claim();
  document["groups"][0]["scenario"]["colour"] = "red";
  EXPECT_NE(error_of_claims(document).find("/colour"), std::string::npos);
  document = one_claim();
  document["groups"][0]["claims"][1]["direction"] = "tow";
  EXPECT_EQ(error_of_claims(document),
            "paper.json: /groups/0/claims/1/direction: the group has no claim 'tow'; did you mean 'two'?");
  document = one_claim();
  document["groups"][0]["claims"][1]["name"] = "two";
  document["groups"][0]["claims"][1].erase("direction");
  EXPECT_EQ(error_of_claims(document), "paper.json: /groups/0/claims/1/name: 'two' stands here twice");
  document = one_claim();
  document["groups"][0].erase("scenario");
  document["groups"][0]["claims"][0].erase("scenario");
  EXPECT_EQ(error_of_claims(document),
            "paper.json: /groups/0/claims/0/scenario: is missing; describe one, or give the reason why there is none");
  document = one_claim();
  document["groups"][0]["claims"][0]["published"] = {{"formula", "of the moon"}};
  EXPECT_NE(error_of_claims(document).find("unknown formula 'of the moon'"), std::string::npos);
  document = one_claim();
  document["groups"][0]["claims"][0]["open"].push_back({{"field", "ranks"}, {"what", "ranks"}, {"values", {2, 4}}});
  EXPECT_NE(error_of_claims(document).find("is not a JSON pointer"), std::string::npos);
}

TEST(ClaimReader, DemandsTheKindAndTheReasonOfATolerance) {
  Json document = one_claim();
  document["groups"][0].erase("kind");
  EXPECT_EQ(error_of_claims(document), "paper.json: /groups/0/claims/0/kind: is missing");
  document["groups"][0]["kind"] = "formulas";
  EXPECT_EQ(error_of_claims(document),
            "paper.json: /groups/0/claims/0/kind: unknown value 'formulas'; did you mean 'formula'?");
  document = one_claim();
  document["groups"][0]["tolerance"].erase("reason");
  EXPECT_EQ(error_of_claims(document),
            "paper.json: /groups/0/claims/0/tolerance/reason: is missing; say why the tolerance is not the default of "
            "the kind, or leave it out");
}

TEST(ClaimReader, DemandsToSayWhatTheToleranceOfARatioAppliesTo) {
  Json document = one_claim();
  Json& claim = document["groups"][0]["claims"][0];
  claim["scenario"] = Json::parse(R"({"kind": "ratio", "measure": null, "system": null, "both": {"kind": "schedule",
    "system": "gpipe", "ranks": 2, "microbatches": 4, "measure": "idle"}, "numerator": {"F": 2}, "denominator": {}})");
  EXPECT_NE(error_of_claims(document).find("/effect: is missing; gain: "), std::string::npos);
  claim["effect"] = "gain";
  EXPECT_EQ(claims_from_json(document, "paper", "paper.json").claims[0].effect, Effect::gain);
}

TEST(ClaimReader, AVariationChangesOneFieldOrSeveralByName) {
  Json document = one_claim();
  document["groups"][0]["claims"][0]["experiments"].push_back(
      Json::parse(R"({"what": "size", "changes": {"small": {"ranks": 1}, "large": {"ranks": 3, "microbatches": 6}}})"));
  const Claim claim = claims_from_json(document, "paper", "paper.json").claims.front();
  const std::vector<Variation::Point>& points = claim.experiments[0].points;
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1].value, "small");                                       // in order of name
  EXPECT_NEAR(*points[0].scenario(test_profiles()).number, 2.0 / 8, 1e-12);  // (p - 1) / (m + p - 1)
  EXPECT_NEAR(*points[1].scenario(test_profiles()).number, 0, 1e-12);
}

void add_places(Json& value, std::vector<Json*>& places) {
  places.push_back(&value);
  if (value.is_array())
    for (Json& element : value) add_places(element, places);
  for (const auto& [key, member] : value.is_object() ? value.items() : Json::Object()) add_places(value[key], places);
}

// Puts `value` at a random place of the document.
void spoil(Json& document, const Json& value) {
  std::vector<Json*> places;
  add_places(document, places);
  *places[*rc::gen::inRange<std::size_t>(0, places.size())] = value;
}

RC_GTEST_PROP(ClaimReaderFuzz, RejectsWhateverItCannotRunWithAnInputError, ()) {
  Json document = one_claim();
  document["groups"][0]["claims"][0]["open"].push_back({{"field", "/ranks"}, {"what", "ranks"}, {"values", {2, 4}}});
  const Json values[] = {nullptr, -1, 0, 1e300, "", "x", Json::array(), Json::object(), true, 2.5};
  const int changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < changes; ++i) spoil(document, values[*rc::gen::inRange(0, 10)]);
  try {
    claims_from_json(document, "paper", "paper.json");
  } catch (const InputError& e) {  // anything else is a defect
    RC_ASSERT(std::string(e.what()).starts_with("paper.json: "));
  }
}

TEST(Verdicts, AFigureInsideItsToleranceIsReproducedAndOneOutsideKeepsItsDirection) {
  Json document = one_claim();
  auto& claims = document["groups"][0]["claims"];
  claims[0]["published"] = 0.3;   // ours 0.2: outside, no direction
  claims[1]["published"] = 0.44;  // ours 0.4286: outside by 0.0014, above "two" in both
  PaperClaims read = claims_from_json(document, "paper", "paper.json");
  std::vector<Outcome> outcomes = run_claims(read, test_profiles());
  EXPECT_EQ(outcomes[0].value, ClaimVerdict::not_reproduced);
  EXPECT_FALSE(outcomes[0].direction);
  EXPECT_EQ(outcomes[1].value, ClaimVerdict::direction_only);
  claims[1]["published"] = 0.25;  // below "two" (0.3), ours above
  outcomes = run_claims(claims_from_json(document, "paper", "paper.json"), test_profiles());
  EXPECT_EQ(outcomes[1].value, ClaimVerdict::not_reproduced);
  EXPECT_EQ(outcomes[1].direction, ClaimVerdict::not_reproduced);
  claims[1]["published"] = 0.43;
  outcomes = run_claims(claims_from_json(document, "paper", "paper.json"), test_profiles());
  EXPECT_EQ(outcomes[1].value, ClaimVerdict::reproduced);
}

TEST(Verdicts, AnOpenFieldThatDecidesMakesAClaimNotComparable) {
  Json document = one_claim();
  auto& claim = document["groups"][0]["claims"][0];
  claim["open"].push_back({{"field", "/microbatches"}, {"what", "micro-batches"}, {"values", {4, 8}}});
  Outcome outcome = run_claims(claims_from_json(document, "paper", "paper.json"), test_profiles()).front();
  EXPECT_EQ(outcome.value, ClaimVerdict::not_comparable);  // 0.2 and 0.111
  EXPECT_EQ(outcome.open[0].needed, "4");
  claim["published"] = 0.15;
  claim["tolerance"] = {{"absolute", 0.06}, {"reason", "none"}};
  outcome = run_claims(claims_from_json(document, "paper", "paper.json"), test_profiles()).front();
  EXPECT_EQ(outcome.value, ClaimVerdict::reproduced);
  EXPECT_EQ(outcome.open[0].needed, "about 6.25");  // from 0.2 at 4 to 0.1111 at 8
  claim["published"] = 0.5;
  outcome = run_claims(claims_from_json(document, "paper", "paper.json"), test_profiles()).front();
  EXPECT_EQ(outcome.value, ClaimVerdict::not_reproduced);
  EXPECT_EQ(outcome.open[0].needed, "");
}

TEST(Verdicts, AnOpenFieldThatTurnsTheDirectionLeavesNone) {
  Json document = one_claim();
  Json& claim = document["groups"][0]["claims"][0];  // ours 0.2
  claim["published"] = 0.5;
  claim["direction"] = 0.15;
  claim["open"].push_back({{"field", "/microbatches"}, {"what", "micro-batches"}, {"values", {4, 5}}});  // 1/5, 1/6
  const auto outcome = [&] {
    return run_claims(claims_from_json(document, "paper", "paper.json"), test_profiles()).front();
  };
  EXPECT_EQ(outcome().value, ClaimVerdict::direction_only);
  claim["open"][0]["values"][1] = 8;  // 1/9
  EXPECT_EQ(outcome().value, ClaimVerdict::not_reproduced);
  EXPECT_EQ(outcome().direction, ClaimVerdict::not_reproduced);
}

TEST(Verdicts, TheToleranceOfAGainAppliesToTheRatioLessOne) {
  Claim claim;
  claim.published.number = 1.02;
  claim.tolerance.relative = 0.1;
  EXPECT_TRUE(within_tolerance(claim, {1.1, {}}));  // a gain five times as large
  claim.effect = Effect::gain;
  EXPECT_FALSE(within_tolerance(claim, {1.1, {}}));
  EXPECT_FALSE(within_tolerance(claim, {1.0221, {}}));
  EXPECT_TRUE(within_tolerance(claim, {1.0219, {}}));
  claim.published.number = 0.9;  // a loss of 0.1
  EXPECT_TRUE(within_tolerance(claim, {0.909, {}}));
  EXPECT_FALSE(within_tolerance(claim, {0.911, {}}));
}

TEST(Verdicts, AFigureThatMustBeAboveIsNotReproducedWhereItIsEqual) {
  Claim claim;
  claim.published.number = 1;
  claim.compare = Compare::above;
  EXPECT_FALSE(within_tolerance(claim, {0.9, {}}));
  EXPECT_FALSE(within_tolerance(claim, {1.0, {}}));
  EXPECT_TRUE(within_tolerance(claim, {1.001, {}}));
  Json document = one_claim();
  document["groups"][0]["compare"] = "above";
  EXPECT_EQ(error_of_claims(document),
            "paper.json: /groups/0/claims/0/tolerance: is not used where ours must be above the published figure; "
            "leave it out");
}

// Bubbles of 2, 3 and 4 ranks with 4 micro-batches: 1/5, 1/3, 3/7.
Json order_claim() {
  Json document = one_claim();
  Json& claims = document["groups"][0]["claims"];
  claims.push_back(Json::parse(R"({"name": "three", "published": 0.33, "scenario": {"ranks": 3, "microbatches": 4}})"));
  claims.push_back(Json::parse(R"({"name": "order", "order": ["two", "three", "four"]})"));
  return document;
}

Outcome outcome_of_order(const Json& document) {
  return run_claims(claims_from_json(document, "paper", "paper.json"), test_profiles()).back();
}

TEST(Verdicts, AnOrderIsReproducedWhereEveryPairIsThatWayRound) {
  Json document = order_claim();
  EXPECT_EQ(claims_from_json(document, "paper", "paper.json").claims.back().published.text, "four > three > two");
  EXPECT_EQ(outcome_of_order(document).value, ClaimVerdict::reproduced);
  Json& claims = document["groups"][0]["claims"];
  claims[2]["published"] = 0.2;  // a published tie demands nothing
  Outcome outcome = outcome_of_order(document);
  EXPECT_EQ(outcome.ours->text, "four > three > two");
  EXPECT_EQ(outcome.value, ClaimVerdict::reproduced);
  claims[2]["published"] = 0.19;
  outcome = outcome_of_order(document);
  EXPECT_EQ(outcome.value, ClaimVerdict::not_reproduced);
  EXPECT_EQ(outcome.reason, "'two' is published above 'three', ours not");
  claims[2]["published"] = 0.33;
  claims[2]["scenario"]["ranks"] = 4;  // a tie of ours, where one is published above the other
  claims[3]["tie"] = 0.9;
  outcome = outcome_of_order(document);
  EXPECT_EQ(outcome.ours->text, "three = four ~ two");
  EXPECT_EQ(outcome.value, ClaimVerdict::not_reproduced);
  EXPECT_EQ(outcome.reason, "'four' is published above 'three', ours not");
}

TEST(Verdicts, AnOrderNamesClaimsOfItsGroup) {
  Json document = order_claim();
  document["groups"][0]["claims"][3]["order"][0] = "one";
  EXPECT_EQ(error_of_claims(document), "paper.json: /groups/0/claims/3/order: the group has no claim 'one'");
}

TEST(Verdicts, AReadingThatDecidesMakesAClaimNotComparable) {
  Json document = one_claim();
  Json& claim = document["groups"][0]["claims"][0];  // ours 0.2
  claim["other_readings"].push_back(1.2);
  const auto outcome = [&] {
    return run_claims(claims_from_json(document, "paper", "paper.json"), test_profiles()).front();
  };
  EXPECT_EQ(outcome().value, ClaimVerdict::not_comparable);
  EXPECT_EQ(outcome().reason, "within the tolerance if read as 0.2");
  claim["published"] = 0.5;
  EXPECT_EQ(outcome().value, ClaimVerdict::not_reproduced);
  claim["published"] = 0.2;
  claim["other_readings"][0] = 0.205;
  EXPECT_EQ(outcome().value, ClaimVerdict::reproduced);
}

TEST(Verdicts, RememberedFittedAndDerivedFiguresNeverCount) {
  Json document = one_claim();
  document["groups"][0]["claims"][0]["evidence"] = "remembered";
  document["groups"][0]["claims"][1]["evidence"] = "calibration";
  document["groups"][0]["claims"].push_back(Json::parse(
      R"({"name": "three", "published": 0.33, "evidence": "derived", "scenario": {"ranks": 3, "microbatches": 4}})"));
  const PaperClaims claims = claims_from_json(document, "paper", "paper.json");
  const Counts counts = count(claims.claims, run_claims(claims, test_profiles()));
  EXPECT_EQ(counts.figures, 3);
  EXPECT_EQ(counts.not_counted, 3);
  EXPECT_EQ(counts.checkable(), 0);
}

TEST(Outcomes, AreTheSameAfterBeingStored) {
  Json document = one_claim();
  document["groups"][0]["claims"][0]["open"].push_back({{"field", "/ranks"}, {"what", "ranks"}, {"values", {2, 4}}});
  const std::vector<Outcome> outcomes = run_claims(claims_from_json(document, "paper", "paper.json"), test_profiles());
  const std::vector<Outcome> read = outcomes_from_json(to_json(outcomes), "stored.json");
  ASSERT_EQ(read.size(), outcomes.size());
  for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(difference(read[i], outcomes[i]), "");
  Outcome other = outcomes[0];
  other.ours->number = *other.ours->number * 1.001;
  EXPECT_NE(difference(read[0], other), "");
}

double figure_of(const std::string& scenario) {
  return *read_scenario(JsonReader(Json::parse(scenario), "test"))(test_profiles()).number;
}

TEST(ScheduleScenario, StagesHaveTimesOfTheirOwn) {
  // 2 ranks, 2 micro-batches. Rank 0: F 0-1 and 1-2. Rank 1: F 1-3, B 3-6, F 6-8, B 8-11. Rank 0: B 6-8 and 11-13.
  const std::string like = R"({"kind": "schedule", "system": "one_f_one_b", "ranks": 2, "microbatches": 2,
                               "F": [1, 2], "I": [1, 2], "measure": )";
  EXPECT_NEAR(figure_of(like + R"("makespan"})"), 13, 1e-12);
  EXPECT_NEAR(figure_of(like + R"("bubble_over_work"})"), (13.0 - 8) / 8, 1e-12);  // ranks work 6 and 10
  EXPECT_EQ(error_of([&] { figure_of(like + R"("makespan", "W": [1, 1, 1]})"); }),
            "test: /W: has 3 values for 2 stages; give one for each");
}

TEST(ScheduleScenario, AStageOfATransformerHoldsItsLayers) {
  // Zero bubble's 1.5B model: three layers of 6 samples of 1024 tokens hold 3.45 GiB, 18 bytes a parameter 3.2 GiB.
  EXPECT_NEAR(figure_of(R"({"kind": "schedule", "system": "one_f_one_b", "ranks": 8, "microbatches": 8,
                            "micro_batch": 6, "measure": "peak_gib",
                            "transformer": {"layers": 3, "hidden": 2304, "heads": 24, "sequence": 1024,
                                            "bytes_per_parameter": 18}})"),
              8 * 3.45 + 3.2, 0.05);
}

TEST(ScheduleScenario, TheEndsOfATransformerHoldEmbeddingAndHeadAndTheirOwnBlocks) {
  // Two ranks, one micro-batch; h = 64, 4 heads, 32 tokens, 1,000 words, 18 bytes a parameter. The second stage has no
  // block: the last norm and the head, their inputs, log-probabilities of four bytes, and two numbers for every token.
  const auto peak = [](int ends, const char* words) {
    return figure_of(R"({"kind": "schedule", "system": "gpipe", "ranks": 2, "microbatches": 1, "measure": "peak_bytes",
                         "transformer": {"layers": 1, "hidden": 64, "heads": 4, "sequence": 32,
                                         "bytes_per_parameter": 18, "ends": )" +
                     std::to_string(ends) + R"(, "vocabulary": )" + words + "}}");
  };
  EXPECT_EQ(peak(0, "1000"), 18 * (2 * 64 + 1000 * 64) + 32 * (2 * 64 + 2 * 64 + 4 * 1000 + 2 * 4));
  // A block more: 12 h^2 + 13 h parameters, 34 h + 5 a s bytes for every token, four numbers of its norms.
  EXPECT_EQ(peak(1, "1000") - peak(0, "1000"), 18 * (12 * 64 * 64 + 13 * 64) + 32 * (34 * 64 + 5 * 4 * 32 + 4 * 4));
}

TEST(ModelScenario, CountsInThePrecisionAndWithTheAttentionThatItNames) {
  // One stage of one block: its parameters are 12 h^2 + 13 h, of the embedding V h + s h, of the last norm and the head
  // 2 h + V h; 16 bytes of each with Adam's state.
  const std::string like = R"({"kind": "model", "measure": "peak_gib", "system": "gpipe", "balance": [1],
    "micro_batch": 1, "microbatches": 1, "device": {"flops": 1e12, "flops_16": 2e12},
    "model": {"family": "gpt_with_dropout", "layers": 1, "hidden": 64, "heads": 4, "sequence": 32, "vocabulary": 100},
    "optimizer": "adam")";
  constexpr double parameters = 12 * 64 * 64 + 13 * 64 + 100 * 64 + 32 * 64 + 2 * 64 + 100 * 64;
  // For every token: 34 h + 5 a s, a mask after the embedding, the last norm's and the head's input, log-probabilities
  // of four bytes, and two numbers of four bytes of each of three norms.
  constexpr double kept = 32 * (34 * 64 + 5 * 4 * 32 + 64 + 2 * 64 + 2 * 64 + 4 * 100 + 3 * 2 * 4);
  EXPECT_NEAR(figure_of(like + R"(, "precision": "mixed", "attention": "kept_with_dropout"})") * kGiB,
              16 * parameters + kept, 1e-3);
  EXPECT_NEAR(figure_of(like + R"(, "precision": "mixed_fp32_gradients", "attention": "kept_with_dropout"})") * kGiB,
              18 * parameters + kept, 1e-3);
  EXPECT_LT(figure_of(like + R"(, "precision": "mixed"})") * kGiB, 16 * parameters + kept);
}

class CommittedClaims : public testing::TestWithParam<std::string> {};

TEST_P(CommittedClaims, GiveTheStoredOutcomesAndThePage) {
  const PaperOutcomes paper = read_paper(kClaims, GetParam());
  const std::string again = "; run: sluice reproduce " + GetParam() + " --write";
  const std::vector<Outcome> now = run_claims(paper.claims, test_profiles());
  ASSERT_EQ(now.size(), paper.outcomes.size());
  for (std::size_t i = 0; i < now.size(); ++i) EXPECT_EQ(difference(paper.outcomes[i], now[i]), "") << again;
  EXPECT_EQ(read_whole_file(kClaims / (GetParam() + ".md")), paper_page(paper)) << again;
  const Chart chart = paper_chart(paper);
  if (!chart.spec.is_null()) {
    EXPECT_TRUE(read_whole_file(kClaims / (GetParam() + ".svg")).ends_with("\n" + picture_mark(chart))) << again;
  }
}

TEST_P(CommittedClaims, ExplainEveryFigureThatIsNotReproduced) {
  const PaperOutcomes paper = read_paper(kClaims, GetParam());
  for (std::size_t i = 0; i < paper.outcomes.size(); ++i) {
    const Outcome& outcome = paper.outcomes[i];
    if (!counts(paper.claims.claims[i].evidence) || outcome.value == ClaimVerdict::reproduced) continue;
    const bool varied = !outcome.open.empty() || !outcome.experiments.empty();
    const bool ran = outcome.ours.has_value();
    const bool is_order = paper.claims.claims[i].order.has_value();  // of figures that are explained themselves
    EXPECT_TRUE(varied || ((!ran || is_order) && !outcome.reason.empty())) << outcome.group << ", " << outcome.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Papers, CommittedClaims, testing::ValuesIn(listed_papers(kClaims)),
                         [](const auto& test) { return test.param; });

TEST(CommittedIndex, HoldsTheCountsOfAllPapers) {
  std::vector<PaperOutcomes> papers;
  for (const std::string& paper : listed_papers(kClaims)) papers.push_back(read_paper(kClaims, paper));
  EXPECT_EQ(read_whole_file(kClaims / "README.md"), index_page(papers)) << "; run: sluice reproduce --all --write";
}

TEST(CommittedIndex, NamesEveryHeadlineAndCountsEveryKindByItself) {
  Json document = one_claim();
  Json& claims = document["groups"][0]["claims"];
  claims[0]["kind"] = "headline";
  document["groups"].push_back(Json::parse(R"({"name": "abstract", "kind": "headline", "source": "abstract",
    "evidence": "B", "what": "speed-up", "claims": [{"name": "largest", "published": 6.9, "reason": "no cluster"}]})"));
  PaperOutcomes paper{claims_from_json(document, "paper", "paper.json"), {}};
  paper.outcomes = run_claims(paper.claims, test_profiles());
  const std::string page = index_page(std::span(&paper, 1));
  EXPECT_NE(page.find("| [A paper](paper.md) | bubbles: two | 0.2 | 0.2 | reproduced | A |  |"), std::string::npos)
      << page;
  EXPECT_NE(page.find("| [A paper](paper.md) | abstract: largest | 6.9 | - | not run | B | no cluster |"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("| [A paper](paper.md) | 1 of 1 | - | - | 1 of 1 | - | - | 1 | 0 |"), std::string::npos) << page;
  EXPECT_NE(page.find("1 of 1 that can be checked are reproduced, 0 more in direction only; 1 were not run."),
            std::string::npos);
  // A table that others measured is no paper's headline.
  paper.claims.measurements = true;
  const std::string measured = index_page(std::span(&paper, 1));
  EXPECT_LT(measured.find("## Measurements"), measured.find("bubbles: two"));
  EXPECT_NE(measured.find("| all papers | - | - | - | - | - | - | 0 | 0 |"), std::string::npos) << measured;
}

TEST(ClaimsPart, HasTheChartAndEveryFigureOfEveryPaper) {
  const std::vector<PaperOutcomes> papers = stored_papers(kClaims);
  ASSERT_FALSE(papers.empty());
  const ReportPart part = claims_part(papers);
  std::size_t figures = 0, rows = 0;
  for (const PaperOutcomes& paper : papers) figures += paper.outcomes.size();
  for (std::size_t at = 0; (at = part.table.find("<tr><td", at)) != std::string::npos; ++at) ++rows;
  EXPECT_EQ(rows, figures);
  EXPECT_NE(part.text.find(std::to_string(figures) + " figures; "), std::string::npos) << part.text;
  for (const Chart& chart : part.charts) EXPECT_TRUE(chart.name.starts_with("claims-")) << chart.name;
  EXPECT_GE(part.charts.size(), 10u);
}

}  // namespace
}  // namespace sluice
