// The gradient of an update is the mean over its micro-batches, and the loss of a padded batch the mean over its
// samples: four mistakes that users of pipelines reported (a sum in place of the mean; a division too many; tokens
// counted per micro-batch after its backward; gradients wiped by a second initialisation), each made here on purpose,
// are told from one device that takes the batch at once.
#include <gtest/gtest.h>

#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

constexpr int kAddedMicros = 6;  // of four samples, whose numbers of tokens differ
constexpr std::int64_t kAddedLength = 6;

using AddedGradients = std::vector<std::vector<double>>;  // per layer

ModelGraph padded_language_model() {
  return {.name = "words",
          .inputs = {{.shape = {kAddedLength}, .is_token_ids = true}},
          .layers = {{"embedding", Embedding{12, 8}, {-1}},
                     {"norm", LayerNorm{8}, {0}},
                     {"hidden", Linear{8, 8}, {1}},
                     {"head", Linear{8, 12}, {2}},
                     {"loss", CrossEntropyLoss{}, {3}}}};
}

// After the programs have run one after another, each on samples `first` and those that follow.
AddedGradients gradients_of(const TestSetup& setup, const std::vector<Program>& programs, double loss_scale = 1,
                            std::int64_t first = 0) {
  const ModelGraph& model = setup.workload->model;
  SessionSpec spec = setup.spec({.learning_rate = 0.1});
  spec.double_precision = true;
  spec.loss_scale = loss_scale;
  spec.feed = random_feed(model, kBatch);
  const auto session = make_session(spec);
  for (const Program& program : programs) {
    RunRequest request;
    request.order = samples_from(first, spec.micro_batch * program.microbatches);
    request.timeout = Seconds(120);
    session->run(program, request);
  }
  AddedGradients gradients;
  for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) gradients.push_back(session->gradients(l));
  return gradients;
}

TestSetup on_ranks(int ranks, int microbatches = kAddedMicros, std::int64_t batch = kBatch) {
  return {"1f1b", {}, padded_language_model(), ranks, batch, microbatches};
}

AddedGradients of_micro_batches(int ranks, double loss_scale = 1) {
  const TestSetup setup = on_ranks(ranks);
  return gradients_of(setup, {make_program(setup.prepared, kAddedMicros)}, loss_scale);
}

AddedGradients of_one_device() {
  const TestSetup whole("single_device", {}, padded_language_model(), 1, kBatch, 1);
  return gradients_of(whole, {make_program(whole.prepared, 1)});
}

// What every comparison with one device asks; the largest error over the layers.
double error_of_gradients(const AddedGradients& ours) {
  const AddedGradients reference = of_one_device();
  double largest = 0;
  for (std::size_t l = 0; l < reference.size(); ++l)
    if (!reference[l].empty()) largest = std::max(largest, relative_error(ours[l], reference[l]));
  return largest;
}

TEST(GradientAccumulation, IsTheMeanOverTheMicroBatchesOfOneDevicesBatch) {
  for (const int ranks : {1, 2, 3}) EXPECT_LE(error_of_gradients(of_micro_batches(ranks)), 1e-12) << ranks;
}

TEST(GradientAccumulation, ASumInPlaceOfTheMeanIsFound) {
  EXPECT_NEAR(error_of_gradients(of_micro_batches(2, kAddedMicros)), kAddedMicros - 1, 1e-9);
}

TEST(GradientAccumulation, ADivisionTooManyIsFound) {
  EXPECT_NEAR(error_of_gradients(of_micro_batches(2, 1.0 / kAddedMicros)), 1 - 1.0 / kAddedMicros, 1e-9);
}

// Each micro-batch divided by its own tokens, known after its backward, in place of by what the batch has.
TEST(GradientAccumulation, TokensCountedPerMicroBatchAfterItsBackwardAreFound) {
  constexpr std::int64_t kSamples = kBatch / kAddedMicros;
  const TestSetup one = on_ranks(2, 1, kSamples);
  const Program program = make_program(one.prepared, 1);
  const auto tokens_of = [](std::int64_t sample) { return kAddedLength - sample % kAddedLength; };  // random_ids()
  std::int64_t all = 0;
  for (std::int64_t i = 0; i < kBatch; ++i) all += tokens_of(i);
  AddedGradients right, wrong;
  for (int m = 0; m < kAddedMicros; ++m) {
    std::int64_t own = 0;
    for (std::int64_t i = m * kSamples; i < (m + 1) * kSamples; ++i) own += tokens_of(i);
    const AddedGradients part = gradients_of(one, {program}, 1.0 / kAddedMicros, m * kSamples);
    right.resize(part.size());
    wrong.resize(part.size());
    for (std::size_t l = 0; l < part.size(); ++l) {
      right[l].resize(part[l].size());
      wrong[l].resize(part[l].size());
      for (std::size_t i = 0; i < part[l].size(); ++i) {
        right[l][i] += part[l][i];
        wrong[l][i] += part[l][i] * static_cast<double>(all) / static_cast<double>(kAddedMicros * own);
      }
    }
  }
  EXPECT_LE(error_of_gradients(right), 1e-12);
  EXPECT_GT(error_of_gradients(wrong), 1e-3);
}

// The second half of the micro-batches in a run of its own, which begins with an empty accumulator.
TEST(GradientAccumulation, ASecondInitialisationThatWipesTheFirstMicroBatchesIsFound) {
  const TestSetup setup = on_ranks(1);
  const Program whole = make_program(setup.prepared, kAddedMicros);
  Program first = whole, second = whole;
  std::erase_if(first.ranks[0], [](const Instruction& i) {
    return i.opcode == Opcode::optimizer_step || i.micro.value >= kAddedMicros / 2;
  });
  std::erase_if(second.ranks[0], [](const Instruction& i) {
    return i.opcode != Opcode::optimizer_step && i.micro.value < kAddedMicros / 2;
  });
  EXPECT_GT(error_of_gradients(gradients_of(setup, {first, second})), 0.1);
}

}  // namespace
}  // namespace sluice
