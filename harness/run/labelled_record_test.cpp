// What labels show of the options that records hold: held against the defaults of every system and of the run's
// settings (in_record_options of harness/case/settings.cpp).
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/case/settings.h"
#include "harness/pipeline/system.h"
#include "harness/run/describe_case.h"
#include "results/comparison_rows.h"

namespace sluice {
namespace {

// The options that differ from their defaults. All rows share them, because there is one.
std::string chosen_options(const std::string& system, const Json& more = Json::object()) {
  Json entry = {{"system", system},    {"workload", "gpt_tiny"}, {"clock", "virtual"},
                {"cluster", "flat:4"}, {"train", false},         {"steps", 1},
                {"ranks", 4},          {"microbatches", 8}};
  entry.update(more);
  const Record record = record_of(resolve({entry, in_file("s.json", "/grid/0")}));
  const Record* const records[] = {&record};
  return telling_options(records).shared;
}

TEST(LabelledRecord, AtDefaultsNoSystemShowsAnOption) {
  for (const System* system : all_systems()) {
    if (system->inference_only) continue;
    EXPECT_EQ(chosen_options(system->name), "") << system->name;
  }
}

TEST(LabelledRecord, ShowsWhatWasChosen) {
  EXPECT_EQ(chosen_options("gpipe", {{"options", {{"recompute", "all"}}}}), "recompute=all");
  EXPECT_EQ(chosen_options("one_f_one_b", {{"data_parallel", 2}}), "data_parallel=2");
  EXPECT_EQ(chosen_options("one_f_one_b", {{"data_parallel", 2}, {"sharding", "optimizer"}}),
            "data_parallel=2 sharding=optimizer");
  // The heading of a table says these with the costs.
  EXPECT_EQ(chosen_options("one_f_one_b", {{"precision", "mixed"}, {"attention", "kept"}}), "");
}

}  // namespace
}  // namespace sluice
