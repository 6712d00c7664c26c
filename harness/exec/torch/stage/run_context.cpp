#include "harness/exec/torch/stage/run_context.h"

#include <ATen/ATen.h>

namespace sluice {

at::Tensor load_input(const RunContext& context, bool train, std::size_t number,
                      std::span<const std::int64_t> samples) {
  if (!context.spec->feed)
    return context.synthetic_features[number].index_select(
        0, at::tensor(std::vector<std::int64_t>(samples.begin(), samples.end())));
  const ModelInput& input = context.spec->model.inputs[number];
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(samples.size())};
  shape.insert(shape.end(), input.shape.begin(), input.shape.end());
  const DataFeed& feed = *context.spec->feed;
  if (input.is_token_ids) {
    at::Tensor ids = at::empty(shape, at::kLong);
    feed.tokens(train, number, samples, ids.data_ptr<std::int64_t>());
    return ids;
  }
  at::Tensor features = at::empty(shape, context.options);
  if (context.spec->double_precision) {
    feed.features_double(train, samples, features.data_ptr<double>());
  } else {
    feed.features(train, samples, features.data_ptr<float>());
  }
  return features;
}

at::Tensor load_targets(const RunContext& context, bool train, std::span<const std::int64_t> samples) {
  const auto n = static_cast<std::int64_t>(samples.size());
  if (!context.spec->feed)
    return context.synthetic_targets.index_select(
        0, at::tensor(std::vector<std::int64_t>(samples.begin(), samples.end())));
  const DataFeed& feed = *context.spec->feed;
  const ModelGraph& model = context.spec->model;
  const Shape out = model.shapes()[model.layers.back().inputs.front()];
  if (feed.classes) {
    std::vector<std::int64_t> positions{n};
    positions.insert(positions.end(), out.begin(), out.end() - 1);
    at::Tensor classes = at::empty(positions, at::kLong);
    feed.classes(train, samples, classes.data_ptr<std::int64_t>());
    return classes;
  }
  std::vector<std::int64_t> shape{n};
  shape.insert(shape.end(), out.begin(), out.end());
  at::Tensor values = at::empty(shape, at::kDouble);
  feed.values(train, samples, values.data_ptr<double>());
  return values.to(context.options.dtype());
}

}  // namespace sluice
