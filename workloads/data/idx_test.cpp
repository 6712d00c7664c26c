// The idx reader: what it reads, and one message that names the file for everything it rejects.
#include "workloads/data/idx.h"

#include "harness/base/expect_error.h"
#include "workloads/data/test_files.h"

namespace sluice {
namespace {

class IdxTest : public DataFiles {
 protected:
  // Two images of 2 x 3 pixels, labels 7 and 0.
  void SetUp() override {
    DataFiles::SetUp();
    images_ = put("images", image_bytes_);
    labels_ = put("labels", label_bytes_);
  }
  std::string error(const std::string& images, const std::string& labels, int classes = 10) const {
    return error_of([&] { read_idx(images, labels, classes); });
  }
  // The message begins with the file's name, says `what`, and is one line.
  static void expect_names(const std::string& message, const std::string& file, const std::string& what) {
    EXPECT_TRUE(message.starts_with(file + ": ")) << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }

  const FileBytes pixels_ = {0, 1, 2, 3, 4, 5, 250, 251, 252, 253, 254, 255};
  const FileBytes image_bytes_ = idx_bytes(0x803, {2, 2, 3}, pixels_);
  const FileBytes label_bytes_ = idx_bytes(0x801, {2}, {7, 0});
  std::string images_, labels_;
};

TEST_F(IdxTest, ReadsPixelsLabelsAndShape) {
  const Dataset data = read_idx(images_, labels_, 10);
  EXPECT_EQ(data.samples, 2);
  EXPECT_EQ(data.sample_shape, (Shape{1, 2, 3}));
  EXPECT_EQ(data.pixels, pixels_);
  EXPECT_EQ(data.labels, (FileBytes{7, 0}));
  EXPECT_EQ(data.classes, 10);
}

TEST_F(IdxTest, PlainAndGzipGiveTheSameData) {
  const Dataset plain = read_idx(images_, labels_, 10);
  const Dataset packed = read_idx(put_gz("images.gz", image_bytes_), put_gz("labels.gz", label_bytes_), 10);
  EXPECT_EQ(packed.pixels, plain.pixels);
  EXPECT_EQ(packed.labels, plain.labels);
  EXPECT_EQ(packed.sample_shape, plain.sample_shape);
}

// 13 million images of 28 x 28 are 10 GB: it is not inflated to find out.
TEST_F(IdxTest, AGzipFileThatPromisesTooMuchIsRejectedByItsHeader) {
  const std::string images = put_gz("images.gz", idx_bytes(0x803, {13'000'000, 28, 28}, pixels_));
  expect_names(error(images, labels_), images, "is larger than such a file can be");
}

TEST_F(IdxTest, MissingFile) {
  expect_names(error(at("nothing"), labels_), at("nothing"), "no such file");
  expect_names(error(images_, at("nothing.gz")), at("nothing.gz"), "no such file");
}

TEST_F(IdxTest, FolderInsteadOfAFile) { expect_names(error(folder_, labels_), folder_, "is a folder"); }

TEST_F(IdxTest, EmptyFile) {
  expect_names(error(put("empty", {}), labels_), at("empty"), "is empty");
  expect_names(error(put("empty.gz", {}), labels_), at("empty.gz"), "is empty");
}

TEST_F(IdxTest, EveryTruncatedHeader) {
  for (std::size_t n = 1; n < 16; ++n) {
    const FileBytes cut(image_bytes_.begin(), image_bytes_.begin() + static_cast<std::ptrdiff_t>(n));
    expect_names(error(put("cut", cut), labels_), at("cut"), "cut off inside its header");
  }
}

TEST_F(IdxTest, TruncatedData) {
  FileBytes cut = image_bytes_;
  cut.pop_back();
  expect_names(error(put("cut", cut), labels_), at("cut"), "promises 12 bytes of data and has 11 (cut off)");
}

TEST_F(IdxTest, BytesLeftOver) {
  FileBytes longer = label_bytes_;
  longer.push_back(1);
  expect_names(error(images_, put("long", longer)), at("long"), "promises 2 bytes of data and has more");
}

TEST_F(IdxTest, WrongMagic) {
  expect_names(error(labels_, labels_), labels_, "cut off");  // 10 bytes: no image header at all
  expect_names(error(images_, images_), images_, "begins with 2051, not with the magic number 2049");
}

TEST_F(IdxTest, LabelOutOfRange) {
  expect_names(error(images_, labels_, 7), labels_, "label 7 of sample 0 is not below 7");
}

TEST_F(IdxTest, CountsDiffer) {
  const std::string one = put("one", idx_bytes(0x801, {1}, {3}));
  const std::string message = error(images_, one);
  expect_names(message, one, "has 1 labels for 2 images of " + images_);
}

TEST_F(IdxTest, NoSamples) {
  expect_names(error(put("none", idx_bytes(0x803, {0, 2, 3}, {})), labels_), at("none"),
               "has no samples or empty ones");
  expect_names(error(put("flat", idx_bytes(0x803, {2, 0, 3}, {})), labels_), at("flat"),
               "has no samples or empty ones");
}

TEST_F(IdxTest, SizesWhoseProductWrapsAround) {
  const FileBytes huge = idx_bytes(0x803, {0xffffffff, 0xffffffff, 0xffffffff}, pixels_);
  expect_names(error(put("huge", huge), labels_), at("huge"), "and has 12 (cut off)");
}

TEST_F(IdxTest, PlainFileNamedGz) {
  expect_names(error(put("plain.gz", image_bytes_), labels_), at("plain.gz"), "not a gzip file");
}

// Of 100 MB that follow the header no more is read than it promises, so that a small file is no large one in memory.
TEST_F(IdxTest, WhatFollowsTheDataOfAGzipFileIsNotRead) {
  const std::string bomb = put_gz("bomb.gz", idx_bytes(0x803, {2, 2, 3}, FileBytes(100'000'000)));
  expect_names(error(bomb, labels_), at("bomb.gz"), "promises 12 bytes of data and has more");
  const auto promised = [](std::span<const std::uint8_t>) { return std::size_t{28}; };
  EXPECT_LT(read_file(bomb, std::size_t{1} << 31, promised).size(), 1'000'000u);
}

TEST_F(IdxTest, CutOffGzip) {
  FileBytes noise(100'000);
  std::uint32_t state = 1;
  for (std::uint8_t& b : noise) b = static_cast<std::uint8_t>((state = state * 1664525u + 7) >> 24);
  const FileBytes whole = content(put_gz("w.gz", idx_bytes(0x803, {1000, 10, 10}, noise)));
  for (const std::size_t keep :
       {std::size_t{5}, std::size_t{12}, whole.size() / 2, whole.size() - 8, whole.size() - 1}) {
    const FileBytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(keep));
    SCOPED_TRACE(keep);
    expect_names(error(put("cut.gz", cut), labels_), at("cut.gz"), "gzip");
  }
}

TEST_F(IdxTest, DamagedGzip) {
  FileBytes bytes = content(put_gz("d.gz", image_bytes_));
  bytes[bytes.size() - 6] ^= 0xff;  // the checksum
  expect_names(error(put("d.gz", bytes), labels_), at("d.gz"), "not a whole gzip file");
}

TEST_F(IdxTest, FolderPrefersPlainFilesAndNormalisesOverTheTrainingSet) {
  put("train-images-idx3-ubyte", idx_bytes(0x803, {2, 1, 1}, {0, 255}));
  put("train-labels-idx1-ubyte", idx_bytes(0x801, {2}, {1, 2}));
  put("t10k-images-idx3-ubyte", idx_bytes(0x803, {1, 1, 1}, {51}));
  put_gz("t10k-labels-idx1-ubyte.gz", idx_bytes(0x801, {1}, {9}));
  put("train-images-idx3-ubyte.gz", {1, 2, 3});  // never looked at
  const DataSplit split = read_idx_folder(folder_, "mine");
  EXPECT_EQ(split.name, "mine");
  EXPECT_EQ(split.train.samples, 2);
  EXPECT_EQ(split.test.labels, FileBytes{9});
  EXPECT_FLOAT_EQ(split.train.mean, 0.5f);
  EXPECT_FLOAT_EQ(split.test.deviation, 0.5f);
}

TEST_F(IdxTest, FolderWithoutItsLabelsNamesThem) {
  put("train-images-idx3-ubyte", image_bytes_);
  const std::string message = error_of([&] { read_idx_folder(folder_, "mine"); });
  expect_names(message, at("train-labels-idx1-ubyte.gz"), "no such file");
}

TEST_F(IdxTest, TrainingAndTestImagesOfDifferentSizes) {
  for (const char* part : {"train", "t10k"}) put(part + std::string("-labels-idx1-ubyte"), idx_bytes(0x801, {1}, {0}));
  put("train-images-idx3-ubyte", idx_bytes(0x803, {1, 1, 2}, {0, 1}));
  put("t10k-images-idx3-ubyte", idx_bytes(0x803, {1, 2, 1}, {0, 1}));
  expect_names(error_of([&] { read_idx_folder(folder_, "mine"); }), folder_,
               "training images are [1, 1, 2], test images [1, 2, 1]");
}

}  // namespace
}  // namespace sluice
