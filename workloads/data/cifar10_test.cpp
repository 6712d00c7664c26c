// The CIFAR-10 reader on files of a few records.
#include "workloads/data/cifar10.h"

#include <cmath>

#include "harness/base/expect_error.h"
#include "workloads/data/test_files.h"

namespace sluice {
namespace {

class Cifar10Test : public DataFiles {
 protected:
  // One record: its label, then 3072 pixels of one value.
  static FileBytes record(std::uint8_t label, std::uint8_t pixel) {
    FileBytes bytes(3073, pixel);
    bytes[0] = label;
    return bytes;
  }
  void SetUp() override {
    DataFiles::SetUp();
    for (int i = 1; i <= 5; ++i)
      put("data_batch_" + std::to_string(i) + ".bin",
          record(static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(10 * i)));
    put("test_batch.bin", record(9, 255));
  }
  std::string error() const {
    return error_of([&] { read_cifar10_folder(folder_); });
  }
};

TEST_F(Cifar10Test, ReadsTheBatchesInOrder) {
  const DataSplit split = read_cifar10_folder(folder_);
  EXPECT_EQ(split.name, "cifar10");
  EXPECT_EQ(split.train.samples, 5);
  EXPECT_EQ(split.test.samples, 1);
  EXPECT_EQ(split.train.labels, (FileBytes{1, 2, 3, 4, 5}));
  EXPECT_EQ(split.train.sample_shape, (Shape{3, 32, 32}));
  EXPECT_EQ(split.train.pixels.size(), 5u * 3072u);
  EXPECT_EQ(split.train.pixels[0], 10);
  EXPECT_EQ(split.train.pixels[5 * 3072 - 1], 50);
  EXPECT_NEAR(split.train.mean, 30.0 / 255, 1e-6);
  EXPECT_NEAR(split.test.deviation, std::sqrt(200.0) / 255, 1e-6);
}

TEST_F(Cifar10Test, PartialRecord) {
  FileBytes bytes = record(1, 1);
  bytes.pop_back();
  put("data_batch_3.bin", bytes);
  EXPECT_TRUE(error().starts_with(at("data_batch_3.bin") + ": has 3072 bytes, not a whole number")) << error();
}

TEST_F(Cifar10Test, EmptyFile) {
  put("test_batch.bin", {});
  EXPECT_TRUE(error().starts_with(at("test_batch.bin") + ": is empty")) << error();
}

TEST_F(Cifar10Test, LabelAboveNine) {
  FileBytes bytes = record(1, 1);
  const FileBytes wrong = record(10, 1);
  bytes.insert(bytes.end(), wrong.begin(), wrong.end());
  put("data_batch_2.bin", bytes);
  EXPECT_TRUE(error().starts_with(at("data_batch_2.bin") + ": label 10 of record 1 is above 9")) << error();
}

TEST_F(Cifar10Test, MissingBatch) {
  std::filesystem::remove(at("data_batch_5.bin"));
  EXPECT_TRUE(error().starts_with(at("data_batch_5.bin") + ": no such file")) << error();
}

}  // namespace
}  // namespace sluice
