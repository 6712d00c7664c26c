// See page_files.h.
#include "plots/page_files.h"

#include <algorithm>
#include <stdexcept>

#include "harness/base/json.h"

namespace sluice {

std::string_view page_file(std::string_view name) {
  const auto found = std::ranges::find(kPageFiles, name, [](const auto& file) { return file.first; });
  if (found == kPageFiles.end()) throw std::logic_error("plots/page has no file " + std::string(name));
  return found->second;
}

std::string filled_page(std::string_view file, const std::map<std::string, std::string, std::less<>>& values) {
  const std::string_view text = page_file(file);
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

std::string script_json(const Json& value) {
  std::string json = value.dump();
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at + 1))
    json.replace(at, 1, "\\u003c");
  return json;
}

}  // namespace sluice
