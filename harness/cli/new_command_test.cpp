// `sluice new`: the file it writes is short and bears the name it was given. (cli.new_baseline_compiles compiles it.)
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/cli/commands.h"
#include "workloads/models/registry.h"
#include "workloads/models/workload_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class NewCommandTest : public testing::Test {
 protected:
  NewCommandTest() {
    fs::remove_all(home_);
    fs::create_directories(home_ + "/baselines");
    setenv("SLUICE_HOME", home_.c_str(), 1);
  }
  ~NewCommandTest() override {
    unsetenv("SLUICE_HOME");
    fs::remove_all(home_);
  }

  const std::string home_ =
      testing::TempDir() + "sluice_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(NewCommandTest, WritesAShortBaselineOfThatName) {
  EXPECT_EQ(new_command({"baseline", "my_order"}), 0);
  std::ifstream file(home_ + "/baselines/my_order.cpp");
  int lines = 0;
  bool named = false;
  for (std::string line; std::getline(file, line); ++lines) {
    EXPECT_LE(line.size(), 120u) << line;
    EXPECT_EQ(line.find("{{"), std::string::npos) << line;
    named = named || line == "extern const System my_order = {";
  }
  EXPECT_TRUE(named);
  EXPECT_GT(lines, 0);
  EXPECT_LE(lines, 40);
}

TEST_F(NewCommandTest, RejectsNamesThatWouldNotBuild) {
  new_command({"baseline", "my_order"});
  for (const char* name : {"my_order", "Bad", "2nd", "../x", "", "class", "my_test", "gpipe", "dp"})
    EXPECT_NE(error_of([&] { new_command({"baseline", name}); }), "no error") << name;
}

TEST_F(NewCommandTest, WritesAWorkloadsFileThatIsThereAtOnce) {
  fs::create_directories(home_ + "/workloads/models");
  EXPECT_EQ(new_command({"workload", "my_model", "file"}), 0);
  EXPECT_EQ(new_command({"workload", "my_vit", "", "fmnist_vit"}), 0);
  const Workload small = find_workload(home_ + "/workloads/models/my_model.json");
  EXPECT_EQ(small.model.layers.size(), 9u);
  const Workload copy = find_workload(home_ + "/workloads/models/my_vit.json");
  EXPECT_EQ(to_json(copy), to_json(find_workload("fmnist_vit")));
  for (const NewArguments& a :
       {NewArguments{"workload", "other", "code", "fmnist_vit"}, NewArguments{"cluster", "other", "", "dgx_h100"},
        NewArguments{"workload", "o", "txt"}, NewArguments{"workload", "my_vit", "file"}})
    EXPECT_NE(error_of([&] { new_command(a); }), "no error") << a.what << " " << a.kind;
}

}  // namespace
}  // namespace sluice
