#include "harness/base/markdown_text.h"

#include <algorithm>
#include <cctype>

#include "harness/base/visible_text.h"

namespace sluice {

namespace {

// Of several lines one, visible.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace(line, '\n', ' ');
  return visible(line);
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80; }

std::size_t run_of_backticks(std::string_view text, std::size_t at) {
  const std::size_t end = text.find_first_not_of('`', at);
  return std::min(end, text.size()) - at;
}

std::size_t longest_run_of_backticks(std::string_view text) {
  std::size_t longest = 0;
  for (std::size_t at = text.find('`'); at != std::string_view::npos;) {
    const std::size_t run = run_of_backticks(text, at);
    longest = std::max(longest, run);
    at = text.find('`', at + run);
  }
  return longest;
}

// Where the code ends that a run of backticks at `at` begins, its own closing run included; `at`: nowhere.
std::size_t end_of_code(std::string_view text, std::size_t at) {
  const std::size_t run = run_of_backticks(text, at);
  for (std::size_t next = text.find('`', at + run); next != std::string_view::npos;) {
    const std::size_t other = run_of_backticks(text, next);
    if (other == run) return next + other;
    next = text.find('`', next + other);
  }
  return at;
}

}  // namespace

std::string markdown_text(std::string_view text) {
  const std::string line = one_line(text);
  const bool strikes = std::ranges::count(line, '~') > 1;  // one tilde strikes nothing through
  std::string result;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool in_word = i > 0 && i + 1 < line.size() && is_word(line[i - 1]) && is_word(line[i + 1]);
    if (c == '<' || c == '>' || c == '&') {
      result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;";
      continue;
    }
    const bool is_mark = std::string_view("\\`*[]|").find(c) != std::string_view::npos;
    if (is_mark || (c == '_' && !in_word) || (c == '~' && strikes)) result += '\\';
    result += c;
  }
  return result;
}

std::string markdown_line(std::string_view text) {
  const std::string escaped = markdown_text(text);
  const std::string line = escaped.substr(std::min(escaped.find_first_not_of(' '), escaped.size()));
  if (line.empty()) return line;
  if (std::string_view("#+-=~").find(line[0]) != std::string_view::npos) return "\\" + line;
  const std::size_t digits = line.find_first_not_of("0123456789");  // "1." and "1)" begin lists
  if (digits != 0 && digits != std::string::npos && (line[digits] == '.' || line[digits] == ')'))
    return line.substr(0, digits) + "\\" + line.substr(digits);
  return line;
}

std::string markdown_prose(std::string_view given) {
  const std::string text = one_line(given);
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '`') {
      const std::size_t run = run_of_backticks(text, i), end = end_of_code(text, i);
      if (end > i) {
        result += text.substr(i, end - i);
        i = end;
      } else {
        for (std::size_t k = 0; k < run; ++k) result += "\\`";
        i += run;
      }
      continue;
    }
    if (c == '\\' && i + 1 < text.size()) {  // escaped by the author
      result += text.substr(i, 2);
      i += 2;
      continue;
    }
    result += c == '<' ? "&lt;" : std::string(1, c);
    const bool links =
        c == ']' && i + 1 < text.size() && std::string_view("([:").find(text[i + 1]) != std::string::npos;
    if (links) result += '\\';
    ++i;
  }
  return result;
}

std::string markdown_code(std::string_view text) {
  const std::string line = one_line(text);
  const std::string fence(longest_run_of_backticks(line) + 1, '`');
  const bool touches = !line.empty() && (line.front() == '`' || line.back() == '`');
  return touches ? fence + " " + line + " " + fence : fence + line + fence;
}

std::string markdown_code_block(std::string_view lines) {
  const std::string fence(std::max<std::size_t>(3, longest_run_of_backticks(lines) + 1), '`');
  return fence + "\n" + visible_lines(lines) + (lines.ends_with('\n') || lines.empty() ? "" : "\n") + fence + "\n";
}

}  // namespace sluice
