#include "harness/case/feed.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "harness/base/error.h"
#include "workloads/data/bleu.h"
#include "workloads/data/locate.h"
#include "workloads/data/text.h"

namespace sluice {

// The loss is last: what it reads has one number a class.
static Shape scored_shape(const ModelGraph& model) {
  const int scores = model.layers.back().inputs.at(0);
  return scores < 0 ? model.inputs.at(-1 - scores).shape : model.shapes().at(scores);
}

TextLimits text_limits(const ModelGraph& model) {
  TextLimits limits;
  const auto length_of = [&](std::size_t input) { return model.inputs[input].shape[0]; };
  if (model.inputs[0].is_token_ids) {
    limits.source_length = length_of(0);
    limits.source_vocabulary = vocabulary(model, 0);
  }
  if (model.inputs.size() > 1 && model.inputs[1].is_token_ids) {
    limits.target_length = length_of(1);
    limits.target_vocabulary = vocabulary(model, 1);
  }
  // One text in, and scores at each of its positions out.
  if (limits.source_length > 0 && limits.target_length == 0) {
    const Shape scored = scored_shape(model);
    limits.predicts_next = scored.size() == 2 && scored[0] == limits.source_length;
  }
  return limits;
}

static void reject(const DataSplit& data, const std::string& what) {
  throw InputError(data.source, what, "give the data set that the workload was made for");
}

// The sizes that the model reads, held against those that the files have: a tensor made of the wrong ones would be read
// beyond its end.
static void check_fits(const DataSplit& data, const ModelGraph& model) {
  const ModelInput& input = model.inputs.at(0);
  const Shape scored = scored_shape(model);
  const std::int64_t classes = scored.back();
  for (const Dataset* part : {&data.train, &data.validation, &data.test}) {
    if (part->samples == 0) continue;
    // A model may read an image as a row of numbers.
    const bool fits = part->sample_shape == input.shape ||
                      (input.shape.size() == 1 && elements(part->sample_shape) == input.shape[0]);
    if (!input.is_token_ids && !fits)
      reject(data, "holds images of " + to_text(part->sample_shape) + ", the model reads " + to_text(input.shape));
    if (input.is_token_ids && (part->columns.size() != model.inputs.size()))
      reject(data, "has " + std::to_string(part->columns.size()) + " texts a sample, the model reads " +
                       std::to_string(model.inputs.size()));
    for (std::size_t c = 0; c < part->columns.size(); ++c)
      if (part->columns[c].length != model.inputs[c].shape.at(0))
        reject(data, "has texts of " + std::to_string(part->columns[c].length) + " words, the model reads " +
                         std::to_string(model.inputs[c].shape.at(0)));
    const bool at_every_position = part->targets.length > 0;
    if (at_every_position && (scored.size() != 2 || scored[0] != part->targets.length))
      reject(data, "has " + std::to_string(part->targets.length) + " words to predict, the model's loss reads " +
                       to_text(scored));
    if (!at_every_position && scored.size() != 1)
      reject(data, "has one class a sample, the model's loss reads " + to_text(scored));
    const TextLimits limits = text_limits(model);
    const std::int64_t words = limits.predicts_next ? limits.source_vocabulary : limits.target_vocabulary;
    if (at_every_position && words > classes)
      reject(data, "has " + std::to_string(words) + " words, the model tells " + std::to_string(classes) + " apart");
    if (part->targets.length == 0 && part->classes > classes)
      reject(data, "has " + std::to_string(part->classes) + " classes, the model tells " + std::to_string(classes) +
                       " apart");
  }
}

std::shared_ptr<const DataSplit> data_of(const std::string& name, const ModelGraph& model) {
  using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  static std::mutex mutex;
  static std::map<Key, std::shared_ptr<const DataSplit>> loaded;
  const TextLimits limits = text_limits(model);
  const std::lock_guard lock(mutex);
  auto& split = loaded[{name, limits.source_length, limits.source_vocabulary, limits.target_length,
                        limits.target_vocabulary, limits.predicts_next}];
  if (!split) split = std::make_shared<DataSplit>(load_dataset(name, limits));
  check_fits(*split, model);
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
