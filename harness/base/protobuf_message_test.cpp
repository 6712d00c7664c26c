#include "harness/base/protobuf_message.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += std::string(text.empty() ? "" : " ") + "0123456789abcdef"[value >> 4] + "0123456789abcdef"[value & 15];
  }
  return text;
}

// The examples of protobuf.dev/programming-guides/encoding.
TEST(ProtobufMessageTest, WritesTheExamplesOfTheEncodingGuide) {
  ProtobufMessage number, text, nested, packed;
  number.number(1, 150);
  EXPECT_EQ(hex(number.bytes()), "08 96 01");
  text.text(2, "testing");
  EXPECT_EQ(hex(text.bytes()), "12 07 74 65 73 74 69 6e 67");
  nested.message(3, number);
  EXPECT_EQ(hex(nested.bytes()), "1a 03 08 96 01");
  packed.numbers(6, {3, 270, 86942});
  EXPECT_EQ(hex(packed.bytes()), "32 06 03 8e 02 9e a7 05");
}

TEST(ProtobufMessageTest, LeavesOutWhatIsZeroUnlessItIsOfAOneof) {
  ProtobufMessage m;
  m.number(1, 0);
  m.text(2, "");
  m.numbers(3, {});
  EXPECT_EQ(m.bytes(), "");
  m.number_of_oneof(27, 0);  // field 27, wire type 0: 27 * 8 = 216 = 0x58 + 0x80, 0x01
  m.text_of_oneof(29, "");   // field 29, wire type 2: 29 * 8 + 2 = 234 = 0x6a + 0x80, 0x01
  EXPECT_EQ(hex(m.bytes()), "d8 01 00 ea 01 00");
}

TEST(ProtobufMessageTest, WritesTheLargestNumberInTenBytes) {
  ProtobufMessage m;
  m.number(1, ~std::uint64_t{0});
  EXPECT_EQ(hex(m.bytes()), "08 ff ff ff ff ff ff ff ff ff 01");
}

TEST(ProtobufMessageTest, PutsTheLengthBeforeADelimitedMessage) {
  ProtobufMessage m;
  m.text(1, std::string(200, 'x'));  // 2 bytes of tag and length more than 127 letters: 203 = 0x4b + 0x80, 0x01
  EXPECT_EQ(hex(m.delimited().substr(0, 5)), "cb 01 0a c8 01");
  EXPECT_EQ(m.delimited().size(), 205u);
  EXPECT_EQ(hex(ProtobufMessage().delimited()), "00");
}

}  // namespace
}  // namespace sluice
