// A checkpoint's first line, written and read, and what is rejected before memory is asked for.
#include "harness/exec/checkpoint_header.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

CheckpointHeader header_of_two_stages() {
  return {.of = R"({"model":"m"})", .updates = 7, .checksum = 42, .stages = {{{1, 2, -3}, {10, 20}}, {{}, {5}}}};
}

TEST(CheckpointHeader, IsReadAsItWasWritten) {
  constexpr std::uint64_t elements = 35, element = 4;
  const CheckpointHeader header =
      parse_checkpoint_header(to_line(header_of_two_stages()), "f", elements * element, element);
  EXPECT_EQ(header.of, header_of_two_stages().of);
  EXPECT_EQ(header.updates, 7);
  EXPECT_EQ(header.checksum, 42u);
  ASSERT_EQ(header.stages.size(), 2u);
  EXPECT_EQ(header.stages[0].numbers, (std::vector<std::int64_t>{1, 2, -3}));
  EXPECT_EQ(header.stages[1].elements, (std::vector<std::int64_t>{5}));
}

TEST(CheckpointHeader, MustFitTheFile) {
  const std::string line = to_line(header_of_two_stages());
  EXPECT_EQ(error_of([&] { parse_checkpoint_header(line, "f", 35 * 4 - 1, 4); }), "f: is cut off");
  EXPECT_EQ(error_of([&] { parse_checkpoint_header(line, "f", 35 * 4 + 1, 4); }), "f: goes on after its last number");
}

TEST(CheckpointHeader, RejectsAbsurdSizesAndOtherTypes) {
  CheckpointHeader header = header_of_two_stages();
  header.stages[0].elements = {std::int64_t{1} << 62, std::int64_t{1} << 62};
  EXPECT_THROW(parse_checkpoint_header(to_line(header), "f", 140, 4), InputError);
  header.stages[0].elements = {-1};
  EXPECT_NE(error_of([&] { parse_checkpoint_header(to_line(header), "f", 140, 4); }).find("/stages/0/elements"),
            std::string::npos);
  for (const std::string line : {"", "{}", "[]", "null", "7", "{\"kind\": 1}", "{\"kind\": \"sluice checkpoint 2\"}"})
    EXPECT_THROW(parse_checkpoint_header(line, "f", 0, 4), InputError) << line;
}

}  // namespace
}  // namespace sluice
