// Writes messages of Protocol Buffers (protobuf.dev/programming-guides/encoding): the few kinds of fields that files
// for other programs need. Fields go out in the order in which they are added; as in proto3, numbers that are 0 and
// texts that are empty are left out, but for members of a oneof.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class ProtobufMessage {
 public:
  // Of types uint32, uint64 and enums, and of int32 and int64 where it is not negative.
  void number(int field, std::uint64_t value);
  void text(int field, std::string_view value);
  void numbers(int field, const std::vector<std::uint64_t>& values);  // repeated, packed
  void message(int field, const ProtobufMessage& value);              // also an empty one
  // Members of a oneof are written whatever their value is: that they are there says which of them is set.
  void number_of_oneof(int field, std::uint64_t value);
  void text_of_oneof(int field, std::string_view value);

  const std::string& bytes() const { return bytes_; }
  // The message after its length: files hold several one after the other.
  std::string delimited() const;

 private:
  void varint(std::uint64_t value);
  void length_delimited(int field, std::string_view value);

  std::string bytes_;
};

}  // namespace sluice
