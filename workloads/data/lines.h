// Lines of a text file, and its fields, for the readers of text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Plain or gzip; line ends \n or \r\n, a byte-order mark (BOM) is dropped, empty lines at the end are ignored. Throws
// InputError: missing, empty, not UTF-8, a word as in require_words (naming the line).
std::vector<std::string> read_lines(const std::string& path);
// Throws InputError at `where` if a text between spaces is too long for a word (64 KiB), because the time to learn
// pieces of words grows with the square of their length.
void require_words(std::string_view text, const std::string& where);

std::vector<std::string_view> fields_of(std::string_view line);  // between tabs

std::string at_line(const std::string& path, std::size_t index);  // "path:3", from index 2

}  // namespace sluice
