#include "harness/base/embedded_files.h"

#include <algorithm>
#include <stdexcept>

namespace sluice {

std::string_view embedded_file(EmbeddedFiles files, std::string_view name) {
  const auto found = std::ranges::find(files, name, [](const auto& file) { return file.first; });
  if (found == files.end()) throw std::logic_error("no file " + std::string(name) + " is built in");
  return found->second;
}

std::string filled_file(EmbeddedFiles files, std::string_view file,
                        const std::map<std::string, std::string, std::less<>>& values) {
  const std::string_view text = embedded_file(files, file);
  std::string filled;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find("{{", from)) != text.npos;) {
    const std::size_t end = text.find("}}", at);
    const std::string_view name = text.substr(at + 2, end - at - 2);
    const auto value = values.find(name);
    if (value == values.end()) throw std::logic_error(std::string(file) + ": no value for " + std::string(name));
    filled.append(text.substr(from, at - from)).append(value->second);
    from = end + 2;
  }
  return filled.append(text.substr(from));
}

}  // namespace sluice
