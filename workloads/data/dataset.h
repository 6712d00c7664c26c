// A data set in memory: images as the bytes of the file, normalised when a batch is filled, and one
// label a sample. Immutable once read, so that all ranks may fill batches at the same time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/core/layer_spec.h"

namespace sluice {

struct Dataset {
  Shape sample_shape;  // {channels, height, width}
  std::int64_t samples = 0;
  std::vector<std::uint8_t> pixels;  // samples * elements(sample_shape)
  std::vector<std::uint8_t> labels;  // one a sample, below `classes`
  int classes = 0;
  float mean = 0, deviation = 1;  // of pixel / 255, over the training set

  // out: indices.size() * elements(sample_shape) values (pixel / 255 - mean) / deviation.
  void fill_features(std::span<const std::int64_t> indices, float* out) const;
  void fill_labels(std::span<const std::int64_t> indices, std::int64_t* out) const;
};

struct DataSplit {
  std::string name, source;
  Dataset train, test;
};

// Sets mean and deviation of both parts from the training pixels.
void normalise(DataSplit& split);

// The whole file, decompressed if its name ends in .gz. Throws InputError: missing, unreadable, not
// gzip, cut off, larger than `most` bytes.
std::vector<std::uint8_t> read_file(const std::string& path, std::size_t most);

}  // namespace sluice
