// However a synchronous system cuts, places and orders the work, it must do the work of plain
// training: the same gradients and weights as single_device over the same samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "harness/model/sequence_chunks.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

const std::vector<int> kMicrobatches{1, 3, 4, 8};

// Systems that add the micro-batches' gradients up in the order 0, 1, 2, ..., as single_device does.
bool adds_in_order(const std::string& system, const std::map<std::string, std::string>& options) {
  return system == "single_device" || system == "one_f_one_b" ||
         (system == "gpipe" && options.contains("backward") && options.at("backward") == "fifo");
}

// Whether three or more layers read one value: stages add up their own readers' gradients first, so
// the order of the sum depends on the cut (the memory that every decoder layer attends to).
bool has_shared_value(const ModelGraph& model) {
  std::vector<int> readers(model.layers.size(), 0);
  for (const LayerSpec& layer : model.layers)
    for (const int input : layer.inputs)
      if (input >= 0 && ++readers[input] == 3) return true;
  return false;
}

// Whether head and embedding can be cut by words for some of the ranks that are tried.
bool has_word_slices(const ModelGraph& model) {
  return std::ranges::any_of(std::vector{2, 3, 4}, [&](int ranks) {
    try {
      slice_words(model, ranks);
      return true;
    } catch (const InputError&) {
      return false;
    }
  });
}

// Systems that cut sequences, or words, need a model where they can be cut.
bool can_run(const System& system, const ModelGraph& model) {
  if (system.divides_words && !has_word_slices(model)) return false;
  return !system.sequence || sequence_fault(model).empty();
}

struct Subject {
  const char* name;
  ModelGraph (*model)();
  bool double_precision;
  // Rounding of one precision, with room for sums in another order.
  double tolerance() const { return double_precision ? 1e-12 : 1e-5; }
  // No order depends on the precision: one number of micro-batches shows that every system computes in float.
  std::vector<int> microbatches() const { return double_precision ? kMicrobatches : std::vector{4}; }
};
void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }

class Equivalence : public testing::TestWithParam<Subject> {};

TEST_P(Equivalence, EverySynchronousSystemTrainsAsOneDeviceDoes) {
  const Subject& subject = GetParam();
  const ModelGraph model = subject.model();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = subject.double_precision};
  std::map<int, Numbers> reference;
  for (const int m : subject.microbatches())
    reference[m] = train(TestSetup("single_device", {}, model, 1, kBatch, m), feed, training);
  for (const System* system : all_systems()) {
    if (system->inference_only) continue;
    if (!system->synchronous || !can_run(*system, model)) continue;
    int ran = 0;
    for (const auto& options : option_sets(*system))
      for (const int ranks : {1, 2, 3, 4})
        for (const int m : subject.microbatches()) {
          SCOPED_TRACE(testing::Message() << system->name << ' ' << testing::PrintToString(options) << ", " << ranks
                                          << " ranks, " << m << " micro-batches");
          try {
            const TestSetup setup(system->name, options, model, ranks, kBatch, m);
            const Numbers ours = train(setup, feed, training);
            ++ran;
            if (adds_in_order(system->name, options) && !has_shared_value(model)) {
              expect_same_bits(ours, reference[m], model);
            } else {
              expect_close(ours, reference[m], model, subject.tolerance());
            }
          } catch (const InputError&) {
            // A combination that the system does not support.
          }
          if (HasFailure()) return;
        }
    EXPECT_GE(ran, subject.double_precision ? 4 : 1) << system->name << " ran hardly anything";
  }
}

// Systems whose pipelines cannot be replicated: DAPPLE and Piper plan replicas of their own, LayerPipe's weight
// gradients take the second rank of a stage, and Vocabulary Parallelism divides the words among all ranks.
const std::set<std::string> kNotReplicated{"dapple", "layerpipe_style", "piper", "vocabulary_parallelism"};

