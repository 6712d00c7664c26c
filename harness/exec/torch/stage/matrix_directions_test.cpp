#include "harness/exec/torch/stage/matrix_directions.h"

#include <gtest/gtest.h>
#include <sluice_build.h>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/exec/torch/stage/optimizer.h"

namespace sluice {
namespace {

const at::TensorOptions kDouble = at::TensorOptions().dtype(at::kDouble);

at::Tensor matrix_of(const Json& rows) {
  std::vector<double> values;
  for (const Json& row : rows)
    for (const Json& value : row) values.push_back(value.get<double>());
  return at::tensor(values, kDouble).view({static_cast<std::int64_t>(rows.size()), -1});
}

// From an independent program (numpy), after 1, 2 and 5 steps.
TEST(NewtonSchulz, StepsAsTheIterationIsWritten) {
  const Json file = parse_json_file(SLUICE_SOURCE_DIR "/harness/tests/data/weights_2025.json");
  const Json& expected = file.at("newton_schulz");
  const at::Tensor input = matrix_of(expected.at("input"));
  for (const Json& result : expected.at("results")) {
    const at::Tensor wanted = matrix_of(result.at("output"));
    const int steps = result.at("steps").get<int>();
    EXPECT_LT((newton_schulz(input, NewtonSchulzPrecision::training, steps) - wanted).abs().max().item<double>(),
              1e-12);
    EXPECT_LT(
        (newton_schulz(input.t(), NewtonSchulzPrecision::training, steps) - wanted.t()).abs().max().item<double>(),
        1e-12);
  }
}

TEST(NewtonSchulz, InBfloat16ItIsAsFarOffAsPyTorchs) {
  const at::Tensor input = at::tensor({0.6, -0.2, 0.1, 0.9, -0.4, 0.3}, kDouble).view({3, 2});
  const at::Tensor exact = newton_schulz(input, NewtonSchulzPrecision::training);
  const double off = (newton_schulz(input, NewtonSchulzPrecision::bfloat16) - exact).abs().max().item<double>();
  EXPECT_GT(off, 1e-6);
  EXPECT_LT(off, 0.05);
}

TEST(MatrixDirections, KeepsOneTensorOfAMatrixUnderMuonAndTwoOfWhatIsNone) {
  OptimizerSpec spec{.kind = OptimizerKind::muon, .momentum = 0.95, .nesterov = true};
  const MatrixDirections muon(spec, {{0, 3, 2}, {6, 3, 0}}, kDouble);
  std::int64_t elements = 0;
  for (const at::Tensor& t : muon.state()) elements += t.numel();
  EXPECT_EQ(elements, 6 + 2 * 3);

  spec = {.kind = OptimizerKind::rotated_adam};
  elements = 0;
  for (const at::Tensor& t : MatrixDirections(spec, {{0, 3, 2}, {6, 3, 0}}, kDouble).state()) elements += t.numel();
  EXPECT_EQ(elements, 2 * 6 + 2 * (9 + 4) + 2 * 3);
}

TEST(MatrixDirections, AnOrthogonalDirectionStepsEverySingularValueAlike) {
  const OptimizerSpec spec{.kind = OptimizerKind::muon, .momentum = 0, .nesterov = false};
  MatrixDirections muon(spec, {{0, 4, 4}}, kDouble);
  at::Tensor direction = at::empty({16}, kDouble);
  muon.write(direction, at::diag(at::tensor({8.0, 4.0, 2.0, 1.0}, kDouble)).flatten(), 1);
  const at::Tensor values = direction.view({4, 4}).diagonal();
  EXPECT_GT(values.min().item<double>(), 0.6);
  EXPECT_LT(values.max().item<double>(), 1.3);
}

// A checkpoint holds steps(), not the product of the momenta.
TEST(Optimizer, NadamGoesOnAfterItsStateWasRestored) {
  const OptimizerSpec spec{.kind = OptimizerKind::nadamw, .weight_decay = 0.1, .beta1 = 0.99};
  at::Tensor straight = at::ones({3}, kDouble), resumed = straight.clone();
  const at::Tensor gradient = at::tensor({0.5, -1.0, 2.0}, kDouble);
  Optimizer whole(spec, 3, kDouble), before(spec, 3, kDouble), after(spec, 3, kDouble);
  for (int k = 0; k < 6; ++k) whole.step(straight, straight, gradient, 0.01);
  for (int k = 0; k < 3; ++k) before.step(resumed, resumed, gradient, 0.01);
  after.set_steps(before.steps());
  for (std::size_t k = 0; k < before.state().size(); ++k) at::Tensor(after.state()[k]).copy_(before.state()[k]);
  for (int k = 0; k < 3; ++k) after.step(resumed, resumed, gradient, 0.01);
  EXPECT_TRUE(at::equal(straight, resumed));
}

}  // namespace
}  // namespace sluice
