#include "results/seal.h"

#include <gtest/gtest.h>

#include "harness/base/json.h"

namespace sluice {
namespace {

bool is_broken(const std::string& line) { return has_broken_seal(line, Json::parse(line)); }

TEST(Seal, IsTheHashOfTheOtherMembers) {
  EXPECT_EQ(hash_of_text(""), "cbf29ce484222325") << "FNV-1a's offset basis";
  EXPECT_EQ(hash_of_text("a"), "af63dc4c8601ec8c") << "FNV's own test vector";
  const std::string line = sealed(R"({"a":1.5,"b":[1,2]})");
  EXPECT_EQ(line, R"({"a":1.5,"b":[1,2],"seal":")" + hash_of_text(R"({"a":1.5,"b":[1,2]})") + "\"}");
  EXPECT_FALSE(is_broken(line));
}

TEST(Seal, HoldsInAnotherOrderAndSpacing) {
  const std::string seal = hash_of_text(R"({"a":1.5,"b":[1,2]})");
  EXPECT_FALSE(is_broken(R"({ "seal": ")" + seal + R"(", "b": [1, 2], "a": 1.50 })"));
  EXPECT_FALSE(has_broken_seal(
      sealed(R"({"a":1,"timeline":[5]})"),
      Json::parse(R"({"a":1,"timeline":[],"seal":")" + hash_of_text(R"({"a":1,"timeline":[5]})") + "\"}")))
      << "what was not read counts";
}

TEST(Seal, BreaksWithEveryChangeOfAMember) {
  const std::string line = sealed(R"({"a":1.5,"b":[1,2]})");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = line;
    return changed.replace(changed.find(from), from.size(), to);
  };
  EXPECT_TRUE(is_broken(with("1.5", "1.4")));
  EXPECT_TRUE(is_broken(with("[1,2]", "[2,1]")));
  EXPECT_TRUE(is_broken(with(R"("a")", R"("c")")));
  EXPECT_TRUE(is_broken(with(R"("b":[1,2],)", "")));
  EXPECT_TRUE(is_broken(with(R"("seal":")", R"("d":0,"seal":")")));
  EXPECT_TRUE(is_broken(R"({"a":1.5,"b":[1,2],"seal":7})"));
  EXPECT_FALSE(is_broken(R"({"a":1.5,"b":[1,2]})")) << "records of earlier versions have none";
}

}  // namespace
}  // namespace sluice
