#include "harness/base/protobuf_message.h"

namespace sluice {

// Wire types, the lowest three bits of a field's tag.
static constexpr unsigned kVarint = 0, kLengthDelimited = 2;

// Seven bits a byte, the lowest first; all bytes but the last have the eighth.
void ProtobufMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(0x80 | (value & 0x7f));
  bytes_ += static_cast<char>(value);
}

void ProtobufMessage::length_delimited(int field, std::string_view value) {
  varint(static_cast<unsigned>(field) << 3 | kLengthDelimited);
  varint(value.size());
  bytes_ += value;
}

void ProtobufMessage::number_of_oneof(int field, std::uint64_t value) {
  varint(static_cast<unsigned>(field) << 3 | kVarint);
  varint(value);
}

void ProtobufMessage::number(int field, std::uint64_t value) {
  if (value != 0) number_of_oneof(field, value);
}

void ProtobufMessage::text_of_oneof(int field, std::string_view value) { length_delimited(field, value); }

void ProtobufMessage::text(int field, std::string_view value) {
  if (!value.empty()) length_delimited(field, value);
}

void ProtobufMessage::numbers(int field, const std::vector<std::uint64_t>& values) {
  if (values.empty()) return;
  ProtobufMessage packed;
  for (const std::uint64_t value : values) packed.varint(value);
  length_delimited(field, packed.bytes_);
}

void ProtobufMessage::message(int field, const ProtobufMessage& value) { length_delimited(field, value.bytes_); }

std::string ProtobufMessage::delimited() const {
  ProtobufMessage result;
  result.varint(bytes_.size());
  return result.bytes_ + bytes_;
}

}  // namespace sluice
