// Normalisation and the filling of batches, by hand.
#include "workloads/data/dataset.h"

#include <cmath>

#include "harness/base/expect_error.h"
#include "workloads/data/test_files.h"

namespace sluice {
namespace {

DataSplit four_pixels() {
  DataSplit split;
  split.train.sample_shape = split.test.sample_shape = {1, 1, 2};
  split.train.samples = 2;
  split.train.pixels = {0, 51, 102, 255};  // 0, 0.2, 0.4, 1
  split.train.labels = {3, 1};
  split.test.samples = 1;
  split.test.pixels = {255, 0};
  split.test.labels = {2};
  return split;
}

TEST(Normalise, UsesTheTrainingPixelsForBothParts) {
  DataSplit split = four_pixels();
  normalise(split);
  // Mean 1.6 / 4; variance (0 + 0.04 + 0.16 + 1) / 4 - 0.16.
  for (const Dataset* part : {&split.train, &split.test}) {
    EXPECT_NEAR(part->mean, 0.4, 1e-6);
    EXPECT_NEAR(part->deviation, std::sqrt(0.14), 1e-6);
  }
}

TEST(Normalise, LeavesConstantPixelsFinite) {
  DataSplit split = four_pixels();
  split.train.pixels = {51, 51, 51, 51};
  normalise(split);
  EXPECT_FLOAT_EQ(split.train.deviation, 1.0f);
  float out[2];
  const std::int64_t index = 0;
  split.train.fill_features({&index, 1}, out);
  EXPECT_NEAR(out[0], 0, 1e-6);
}

TEST(Dataset, FillsFeaturesInTheOrderAskedFor) {
  Dataset data = four_pixels().train;
  data.mean = 0.4f;
  data.deviation = 0.5f;
  const std::vector<std::int64_t> indices = {1, 0, 1};
  std::vector<float> out(6);
  data.fill_features(indices, out.data());
  const std::vector<double> expected = {0, 1.2, -0.8, -0.4, 0, 1.2};
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-6) << i;
}

TEST(Dataset, FillsLabelsInTheOrderAskedFor) {
  const Dataset data = four_pixels().train;
  const std::vector<std::int64_t> indices = {1, 1, 0};
  std::vector<std::int64_t> out(3);
  data.fill_labels(indices, out.data());
  EXPECT_EQ(out, (std::vector<std::int64_t>{1, 1, 3}));
}

using ReadFileTest = DataFiles;

TEST_F(ReadFileTest, RejectsMoreThanTheMost) {
  const FileBytes bytes(1000, 42);
  for (const std::string& path : {put("plain", bytes), put_gz("packed.gz", bytes)}) {
    EXPECT_EQ(read_file(path, 1000), bytes);
    const std::string message = error_of([&] { read_file(path, 999); });
    EXPECT_TRUE(message.starts_with(path + ": is larger than")) << message;
  }
}

}  // namespace
}  // namespace sluice
