#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// "a,,b" with ",": "a", "", "b". At least one part, which may be empty.
inline std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

}  // namespace sluice
