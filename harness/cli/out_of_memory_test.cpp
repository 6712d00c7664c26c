// A report reads from the reason of a case that does not fit what was needed and what there is; the reason is written
// in another room (harness/case/predict_memory.cpp).
#include <gtest/gtest.h>

#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/cli/case_flags.h"
#include "harness/run/run_case.h"
#include "plots/row_outcome.h"

namespace sluice {
namespace {

TEST(OutOfMemory, AReportShowsBothAmountsOfTheReasonThatARunGives) {
  const std::map<std::string, std::string> flags = {
      {"system", "gpipe"}, {"workload", "vgg16"}, {"cluster", "flat:2,memory=1GiB"},
      {"ranks", "2"},      {"clock", "virtual"},  {"train", "false"},
      {"steps", "1"}};
  const Record record = run_case(resolve(entries_of({flags, {}}).front()), test_profiles(), {});
  ASSERT_EQ(record.outcome, RecordOutcome::out_of_memory) << record.reason;
  const std::string text = short_outcome(record);
  EXPECT_TRUE(text.starts_with("OOM ") && text.ends_with(" / 1 GiB")) << text << ": " << record.reason;
}

}  // namespace
}  // namespace sluice