// Data-parallel replicas of every pipeline, laid out as groups or as pipelines, and every way in which the ranks of a
// stage divide its parameters, only hold and add up the same numbers elsewhere.
TEST_P(Equivalence, ReplicasAndShardsTrainAsOneDeviceDoes) {
  const Subject& subject = GetParam();
  if (!subject.double_precision) GTEST_SKIP() << "the precision makes no difference here";
  const ModelGraph model = subject.model();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  constexpr int kMicros = 8;
  const Training training{.double_precision = true};
  const Numbers reference = train(TestSetup("single_device", {}, model, 1, kBatch, kMicros), feed, training);
  for (const System* system : all_systems()) {
    if (system->inference_only) continue;
    if (!system->synchronous || system->one_process || !can_run(*system, model)) continue;
    const bool replicated = !system->data_parallel;
    int ran = 0;
    for (const int ranks : {2, 4})
      for (const auto layout : {PipelineReplicas::Layout::groups, PipelineReplicas::Layout::pipelines})
        for (const char* sharding : {"system", "none", "optimizer", "use", "visit", "update"}) {
          if (!replicated && layout == PipelineReplicas::Layout::pipelines) continue;
          SCOPED_TRACE(testing::Message() << system->name << " on " << ranks << " ranks, sharding " << sharding
                                          << ", layout " << static_cast<int>(layout));
          try {
            const PipelineReplicas replicas{replicated ? 2 : 1, layout};
            const TestSetup setup(system->name, {}, model, ranks, kBatch, kMicros, replicas, sharding);
            const Numbers ours = train(setup, feed, training);
            ++ran;
            expect_close(ours, reference, model, subject.tolerance());
          } catch (const InputError&) {
            // A plan with replicas of its own, or more stages than layers.
          }
          if (HasFailure()) return;
        }
    const bool not_replicated = kNotReplicated.contains(system->name);
    EXPECT_GE(ran, not_replicated ? 0 : 4) << system->name << " ran hardly anything";
  }
}

TEST_P(Equivalence, BatchedWeightGradientsAreTheSameSums) {
  const Subject& subject = GetParam();
  const ModelGraph model = subject.model();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const auto reference =
      train(TestSetup("single_device", {}, model, 1, kBatch, 4), feed, {.double_precision = subject.double_precision});
  using Options = std::map<std::string, std::string>;
  const std::tuple<const char*, Options, int> systems[] = {
      {"single_device", {}, 3},
      {"gpipe", {}, 3},
      {"one_f_one_b", {}, 3},
      {"data_parallel", {}, 3},
      // These run I and W apart: the W that stand next to each other are one product.
      {"zero_bubble", {{"variant", "h2"}}, 3},
      {"zeropp", {{"chunks", "1"}}, 2},
      {"layerpipe_style", {}, 4}};
  for (const auto& [system, options, ranks] : systems) {
    SCOPED_TRACE(system);
    const auto ours = train(TestSetup(system, options, model, ranks, kBatch, 4), feed,
                            {.double_precision = subject.double_precision, .batched = true});
    expect_close(ours, reference, model, subject.tolerance());
  }
}

TEST_P(Equivalence, ABarrierAfterTheStepsChangesNoNumber) {
  const Subject& subject = GetParam();
  const ModelGraph model = subject.model();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = subject.double_precision};
  for (const char* system : {"one_f_one_b", "zero_bubble", "zeropp", "data_parallel", "chimera"}) {
    SCOPED_TRACE(system);
    TestSetup setup(system, {}, model, 2, kBatch, 4);
    const auto free = train(setup, feed, training);
    setup.prepared.step_barrier = true;
    expect_same_bits(train(setup, feed, training), free, model);
  }
}

