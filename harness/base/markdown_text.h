// Text on pages of Markdown, as GitHub and CommonMark read it.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Text from outside (names in records, reasons), shown character by character: nothing in it is emphasis, code, a link,
// an entity, HTML, or the end of a table's cell. Control characters of a terminal are made visible.
std::string markdown_text(std::string_view text);

// The same at the start of a paragraph: it starts no heading, list, quotation or rule.
std::string markdown_line(std::string_view text);

// Text of a study's or a claim's author: emphasis and code stay, but it makes no HTML and no link. One line.
std::string markdown_prose(std::string_view text);

// Text from outside as code within a line.
std::string markdown_code(std::string_view text);

// Lines of code as a block, whose fence is longer than any run of backticks in them.
std::string markdown_code_block(std::string_view lines);

}  // namespace sluice
