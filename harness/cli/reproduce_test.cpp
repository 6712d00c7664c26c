// The command `reproduce` on claims of its own: verdicts, what it writes, and changed inputs.
#include "harness/cli/cli_test_support.h"

namespace sluice {
namespace {

class Reproduce : public Cli {
 protected:
  // Bubbles of GPipe with 4 micro-batches, (p - 1) / (m + p - 1), that are 0.2 and 3/7: the tolerance is given.
  Arguments claims(const std::string& tolerance) {
    put("bubbles.json", R"({"title": "Bubbles", "citation": "Somebody, 2020", "groups": [{"name": "g",
      "kind": "formula", "source": "Table 1", "evidence": "A", "what": "bubble",
      "tolerance": {"absolute": )" +
                            tolerance + R"(, "reason": "of this test"},
      "scenario": {"kind": "schedule", "system": "gpipe", "microbatches": 4, "measure": "bubble"},
      "claims": [{"name": "two", "published": 0.2, "scenario": {"ranks": 2}},
                 {"name": "four", "published": 0.43, "scenario": {"ranks": 4}}]}]})");
    return {"reproduce", "bubbles", "--claims", at(".")};
  }
  static Arguments with(Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // What --write stores, without its pictures, which need a renderer.
  void store(const Arguments& arguments) {
    Json stored = Json::parse(sluice(with(arguments, {"--json"})).out)["papers"][0];
    for (std::size_t i = 0; i < stored["outcomes"].size(); ++i)
      for (const char* added : {"published", "kind", "source", "evidence"}) stored["outcomes"][i].erase(added);
    put("bubbles.results.json", Json{{"outcomes", stored["outcomes"]}}.dump());
  }
};

TEST_F(Reproduce, CountsByKind) {
  const Finished finished = sluice(claims("0.01"));
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("2 figures; reproduced of checkable: formula 2 of 2."), std::string::npos)
      << finished.out;
}

TEST_F(Reproduce, AFigureThatNoLongerRunsIsNoLongerReproduced) {
  put("memory.json", R"({"title": "Memory", "citation": "Somebody, 2020", "groups": [{"name": "g",
    "kind": "end_to_end", "source": "Table 1", "evidence": "A", "what": "samples/s", "claims": [{"name": "two",
    "published": 9, "scenario": {"kind": "case", "measure": "throughput", "case": {"system": "gpipe",
    "workload": "mmt", "cluster": "flat:2,memory=1KiB", "ranks": 2}}}]}]})");
  put("memory.results.json", R"({"outcomes": [{"group": "g", "name": "two", "verdict": "reproduced", "ours": 9}]})");
  const Finished finished = sluice({"reproduce", "memory", "--claims", at(".")});
  EXPECT_EQ(finished.code, 1);
  EXPECT_EQ(finished.err, "sluice: was recorded as reproduced: memory, g, two: is now not comparable\n");
}

TEST_F(Reproduce, MutateListsWhatStaysReproduced) {
  Arguments arguments = claims("0.01");
  store(arguments);
  Finished finished = sluice(with(arguments, {"--mutate"}));
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out, "bubbles: 2 of 2 reproduced figures turn\n");
  arguments = claims("0.3");  // 0.2 of 0 to 0.33 and 0.43 of 0.2 to 0.5, whatever is changed
  finished = sluice(with(arguments, {"--mutate", "--json"}));
  EXPECT_EQ(finished.code, 1) << finished.err;
  const Json paper = Json::parse(finished.out)["papers"][0];
  EXPECT_EQ(paper["reproduced"], 2);
  ASSERT_EQ(paper["unmoved"].size(), 2u);
  EXPECT_EQ(paper["unmoved"][0]["name"], "two");
  EXPECT_EQ(paper["unmoved"][0]["changes"][0], "costs x 1.3");
}

TEST_F(Reproduce, MutateWritesNothing) {
  const Finished finished = sluice(with(claims("0.01"), {"--mutate", "--write"}));
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.err, "error: reproduce: --mutate writes nothing; leave --write out\n");
  EXPECT_FALSE(fs::exists(at("bubbles.results.json")));
}

}  // namespace
}  // namespace sluice
