#include "harness/pipeline/system.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

System called(const std::string& name, std::vector<std::string> aliases = {}) {
  return {.name = name, .aliases = std::move(aliases), .written_from = WrittenFrom::ours, .schedule = nullptr};
}

TEST(SystemNames, TwoSystemsOfOneNameOrAliasAreAnError) {
  const System a = called("one", {"first"}), b = called("two"), same = called("one"), alias = called("first"),
               both = called("third", {"one"});
  EXPECT_EQ(with_names_of_their_own({&a, &b}), (std::vector<const System*>{&a, &b}));
  for (const System* other : {&same, &alias, &both})
    EXPECT_NE(error_of([&] {
                with_names_of_their_own({&a, &b, other});
              }).find("two of this build are called"),
              std::string::npos)
        << other->name;
}

}  // namespace
}  // namespace sluice
