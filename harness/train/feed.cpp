#include "harness/train/feed.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "workloads/data/bleu.h"
#include "workloads/data/locate.h"
#include "workloads/data/text.h"

namespace sluice {

TextLimits text_limits(const ModelGraph& model) {
  TextLimits limits;
  const auto vocabulary_of = [&](int input) {
    std::int64_t smallest = INT64_MAX;
    for (const LayerSpec& layer : model.layers)
      if (const auto* table = std::get_if<Embedding>(&layer.kind); table && layer.inputs[0] == input)
        smallest = std::min(smallest, table->vocabulary);
    return smallest;
  };
  const auto length_of = [&](std::size_t input) { return model.inputs[input].shape[0]; };
  if (model.inputs[0].is_token_ids) {
    limits.source_length = length_of(0);
    limits.source_vocabulary = vocabulary_of(-1);
  }
  if (model.inputs.size() > 1 && model.inputs[1].is_token_ids) {
    limits.target_length = length_of(1);
    limits.target_vocabulary = vocabulary_of(-2);
  }
  return limits;
}

std::shared_ptr<const DataSplit> data_of(const std::string& name, const ModelGraph& model) {
  using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  static std::map<Key, std::shared_ptr<const DataSplit>> loaded;
  const TextLimits limits = text_limits(model);
  auto& split =
      loaded[{name, limits.source_length, limits.source_vocabulary, limits.target_length, limits.target_vocabulary}];
  if (!split) split = std::make_shared<DataSplit>(load_dataset(name, limits));
  return split;
}

DataFeed feed_of(const std::shared_ptr<const DataSplit>& data, HeldOut held_out) {
  const bool test = held_out == HeldOut::test;
  const auto part = [data, test](bool train) -> const Dataset& {
    return train ? data->train : test ? data->test : data->validation;
  };
  DataFeed feed;
  feed.train_samples = data->train.samples;
  feed.test_samples = part(false).samples;
  feed.features = [part](bool train, std::span<const std::int64_t> indices, float* out) {
    part(train).fill_features(indices, out);
  };
  feed.tokens = [part](bool train, std::size_t input, std::span<const std::int64_t> indices, std::int64_t* out) {
    part(train).fill_tokens(input, indices, out);
  };
  const bool at_every_position = data->train.targets.length > 0;
  feed.classes = [part, at_every_position](bool train, std::span<const std::int64_t> indices, std::int64_t* out) {
    at_every_position ? part(train).fill_targets(indices, out) : part(train).fill_labels(indices, out);
  };
  if (data->words && test) {
    Decoding decoding{.metric = "bleu", .begin = kBegin, .end = kEnd, .score = {}};
    decoding.samples = std::min(kDecodedSamples, data->test.samples);
    decoding.score = [data](std::span<const std::vector<std::int32_t>> generated) {
      std::vector<std::vector<std::string>> texts;
      for (const auto& ids : generated) texts.push_back(data->words(ids));
      return corpus_bleu(texts, std::span(data->references).first(texts.size()));
    };
    feed.decoding = std::move(decoding);
  }
  return feed;
}

}  // namespace sluice
