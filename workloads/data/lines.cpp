#include "workloads/data/lines.h"

#include "harness/base/error.h"
#include "workloads/data/dataset.h"
#include "workloads/data/text.h"

namespace sluice {

std::string at_line(const std::string& path, std::size_t index) { return path + ":" + std::to_string(index + 1); }

std::vector<std::string> read_lines(const std::string& path) {
  const std::vector<std::uint8_t> bytes = read_file(path, std::size_t{1} << 31);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  std::vector<std::string> lines;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!is_utf8(line)) throw InputError(at_line(path, lines.size()), "is not UTF-8", "convert the file to UTF-8");
    lines.emplace_back(line);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.empty()) throw InputError(path, "holds no lines");
  return lines;
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t end = line.find('\t');
    fields.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

}  // namespace sluice
