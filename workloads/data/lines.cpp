#include "workloads/data/lines.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "workloads/data/dataset.h"
#include "workloads/data/text.h"

namespace sluice {

std::string at_line(const std::string& path, std::size_t index) { return path + ":" + std::to_string(index + 1); }

void require_words(std::string_view text, const std::string& where) {
  constexpr std::size_t kMaxWord = 65'536;
  for (std::size_t begin = 0; begin < text.size();) {
    check_stop();
    const std::size_t end = std::min(text.find_first_of(" \t\f\v\r\n", begin), text.size());
    if (end - begin > kMaxWord)
      throw InputError(where, "has a word of " + std::to_string(end - begin) + " bytes",
                       "is it text? words may have at most " + std::to_string(kMaxWord));
    begin = end + 1;
  }
}

std::vector<std::string> read_lines(const std::string& path) {
  const std::vector<std::uint8_t> bytes = read_file(path, std::size_t{1} << 31);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  std::vector<std::string> lines;
  while (!rest.empty()) {
    check_stop();
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!is_utf8(line)) throw InputError(at_line(path, lines.size()), "is not UTF-8", "convert the file to UTF-8");
    require_words(line, at_line(path, lines.size()));
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
