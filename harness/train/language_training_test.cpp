// Language models: perplexity by hand, and trainings that lower it on both clocks.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "harness/base/json.h"
#include "harness/case/feed.h"
#include "harness/case/sweep.h"
#include "harness/case/test_profiles.h"
#include "harness/run/run_case.h"
#include "harness/tests/test_support.h"
#include "harness/train/curve.h"
#include "workloads/data/test_files.h"
#include "workloads/models/models.h"
#include "workloads/models/workload_file.h"

namespace sluice {
namespace {

TEST(Metrics, PerplexityIsEToTheMeanCrossEntropy) {
  const Evaluation e{.loss = std::log(8.0), .accuracy = 0.25, .extra = {}};
  EXPECT_DOUBLE_EQ(metric_of(e, "perplexity"), 8);
  EXPECT_DOUBLE_EQ(metric_of(e, "loss"), std::log(8.0));
  EXPECT_DOUBLE_EQ(metric_of(e, "accuracy"), 0.25);
}

// An embedding that is the identity and a head whose rows are logarithms of probabilities: the model says of the token
// after i that it is j with chance[i][j].
TEST(Perplexity, EqualsTheHandComputedMeanOverAllTokens) {
  constexpr std::int64_t kWords = 5;
  const ModelGraph model{.name = "chances",
                         .inputs = {{.shape = {2}, .is_token_ids = true}},
                         .layers = {{"token", Embedding{kWords, kWords}, {-1}},
                                    {"head", Linear{kWords, kWords, false}, {0}},
                                    {"loss", CrossEntropyLoss{}, {1}}}};
  EXPECT_TRUE(text_limits(model).predicts_next);
  auto data = std::make_shared<DataSplit>();
  for (Dataset* part : {&data->train, &data->test}) {
    part->samples = 3;
    part->columns = {{.length = 2, .ids = {0, 1, 2, 3, 0, 4}}};
    part->targets = {.length = 2, .ids = {1, 2, 3, 0, 4, 0}};
  }
  std::vector<std::vector<double>> chance(kWords, std::vector<double>(kWords, 0.125));
  chance[0] = {0.125, 0.25, 0.125, 0.25, 0.25};  // read twice: 1 and 4 follow, a quarter each
  chance[1][2] = 0.5;                            // 2 follows
  chance[2][3] = 0.5;
  chance[3] = {0.5, 0.125, 0.125, 0.125, 0.125};
  chance[4] = {0.0625, 0.25, 0.25, 0.25, 0.1875};  // 0 follows: a sixteenth
  std::vector<std::vector<std::vector<double>>> weights{
      {std::vector<double>(kWords * kWords)}, {std::vector<double>(kWords * kWords)}, {}};
  for (std::size_t i = 0; i < kWords; ++i)
    for (std::size_t j = 0; j < kWords; ++j) {
      weights[0][0][i * kWords + j] = i == j;
      weights[1][0][j * kWords + i] = std::log(chance[i][j]);
    }
  for (const int ranks : {1, 2}) {
    const TestSetup setup("gpipe", {}, model, ranks, 2, 2);
    SessionSpec spec = setup.spec({});
    spec.feed = feed_of(data);
    spec.initial = weights;
    const Evaluation e = make_session(spec)->evaluate();
    // Halvings: 2, 1, 1, 1, 2 and 4 over six tokens.
    EXPECT_NEAR(metric_of(e, "perplexity"), std::exp2(11.0 / 6), 1e-5) << ranks;
    EXPECT_TRUE(e.extra.empty());  // nothing is translated
  }
}

class LanguageModels : public DataFiles {
 protected:
  // Sentences in which each word tells the next one, and a small GPT.
  std::string workload_file() const {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "one two three four five six seven eight nine ten\n\n";
    put_text("train.txt", text);
    put_text("test.txt", text.substr(0, 500));
    Workload w{.name = "small", .title = "small", .model = gpt("small", 2, 16, 2, 8, 60), .dataset = folder_};
    w.metric = "perplexity";
    w.epochs = 2;
    w.batch = 8;
    w.microbatches = 2;
    w.optimizer = {.name = "adam", .lr = 0.01};
    return put_text("small.json", file_text(w));
  }

  Record trained(const std::string& system, const std::string& clock) const {
    const Json entry = {{"system", system},    {"workload", workload_file()},
                        {"ranks", 2},          {"clock", clock},
                        {"costs", "analytic"}, {"cluster", clock == "wall" ? "this machine" : "flat:2"}};
    return run_case(expand_case({entry, in_file("test")}).at(0), test_profiles(), {});
  }
};

TEST_F(LanguageModels, TrainAndTheirPerplexityFalls) {
  for (const auto& [system, clock] : {std::pair("one_f_one_b", "virtual"),
                                      {"pipedream", "virtual"},
                                      {"one_f_one_b", "wall"},
                                      {"pipedream", "wall"}}) {
    SCOPED_TRACE(std::string(system) + " " + clock);
    const Record r = trained(system, clock);
    ASSERT_EQ(r.outcome, RecordOutcome::ok) << r.reason;
    ASSERT_EQ(r.curve.size(), 2u);
    EXPECT_LT(*r.curve[0].metric, 60);  // what a model that knows nothing has
    EXPECT_LT(*r.curve[1].metric, *r.curve[0].metric);
    EXPECT_GE(*r.curve[1].metric, 1);
    EXPECT_EQ(r.workload_facts->metric, "perplexity");
    EXPECT_EQ(r.workload_facts->metric_direction, MetricDirection::down);
  }
}

}  // namespace
}  // namespace sluice
