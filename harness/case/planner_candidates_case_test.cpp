// What a planner's candidates are compared by where an asynchronous system cuts the batch for replicas.
#include <gtest/gtest.h>

#include "harness/base/json.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"

namespace sluice {
namespace {

Prepared pipedream(const Json& options, int batch, int microbatches = 1) {
  return prepare(resolve({{{"system", "pipedream"},
                           {"options", options},
                           {"workload", "gpt_1.3b"},
                           {"clock", "virtual"},
                           {"cluster", "dgx_h100"},
                           {"costs", "calibrated"},
                           {"precision", "mixed"},
                           {"ranks", 8},
                           {"batch", batch},
                           {"microbatches", microbatches},
                           {"steps", 1}},
                          in_file("test", "")}),
                 test_profiles());
}

double samples_per_second(const Prepared& p, int batch) {
  return batch / simulated_update(p, program_of_updates(p)).value;
}

// Eight replicas take one sample each, and reduce all gradients for every eight; a straight pipeline takes the eight at
// once and reduces nothing.
TEST(PlannerCandidatesOfACaseTest, PipeDreamsAreComparedWithTheMicroBatchesThatTheyWillHave) {
  const Prepared own = pipedream({{"planner", "paper"}}, 8);
  ASSERT_EQ(own.plan.stages.size(), 1u);
  EXPECT_EQ(own.micro_batch, 1);
  const Prepared simulated = pipedream({{"planner", "paper"}, {"rank", "simulated"}}, 8);
  EXPECT_EQ(simulated.plan.stages.size(), 8u);
  EXPECT_EQ(simulated.micro_batch, 8);
  EXPECT_GT(samples_per_second(simulated, 8), 1.5 * samples_per_second(own, 8));
  EXPECT_GT(samples_per_second(simulated, 8), 0.98 * samples_per_second(pipedream(Json::object(), 8), 8));
}

TEST(PlannerCandidatesOfACaseTest, APlanThatCannotDivideTheBatchIsNone) {
  EXPECT_THROW(pipedream({{"planner", "paper"}}, 2), InputError);  // six micro-batches of two samples
  EXPECT_EQ(pipedream({{"planner", "paper"}, {"rank", "simulated"}}, 2).micro_batch, 2);
}

}  // namespace
}  // namespace sluice
