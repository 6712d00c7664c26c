// The corpus of every reader, as it is and changed a few hundred times: a result or an error in our own words.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include <filesystem>

#include "harness/tests/fuzz/mutate.h"
#include "harness/tests/fuzz/targets.h"

namespace sluice {
namespace {

class Readers : public testing::TestWithParam<FuzzTarget> {
 protected:
  std::vector<std::string> corpus() const {
    return read_corpus(std::string(SLUICE_SOURCE_DIR) + "/harness/tests/fuzz/corpus/" + GetParam().name);
  }
};

TEST_P(Readers, EndEveryFileOfTheCorpusWithAResultOrAnErrorInOurWords) {
  ASSERT_FALSE(corpus().empty());
  for (const std::string& input : corpus())
    EXPECT_EQ(defect_of(GetParam(), input, fuzz_folder(), 5), "") << input.substr(0, 400);
}

TEST_P(Readers, DoSoAfterAFewHundredChanges) {
  const std::vector<std::string> inputs = corpus();
  std::mt19937_64 random(7);
  for (int k = 0; k < 300; ++k) {
    const std::string input = mutated(inputs, random);
    ASSERT_EQ(defect_of(GetParam(), input, fuzz_folder(), 5), "") << input.substr(0, 400);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Readers, testing::ValuesIn(fuzz_targets().begin(), fuzz_targets().end()),
                         [](const auto& reader) { return reader.param.name; });

}  // namespace
}  // namespace sluice
