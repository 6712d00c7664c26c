#include "harness/base/visible_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "harness/base/numbers.h"

namespace sluice {

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) >= 0xa0) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

static std::uint32_t code_point(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character[0]);
  std::uint32_t code = static_cast<unsigned char>(character[0]) & (0xffu >> (character.size() + 1));
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return code;
}

static bool is_control(std::uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

// Marks that change the direction of what follows, line and paragraph separators, the byte order mark, and the two
// codes that are no character (XML has no place for them).
static bool is_layout_mark(std::uint32_t code) {
  return code == 0xfffe || code == 0xffff || (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0x061c || code == 0xfeff;
}

std::string visible(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    const std::uint32_t code = code_point(character);
    if (length == 0 || (is_control(code) && code != '\n'))
      result += fmt::format("\\x{:02x}", code);
    else if (code == '\n')
      result += "\\n";
    else if (is_layout_mark(code))
      result += fmt::format("\\u{:04x}", code);
    else
      result += character;
    text.remove_prefix(character.size());
  }
  return result;
}

std::string visible_lines(std::string_view text) {
  std::string result;
  for (;;) {
    const std::size_t end = text.find('\n');
    result += visible(text.substr(0, end));
    if (end == std::string_view::npos) return result;
    result += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string visible_json(std::string document) {
  // What JSON lets stand in a text unescaped and a terminal obeys: a byte of 0x7f, or of more than one byte.
  const auto suspect = [](char c) { return static_cast<unsigned char>(c) >= 0x7f; };
  if (std::ranges::none_of(document, suspect)) return document;
  std::string result;
  for (std::string_view rest = document; !rest.empty();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(rest));
    const std::string_view character = rest.substr(0, length);
    const std::uint32_t code = code_point(character);
    if (suspect(character[0]) && (is_control(code) || is_layout_mark(code)))
      result += fmt::format("\\u{:04x}", code);
    else
      result += character;
    rest.remove_prefix(length);
  }
  return result;
}

bool is_portable_name(std::string_view name) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  constexpr std::size_t longest = 100;
  return !name.empty() && name.size() <= longest && name[0] != '.' && name[0] != '-' &&
         name.find_first_not_of(allowed) == std::string_view::npos;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name[0] >= 'a' && name[0] <= 'z' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

std::size_t letters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string shortened(const std::string& text, std::size_t characters) {
  std::string line = text.substr(0, text.find('\n'));
  if (line.size() <= characters) return line;
  std::size_t cut = characters - 1;  // not inside a UTF-8 character
  while (cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xC0) == 0x80) --cut;
  return line.substr(0, cut) + "…";
}

std::string csv_cell(std::string_view text) {
  const bool formula = !text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos;
  const std::string shown = (formula && !number_as<double>(text) ? "'" : "") + visible(text);
  if (shown.find_first_of(",\"") == std::string::npos) return shown;
  std::string result = "\"";
  for (const char c : shown) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + "\"";
}

}  // namespace sluice
