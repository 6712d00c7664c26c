#include "harness/pipeline/moves.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace sluice {
namespace {

TEST(Moves, TextAndMovesAreTheSame) {
  const std::vector<PlanMove> moves{{214, {7}}, {431, {3, 9}}};
  EXPECT_EQ(to_text(moves), "214:7,431:3/9");
  EXPECT_EQ(parse_moves("214:7,431:3/9", "test"), moves);
  EXPECT_EQ(parse_moves("0:5", "test"), (std::vector<PlanMove>{{0, {5}}}));
}

TEST(Moves, MistakesAreNamed) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      parse_moves(text, "moves");
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  for (const char* wrong :
       {"", "7", "7:", ":7", "7:3/", "7:x", "7:3,", "-7:3", "7:-3", "7:3 ", "99999999999999999999:3"})
    EXPECT_NE(error_of(wrong).find("is not a move"), std::string::npos) << wrong << ": " << error_of(wrong);
  EXPECT_NE(error_of("7:3,7:4").find("'7:4' is not after update 7"), std::string::npos) << error_of("7:3,7:4");
}

}  // namespace
}  // namespace sluice