TEST_P(Equivalence, PipeDreamOnOneRankIsPlainTrainingOnWholeBatches) {
  // Nothing is in flight behind an update: no staleness.
  const Subject& subject = GetParam();
  const ModelGraph model = subject.model();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const Training training{.double_precision = subject.double_precision};
  const auto reference = train(TestSetup("single_device", {}, model, 1, kBatch, 1), feed, training);
  for (const char* weights : {"stash", "vertical_sync", "naive"}) {
    SCOPED_TRACE(weights);
    const auto ours = train(TestSetup("pipedream", {{"weights", weights}}, model, 1, kBatch, 1), feed, training);
    EXPECT_EQ(ours.weights, reference.weights);
    EXPECT_EQ(ours.losses, reference.losses);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Equivalence,
                         testing::Values(Subject{"cnn_float", test_cnn, false}, Subject{"cnn_double", test_cnn, true},
                                         Subject{"mlp_float", test_mlp, false}, Subject{"mlp_double", test_mlp, true},
                                         Subject{"transformer_float", test_transformer, false},
                                         Subject{"transformer_double", test_transformer, true},
                                         Subject{"xlnet_double", test_xlnet, true},
                                         Subject{"hourglass_double", test_hourglass, true},
                                         Subject{"residual_lstm_float", test_residual_lstm, false},
                                         Subject{"residual_lstm_double", test_residual_lstm, true},
                                         Subject{"text_transformer_double", test_text_transformer, true},
                                         Subject{"gnmt_float", test_gnmt, false},
                                         Subject{"gnmt_double", test_gnmt, true},
                                         Subject{"translator_float", test_translator, false},
                                         Subject{"translator_double", test_translator, true}),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(ResidualAcrossStages, EveryCutOfATransformerInMidBlockTrainsTheSame) {
  // A cut between ln1 and add1, or between add1 and add2, sends the skip connection along (or, from
  // two stages before, past a stage), and its gradient comes back from two places.
  const ModelGraph model = transformer_regression(1, 16, 2, 32, 6);
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const TestSetup one("single_device", {}, model, 1, kBatch, 3);
  const auto reference = train(one, feed);
  const auto layers = static_cast<int>(model.layers.size()) - 1;  // the loss stays with the last
  for (int a = 1; a < layers; ++a)
    for (int b = a + 1; b < layers; ++b) {
      SCOPED_TRACE(testing::Message() << "cuts before layers " << a << " and " << b);
      TestSetup cut("one_f_one_b", {}, model, 3, kBatch, 3);
      cut.prepared.plan.stages.clear();
      for (const auto& [first, last] : {std::pair{0, a}, {a, b}, {b, layers + 1}}) {
        PlanStage stage{.devices = {DeviceId(cut.prepared.plan.stages.size())}};
        for (int l = first; l < last; ++l) stage.layers.push_back(l);
        cut.prepared.plan.stages.push_back(stage);
      }
      cut.prepared.ranks = ranks_of(cut.prepared.plan);
      cut.prepared.graph = stage_graph(cut.prepared.plan, cut.prepared.costs);
      // The skip's gradient may be summed in another order, so not the same bits.
      expect_close(train(cut, feed), reference, model, 1e-5);
    }
}

TEST(MicroBatches, ThatDifferInPaddingGiveTheGradientsOfTheWholeBatch) {
  // Samples of 1 to 6 tokens: every micro-batch has another number of them.
  for (const ModelGraph& model : {test_residual_lstm(), test_gnmt(), test_translator()}) {
    SCOPED_TRACE(model.name);
    const DataFeed feed = random_feed(model, kBatch * kUpdates);
    const Training exact{.double_precision = true};
    const auto whole = train(TestSetup("single_device", {}, model, 1, kBatch, 1), feed, exact);
    for (const int m : {2, 8, 24})
      expect_close(train(TestSetup("single_device", {}, model, 1, kBatch, m), feed, exact), whole, model, 1e-11);
  }
}

TEST(Repeatability, TheSameSeedGivesTheSameBitsWhateverTheThreadsDo) {
  const ModelGraph model = test_cnn();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  for (const char* system : {"pipedream", "one_f_one_b", "gpipe", "data_parallel"}) {
    SCOPED_TRACE(system);
    const int m = find_system(system, "test").synchronous ? 4 : 1;
    const TestSetup setup(system, {}, model, 3, kBatch, m);
    const Numbers first = train(setup, feed);
    for (int again = 0; again < 3; ++again) {
      const Numbers second = train(setup, feed);
      EXPECT_EQ(first.weights, second.weights);
      EXPECT_EQ(first.losses, second.losses);
    }
  }
}

TEST(Repeatability, AnotherSeedGivesOtherWeights) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const TestSetup setup("one_f_one_b", {}, model, 2, kBatch, 4);
  const Numbers first = train(setup, feed, {.seed = 1}), second = train(setup, feed, {.seed = 2});
  EXPECT_NE(first.losses, second.losses);
  for (std::size_t l = 0; l < first.weights.size(); ++l)
    if (!first.weights[l].empty()) {
      EXPECT_NE(first.weights[l], second.weights[l]) << model.layers[l].name;
    }
}

TEST(Staleness, PipeDreamOnSeveralRanksIsNotPlainTraining) {
  // The counterpart of the equalities: what is known to differ must be seen to differ.
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  const auto reference = train(TestSetup("single_device", {}, model, 1, kBatch, 1), feed);
  const auto ours = train(TestSetup("pipedream", {}, model, 3, kBatch, 1), feed);
  EXPECT_EQ(ours.losses.front(), reference.losses.front());  // the first batch sees no old weight
  EXPECT_GT(relative_error(ours.weights[1], reference.weights[1]), 1e-4);
}

}  // namespace
}  // namespace sluice
