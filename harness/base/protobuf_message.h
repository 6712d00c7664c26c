// Writes messages of Protocol Buffers (protobuf.dev/programming-guides/encoding): the few kinds of fields that files
// for other programs need. Fields are written in the order in which they are added. As in proto3, numbers that are 0
// and empty texts are left out, except members of a oneof.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class ProtobufMessage {
 public:
  // For types uint32, uint64 and enums, and for int32 and int64 if not negative.
  void number(int field, std::uint64_t value);
  void text(int field, std::string_view value);
  void numbers(int field, const std::vector<std::uint64_t>& values);  // repeated, packed
  void message(int field, const ProtobufMessage& value);              // also an empty one
  // Members of a oneof are written for any value: their presence tells which one is set.
  void number_of_oneof(int field, std::uint64_t value);
  void text_of_oneof(int field, std::string_view value);

  const std::string& bytes() const { return bytes_; }
  // The length and the message: files hold several one after the other.
  std::string delimited() const;

 private:
  void varint(std::uint64_t value);
  void length_delimited(int field, std::string_view value);

  std::string bytes_;
};

}  // namespace sluice
