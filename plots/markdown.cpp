#include "plots/markdown.h"

#include <sstream>

#include "harness/base/visible_text.h"
#include "plots/style.h"

namespace sluice {

// "#", "> text", "-", "1." and the like, which at the beginning of a line begin a block.
static bool begins_block(const std::string& word) {
  if (std::string_view("#>=").find(word[0]) != std::string_view::npos || word.starts_with("```")) return true;
  if (word.find_first_not_of(word[0]) == std::string::npos &&
      std::string_view("-+*~").find(word[0]) != std::string_view::npos)
    return true;
  const std::size_t digits = word.find_first_not_of("0123456789");
  return digits != 0 && digits + 1 == word.size() && (word[digits] == '.' || word[digits] == ')');
}

static constexpr std::size_t kLineLength = 120;

static std::string wrapped_at(std::size_t width, const std::string& markdown) {
  std::string result;
  std::size_t length = 0;
  std::istringstream words(markdown);
  for (std::string word; words >> word;) {
    const bool breaks = length > 0 && length + 1 + letters(word) > width && !begins_block(word);
    if (length > 0) result += breaks ? "\n" : " ";
    if (length == 0 && word[0] != '`' && begins_block(word)) word.insert(word.find_first_not_of("0123456789"), "\\");
    length = (breaks || length == 0 ? 0 : length + 1) + letters(word);
    result += word;
  }
  return result + "\n";
}

std::string wrapped(const std::string& markdown) { return wrapped_at(kLineLength, markdown); }

std::string list_item(const std::string& markdown) {
  std::string text = wrapped_at(kLineLength - 2, markdown);
  for (std::size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1)) text.insert(at + 1, "  ");
  return "- " + text;
}

std::string markdown_cell(const std::string& markdown) {
  std::string result;
  bool escaped = false;
  for (const char c : markdown) {
    if (c == '|' && !escaped) result += '\\';
    result += c == '\n' ? ' ' : c;
    escaped = c == '\\' && !escaped;
  }
  if (escaped) result += '\\';  // or it would escape the rule
  return " " + result + " |";
}

std::string markdown_head(const std::vector<std::string>& headings) {
  std::string head = "|", rule = "|";
  for (const std::string& heading : headings) {
    head += markdown_cell(heading);
    rule += " --- |";
  }
  return head + "\n" + rule + "\n";
}

}  // namespace sluice
