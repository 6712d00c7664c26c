// Files that cannot be read or written, each rejected in our words and at once.
#include "harness/base/read_text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness/base/error.h"
#include "harness/base/expect_error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class ReadText : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "sluice-read-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string error(const fs::path& path, std::size_t most = 100) const {
    return error_of([&] { read_text(path, most); });
  }
  fs::path folder_;
};

TEST_F(ReadText, GivesTheWholeFile) {
  const std::string content("one\0two\n", 8);
  std::ofstream(folder_ / "a", std::ios::binary) << content;
  EXPECT_EQ(read_text(folder_ / "a", 100), content);
  EXPECT_EQ(read_text(folder_ / "a", 8), content);
  EXPECT_EQ(error(folder_ / "a", 7), (folder_ / "a").string() + ": is larger than such a file can be (7 bytes)");
}

TEST_F(ReadText, RejectsWhatIsNoFile) {
  EXPECT_EQ(error(folder_ / "none"), (folder_ / "none").string() + ": no such file");
  EXPECT_EQ(error(folder_), folder_.string() + ": is a folder");
  EXPECT_EQ(error("/dev/zero"), "/dev/zero: is not a regular file but a pipe or a device");
  EXPECT_NE(error(folder_ / "none" / "a").find("no such file"), std::string::npos);
}

TEST_F(ReadText, DoesNotWaitForAPipe) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error(pipe), pipe.string() + ": is not a regular file but a pipe or a device");
}

TEST_F(ReadText, SaysWhatIsWrongWithAPath) {
  fs::create_symlink(folder_ / "b", folder_ / "c");
  fs::create_symlink(folder_ / "c", folder_ / "b");
  EXPECT_NE(error(folder_ / "b").find("cannot be read: links that lead in a circle"), std::string::npos);
  EXPECT_NE(error(folder_ / std::string(300, 'x')).find("cannot be read: the name is too long"), std::string::npos);
}

TEST_F(ReadText, ShowsEscapesInAName) {
  EXPECT_EQ(error(folder_ / "\x1b[31m"), (folder_ / "\\x1b[31m").string() + ": no such file");
}

TEST_F(ReadText, WritesAFileWholeOrNotAtAll) {
  write_text(folder_ / "a", "first");
  write_text(folder_ / "a", "second");
  EXPECT_EQ(read_text(folder_ / "a", 100), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  try {
    write_text(folder_ / std::string(300, 'x'), "text");
    FAIL();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("cannot be written: the name is too long"), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice
