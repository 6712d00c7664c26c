#include "workloads/data/cifar10.h"

#include "harness/base/error.h"

namespace sluice {

static void append_records(const std::string& path, Dataset& data) {
  constexpr std::size_t kPixels = 3UL * 32 * 32, kRecord = 1 + kPixels;
  const std::vector<std::uint8_t> bytes = read_file(path, std::size_t{1} << 28);
  if (bytes.empty() || bytes.size() % kRecord != 0)
    throw InputError(
        path,
        "has " + std::to_string(bytes.size()) + " bytes, not a whole number of records of " + std::to_string(kRecord),
        "take the binary version of CIFAR-10; is the file cut off?");
  for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
    if (bytes[at] > 9)
      throw InputError(
          path, "label " + std::to_string(bytes[at]) + " of record " + std::to_string(at / kRecord) + " is above 9",
          "take the binary version of CIFAR-10");
    data.labels.push_back(bytes[at]);
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at + 1);
    data.pixels.insert(data.pixels.end(), first, first + static_cast<std::ptrdiff_t>(kPixels));
    ++data.samples;
  }
}

DataSplit read_cifar10_folder(const std::string& folder) {
  DataSplit split{.name = "cifar10", .source = folder, .train = {}, .test = {}};
  for (Dataset* part : {&split.train, &split.test}) {
    part->sample_shape = {3, 32, 32};
    part->classes = 10;
  }
  for (int i = 1; i <= 5; ++i) append_records(folder + "/data_batch_" + std::to_string(i) + ".bin", split.train);
  append_records(folder + "/test_batch.bin", split.test);
  normalise(split);
  return split;
}

}  // namespace sluice
