// The Markdown of pages that this program writes.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// Markdown in lines of at most 120 characters, broken between words; no line starts a block.
std::string wrapped(const std::string& markdown);

// The same as an item of a list.
std::string list_item(const std::string& markdown);

// A cell of a table's line, with the rule that ends it; a line is "|" and its cells. The argument is Markdown: pass
// text from records through markdown_text first (harness/base/markdown_text.h).
std::string markdown_cell(const std::string& markdown);

// The two lines above a table's own: headings, which are Markdown, and rules.
std::string markdown_head(const std::vector<std::string>& headings);

}  // namespace sluice
