#include "workloads/data/idx.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "harness/base/error.h"

namespace sluice {

namespace {

constexpr std::size_t kLargest = std::size_t{1} << 31;
constexpr std::uint64_t kAbsurd = std::uint64_t{1} << 32;  // times kLargest still fits into 64 bits
constexpr const char* kIdxAdvice = "is it an idx file of MNIST or Fashion-MNIST?";

std::uint32_t big_endian(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) << 24 | static_cast<std::uint32_t>(bytes[at + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[at + 2]) << 8 | bytes[at + 3];
}

// Bytes of a file whose header has `fields` numbers, at most kAbsurd.
template <std::size_t fields>
std::size_t size_by_header(std::span<const std::uint8_t> begin) {
  std::uint64_t data = 1;
  for (std::size_t f = 0; f < fields && begin.size() >= 8 + 4 * f; ++f)
    data = std::min(data * big_endian(begin, 4 + 4 * f), kAbsurd);
  return 4 + 4 * fields + data;
}

// Header of `fields` numbers after the magic; what follows must be exactly their product in bytes.
std::vector<std::uint32_t> read_header(const std::string& path, const std::vector<std::uint8_t>& bytes,
                                       std::uint32_t magic, std::size_t fields) {
  const std::size_t header = 4 + 4 * fields;
  if (bytes.size() < header) throw InputError(path, "is cut off inside its header", kIdxAdvice);
  if (big_endian(bytes, 0) != magic)
    throw InputError(
        path,
        "begins with " + std::to_string(big_endian(bytes, 0)) + ", not with the magic number " + std::to_string(magic),
        kIdxAdvice);
  std::vector<std::uint32_t> sizes;
  std::uint64_t expected = 1;
  for (std::size_t f = 0; f < fields; ++f) {
    sizes.push_back(big_endian(bytes, 4 + 4 * f));
    if (sizes.back() == 0) throw InputError(path, "has no samples or empty ones", kIdxAdvice);
    // Capped at both factors, so that the product of absurd sizes does not wrap round to a small one.
    expected = std::min(expected * std::min<std::uint64_t>(sizes.back(), kLargest), kAbsurd);
  }
  const std::uint64_t found = bytes.size() - header;
  if (found != expected)
    throw InputError(path,
                     "promises " + std::to_string(expected) + " bytes of data and has " +
                         (found < expected ? std::to_string(found) + " (cut off)" : "more"),
                     "for Fashion-MNIST run workloads/data/fetch; otherwise copy it again");
  return sizes;
}

}  // namespace

Dataset read_idx(const std::string& images, const std::string& labels, int classes) {
  std::vector<std::uint8_t> image_bytes = read_file(images, kLargest, size_by_header<3>);
  const auto sizes = read_header(images, image_bytes, 0x803, 3);
  std::vector<std::uint8_t> label_bytes = read_file(labels, kLargest, size_by_header<1>);
  const auto count = read_header(labels, label_bytes, 0x801, 1);
  if (count[0] != sizes[0])
    throw InputError(
        labels, "has " + std::to_string(count[0]) + " labels for " + std::to_string(sizes[0]) + " images of " + images,
        "take both from one data set");
  Dataset data;
  data.samples = sizes[0];
  data.sample_shape = {1, sizes[1], sizes[2]};
  data.classes = classes;
  data.pixels.assign(image_bytes.begin() + 16, image_bytes.end());
  data.labels.assign(label_bytes.begin() + 8, label_bytes.end());
  const auto wrong = std::ranges::find_if(data.labels, [&](std::uint8_t l) { return l >= classes; });
  if (wrong != data.labels.end())
    throw InputError(labels,
                     "label " + std::to_string(*wrong) + " of sample " + std::to_string(wrong - data.labels.begin()) +
                         " is not below " + std::to_string(classes),
                     kIdxAdvice);
  return data;
}

DataSplit read_idx_folder(const std::string& folder, const std::string& name) {
  const auto file = [&](const std::string& stem) {
    const std::string plain = folder + "/" + stem;
    return std::filesystem::exists(plain) ? plain : plain + ".gz";
  };
  DataSplit split{.name = name, .source = folder, .train = {}, .test = {}};
  split.train = read_idx(file("train-images-idx3-ubyte"), file("train-labels-idx1-ubyte"), 10);
  split.test = read_idx(file("t10k-images-idx3-ubyte"), file("t10k-labels-idx1-ubyte"), 10);
  if (split.train.sample_shape != split.test.sample_shape)
    throw InputError(folder,
                     "training images are " + to_text(split.train.sample_shape) + ", test images " +
                         to_text(split.test.sample_shape),
                     "take both from one data set");
  normalise(split);
  return split;
}

}  // namespace sluice
