// A data set in memory: images as the bytes of the file, normalised when a batch is filled, or text as token ids, one
// column per model input; one label per sample, or one target per position. It is not changed after reading, so all
// ranks may fill batches at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/model/layer_spec.h"

namespace sluice {

// Token ids of one fixed length, padded at the end.
struct TokenColumn {
  std::int64_t length = 0;        // of every sample
  std::vector<std::int32_t> ids;  // samples * length
};

struct Dataset {
  Shape sample_shape;  // {channels, height, width}
  std::int64_t samples = 0;
  std::vector<std::uint8_t> pixels;  // samples * elements(sample_shape)
  std::vector<std::uint8_t> labels;  // one per sample, below `classes`
  int classes = 0;
  float mean = 0, deviation = 1;  // of pixel / 255, over the training set
  // Text instead of pixels: one column per model input; targets of every position (kNoTarget for positions without a
  // prediction) instead of labels.
  std::vector<TokenColumn> columns;
  TokenColumn targets;

  // out: indices.size() * elements(sample_shape) values (pixel / 255 - mean) / deviation.
  void fill_features(std::span<const std::int64_t> indices, float* out) const;
  void fill_labels(std::span<const std::int64_t> indices, std::int64_t* out) const;
  // out: indices.size() * columns[column].length ids; ... * targets.length targets.
  void fill_tokens(std::size_t column, std::span<const std::int64_t> indices, std::int64_t* out) const;
  void fill_targets(std::span<const std::int64_t> indices, std::int64_t* out) const;
};

struct DataSplit {
  std::string name, source;
  Dataset train, test;
  Dataset validation;  // also held out, to choose rates by; empty for images
  // Translation: the words of every test target, and those of predicted ids.
  std::vector<std::vector<std::string>> references;
  std::function<std::vector<std::string>(std::span<const std::int32_t> ids)> words;
};

// Limits of a model's text, from its declaration: positions and ids.
struct TextLimits {
  std::int64_t source_length = 0, source_vocabulary = 0;
  std::int64_t target_length = 0, target_vocabulary = 0;  // 0: no target text
  bool predicts_next = false;  // a language model: the next token of the source at every position
};

// Sets mean and deviation of both parts from the training pixels.
void normalise(DataSplit& split);

// The whole file, decompressed if its name ends in .gz, or in .dz like dictzip's. size_of: for a file whose first bytes
// (up to 64 KiB) give its size; of a larger file, only a few bytes more than that are read. Throws InputError: missing,
// unreadable, not gzip, cut off, larger than `most` bytes or than the available memory.
std::vector<std::uint8_t> read_file(const std::string& path, std::size_t most,
                                    std::size_t (*size_of)(std::span<const std::uint8_t> begin) = nullptr);

}  // namespace sluice
