// "system": "file:order.csv": a case whose order is a table of PyTorch.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/make_program.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"

namespace sluice {
namespace {

class OrderFile : public testing::Test {
 protected:
  OrderFile() { write(k1F1B); }
  ~OrderFile() override { std::filesystem::remove(file_); }

  void write(const std::string& table) const { std::ofstream(file_) << table; }

  RunCase read(const std::string& system, Json more = Json::object()) const {
    more.update({{"system", system},
                 {"workload", "gpt_tiny"},
                 {"clock", "virtual"},
                 {"cluster", "flat:4"},
                 {"batch", 24},
                 {"steps", 1}});
    return resolve({more, in_file("test", "")});
  }
  RunCase read_file() const { return read("file:" + file_); }
  static std::string program_of(const RunCase& c) {
    const Prepared p = prepare(c, test_profiles());
    std::string text;
    for (const auto& rank : make_program(p, p.microbatches_per_update).ranks)
      for (const Instruction& instruction : rank) text += to_text(instruction) + " ";
    return text;
  }

  static constexpr const char* k1F1B = "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n";
  const std::string file_ =
      testing::TempDir() + "order_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv";
};

TEST_F(OrderFile, GivesTheCaseItsRanksAndMicroBatches) {
  const RunCase c = read_file();
  EXPECT_EQ(c.ranks, 2);
  EXPECT_EQ(c.microbatches, 3);
  EXPECT_EQ(c.system, "order_file");
  EXPECT_EQ(c.options.at("file"), file_);
}

TEST_F(OrderFile, RunsAsThePublishedSystemOfThatOrderDoes) {
  const Json size = {{"ranks", 2}, {"microbatches", 3}};
  EXPECT_EQ(program_of(read_file()), program_of(read("one_f_one_b", size)));
  EXPECT_NE(program_of(read_file()), program_of(read("gpipe", size)));
}

TEST_F(OrderFile, PutsStagesOnTheRanksOfTheTable) {
  write("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  const Prepared p = prepare(read_file(), test_profiles());
  ASSERT_EQ(p.pipeline.stages.size(), 4u);
  for (const int s : {0, 1, 2, 3})
    EXPECT_EQ(p.pipeline.stages[static_cast<std::size_t>(s)].devices, std::vector{DeviceId(s == 0 || s == 3 ? 0 : 1)});
}

TEST_F(OrderFile, HasAsManyDevicesAsRanksUnlessAClusterIsGiven) {
  Json entry = {{"system", "file:" + file_}, {"workload", "gpt_tiny"}, {"clock", "virtual"}, {"batch", 24}};
  EXPECT_EQ(resolve({entry, in_file("test", "")}).cluster, "flat:2");
  entry["cluster"] = "dgx_h100";
  EXPECT_EQ(resolve({entry, in_file("test", "")}).cluster, "dgx_h100");
}

TEST_F(OrderFile, IsAnotherExperimentOnceItIsEdited) {
  const std::string before = digest_of(read_file());
  EXPECT_EQ(digest_of(read_file()), before);
  write("0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n");
  EXPECT_NE(digest_of(read_file()), before);
}

TEST_F(OrderFile, RejectsWhatCannotRun) {
  EXPECT_EQ(error_of([&] { read("order_file"); }),
            "order_file: has no file; write \"system\": \"file:order.csv\", or give it the option file=order.csv");
  EXPECT_NE(error_of([&] { read("file:/nowhere.csv"); }).find("/nowhere.csv: no such file"), std::string::npos);
  EXPECT_EQ(error_of([&] {
              prepare(read("file:" + file_, {{"ranks", 4}}), test_profiles());
            }),
            file_ + ": is an order of 2 ranks and 3 micro-batches, not of 4 and 3; give as many, or leave both out");
  EXPECT_EQ(error_of([&] {
              read("file:" + file_, {{"options", {{"file", "other.csv"}}}});
            }),
            "test: /options: option 'file' is 'other.csv', but the system is 'file:" + file_ + "'; give one of them");
  write("0F0,0B0\n1B0,1F0\n");
  EXPECT_NE(error_of([&] { read_file(); }).find("fault"), std::string::npos);
}

}  // namespace
}  // namespace sluice
