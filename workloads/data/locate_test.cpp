// Where data sets are looked for, and Fashion-MNIST itself where it is installed.
#include "workloads/data/locate.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "harness/base/expect_error.h"
#include "workloads/data/test_files.h"

namespace sluice {
namespace {

// Sets a variable of the environment for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class LocateTest : public DataFiles {
 protected:
  void put_idx(const std::string& sub, std::uint8_t label) const {
    std::filesystem::create_directories(at(sub));
    for (const char* part : {"train", "t10k"}) {
      put(sub + "/" + part + "-images-idx3-ubyte", idx_bytes(0x803, {1, 1, 1}, {9}));
      put(sub + "/" + part + "-labels-idx1-ubyte", idx_bytes(0x801, {1}, {label}));
    }
  }
};

TEST_F(LocateTest, TheDataVariableComesBeforeTheCheckout) {
  put_idx("data/mnist", 1);
  put_idx("home/.data/mnist", 2);
  const Variable home("SLUICE_HOME", at("home"));
  {
    const Variable data("SLUICE_DATA", at("data"));
    EXPECT_EQ(load_dataset("mnist").train.labels, FileBytes{1});
  }
  const Variable data("SLUICE_DATA", at("nothing-here"));
  const DataSplit split = load_dataset("mnist");
  EXPECT_EQ(split.train.labels, FileBytes{2});
  EXPECT_EQ(split.source, at("home/.data/mnist"));
}

TEST_F(LocateTest, AFolderByPathIsNamedAfterItself) {
  put_idx("mine", 4);
  EXPECT_EQ(load_dataset(at("mine")).name, "mine");
  EXPECT_EQ(load_dataset(at("mine/")).name, "mine");
}

TEST_F(LocateTest, UnknownNameHasASuggestion) {
  EXPECT_EQ(error_of([] { load_dataset("fashion-mnst"); }),
            "data set: unknown data set 'fashion-mnst'; did you mean 'fashion-mnist'?");
}

TEST_F(LocateTest, MissingFolder) {
  EXPECT_TRUE(error_of([&] { load_dataset(at("no")); }).starts_with(at("no") + ": no such folder"));
}

TEST_F(LocateTest, FolderWithoutDataSaysWhatItShouldHold) {
  const std::string message = error_of([&] { load_dataset(folder_ + "/"); });
  EXPECT_TRUE(message.starts_with(folder_)) << message;
  EXPECT_NE(message.find("train-images-idx3-ubyte[.gz]"), std::string::npos) << message;
}

TEST_F(LocateTest, DataSetThatIsNowhereSaysWhereToPutIt) {
  if (std::filesystem::exists("/usr/share/datasets/cifar10")) GTEST_SKIP() << "CIFAR-10 is installed on this machine";
  const Variable home("SLUICE_HOME", folder_), data("SLUICE_DATA", folder_);
  EXPECT_EQ(error_of([] { load_dataset("cifar10"); }),
            "data set 'cifar10': is not on this machine; put its files into $SLUICE_DATA/cifar10");
}

TEST(FashionMnist, HasItsPublishedSize) {
  DataSplit split;
  try {
    split = load_dataset("fashion-mnist");
  } catch (const InputError& e) {
    GTEST_SKIP() << "Fashion-MNIST is not on this machine: " << e.what();
  }
  EXPECT_EQ(split.train.samples, 60'000);
  EXPECT_EQ(split.test.samples, 10'000);
  EXPECT_EQ(split.train.sample_shape, (Shape{1, 28, 28}));
  EXPECT_EQ(split.test.sample_shape, (Shape{1, 28, 28}));
  EXPECT_EQ(split.train.pixels.size(), 60'000u * 784u);
  for (std::uint8_t label = 0; label < 10; ++label) {
    EXPECT_EQ(std::ranges::count(split.train.labels, label), 6000);
    EXPECT_EQ(std::ranges::count(split.test.labels, label), 1000);
  }
  EXPECT_NEAR(split.train.mean, 0.2860, 5e-5);  // the values torchvision's users quote
  EXPECT_NEAR(split.train.deviation, 0.3530, 5e-5);
}

}  // namespace
}  // namespace sluice
