#include "workloads/data/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>

#include "harness/base/error.h"
#include "harness/base/read_text.h"

namespace sluice {

static constexpr const char* kFetchAdvice =
    "if workloads/data/fetch brought it, run that again (./quickstart does); otherwise copy the file "
    "again from where it came";

void Dataset::fill_features(std::span<const std::int64_t> indices, float* out) const {
  std::array<float, 256> value;
  for (std::size_t p = 0; p < value.size(); ++p) value[p] = (static_cast<float>(p) / 255.0f - mean) / deviation;
  const std::int64_t n = elements(sample_shape);
  for (const std::int64_t index : indices) {
    const std::uint8_t* from = &pixels[index * n];
    for (std::int64_t i = 0; i < n; ++i) *out++ = value[from[i]];
  }
}

void Dataset::fill_labels(std::span<const std::int64_t> indices, std::int64_t* out) const {
  for (const std::int64_t index : indices) *out++ = labels[index];
}

static void fill(const TokenColumn& column, std::span<const std::int64_t> indices, std::int64_t* out) {
  for (const std::int64_t index : indices) {
    const std::int32_t* from = &column.ids[index * column.length];
    out = std::copy(from, from + column.length, out);
  }
}

void Dataset::fill_tokens(std::size_t column, std::span<const std::int64_t> indices, std::int64_t* out) const {
  fill(columns.at(column), indices, out);
}

void Dataset::fill_targets(std::span<const std::int64_t> indices, std::int64_t* out) const {
  fill(targets, indices, out);
}

void normalise(DataSplit& split) {
  std::array<std::uint64_t, 256> counts{};
  for (const std::uint8_t p : split.train.pixels) ++counts[p];
  double sum = 0, squares = 0;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    const double value = static_cast<double>(p) / 255.0, n = static_cast<double>(counts[p]);
    sum += n * value;
    squares += n * value * value;
  }
  const double n = static_cast<double>(split.train.pixels.size());
  const double mean = sum / n, variance = squares / n - mean * mean;
  for (Dataset* part : {&split.train, &split.test}) {
    part->mean = static_cast<float>(mean);
    part->deviation = static_cast<float>(variance > 1e-12 ? std::sqrt(variance) : 1.0);
  }
}

using SizeOf = std::size_t (*)(std::span<const std::uint8_t> begin);

static std::vector<std::uint8_t> read_all(const std::string& path, std::size_t most, SizeOf size_of) {
  std::string text;
  if (path.ends_with(".gz") || path.ends_with(".dz")) {
    const auto size_of_text = [&](std::string_view begin) {
      return size_of ? size_of({reinterpret_cast<const std::uint8_t*>(begin.data()), begin.size()}) : most;
    };
    text = read_gzip(path, most, kFetchAdvice, size_of_text);
  } else {
    text = read_text(path, most, kFetchAdvice);
  }
  return {text.begin(), text.end()};
}

std::vector<std::uint8_t> read_file(const std::string& path, std::size_t most, SizeOf size_of) {
  try {
    std::vector<std::uint8_t> bytes = read_all(path, most, size_of);
    if (bytes.empty()) throw InputError(path, "is empty", kFetchAdvice);
    return bytes;
  } catch (const std::bad_alloc&) {
    throw InputError(path, "does not fit into this process's memory", kFetchAdvice);
  }
}

}  // namespace sluice
