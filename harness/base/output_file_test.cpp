// What an output may replace.
#include "harness/base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/read_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "sluice-output-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  OutputFile output(const std::string& name) const {
    return {folder_ / name, "a page", [](const std::string& text) { return text.starts_with("page"); }};
  }
  std::string error_of(const std::string& name) const {
    try {
      output(name).write("page 2");
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }
  fs::path folder_;
};

TEST_F(OutputFileTest, ReplacesNothingAndItsOwnKind) {
  put("empty", "");
  put("old", "page 1");
  for (const char* name : {"new", "empty", "old"}) {
    EXPECT_EQ(error_of(name), "");
    EXPECT_EQ(read_text(folder_ / name, 100), "page 2");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3);  // no temporary file is left
}

// Shards that start together open one file: each finds it missing, or made by another just now.
TEST_F(OutputFileTest, AFileThatAnotherProcessMakesMeanwhileIsTaken) {
  for (int round = 0; round < 1000; ++round) {
    const fs::path path = folder_ / std::to_string(round);
    std::atomic<bool> go = false;
    std::thread other([&] {
      while (!go) {
      }
      put(path.filename(), "");
    });
    go = true;
    EXPECT_NO_THROW(output_place(path)) << round;
    other.join();
  }
}

TEST_F(OutputFileTest, WritesBehindALink) {
  put("old", "page 1");
  fs::create_symlink("old", folder_ / "link");
  EXPECT_EQ(error_of("link"), "");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_text(folder_ / "old", 100), "page 2");
}

TEST_F(OutputFileTest, RejectsAnythingElseAndLeavesIt) {
  put("notes", "my notes");
  fs::create_directory(folder_ / "folder");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("notes", folder_ / "to_notes");
  fs::create_symlink("pipe", folder_ / "to_pipe");
  fs::create_symlink("/dev/null", folder_ / "to_device");
  fs::create_symlink("nothing", folder_ / "to_nothing");
  const std::pair<const char*, const char*> wrong[] = {{"notes", "holds something else than a page"},
                                                       {"to_notes", "holds something else than a page"},
                                                       {"folder", "is a folder"},
                                                       {"pipe", "is a pipe"},
                                                       {"to_pipe", "is a pipe"},
                                                       {"to_device", "is a device"},
                                                       {"to_nothing", "is a link to a file that does not exist"},
                                                       {"none/file", "the folder '"},
                                                       {"notes/file", "is not a folder"},
                                                       {"new/", "ends with / like a folder"}};
  for (const auto& [name, words] : wrong) {
    EXPECT_NE(error_of(name).find(words), std::string::npos) << name << ": " << error_of(name);
    EXPECT_TRUE(error_of(name).starts_with((folder_ / name).string())) << error_of(name);
  }
  EXPECT_EQ(read_text(folder_ / "notes", 100), "my notes");
  EXPECT_TRUE(fs::is_fifo(folder_ / "pipe"));
  for (const char* link : {"to_notes", "to_pipe", "to_device", "to_nothing"})
    EXPECT_TRUE(fs::is_symlink(folder_ / link));
  EXPECT_FALSE(fs::exists(folder_ / "nothing"));
}

TEST_F(OutputFileTest, TwoOutputsAreTwoFiles) {
  fs::create_symlink(folder_ / "b", folder_ / "link");
  reject_same_output({folder_ / "a", folder_ / "b", "", ""});
  for (const fs::path& again : {folder_ / "a", folder_ / "." / "a", folder_ / "missing" / ".." / "a"})
    EXPECT_THROW(reject_same_output({folder_ / "a", "", again}), InputError) << again;
  put("b", "page");
  EXPECT_THROW(reject_same_output({folder_ / "b", folder_ / "link"}), InputError);
}

TEST_F(OutputFileTest, RejectsTheFileThatIsPrintedTo) {
  put("page", "page");
  const int before = ::dup(STDERR_FILENO), file = ::open((folder_ / "page").c_str(), O_WRONLY | O_APPEND);
  ASSERT_GE(::dup2(file, STDERR_FILENO), 0);
  const std::string error = error_of("page");
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(file);
  EXPECT_NE(error.find("is the file that this command prints to"), std::string::npos) << error;
}

}  // namespace
}  // namespace sluice
