// Text on pages of Markdown, as GitHub and CommonMark read it.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Text from outside (names in records, reasons), shown character for character: nothing in it is emphasis, code, a
// link, an entity, HTML, or the end of a table's cell; what a terminal would obey is made visible.
std::string markdown_text(std::string_view text);

// The same as the first text of a paragraph: it begins neither a heading nor a list, a quotation or a rule.
std::string markdown_line(std::string_view text);

// What the author of a study or a claim wrote: emphasis and code stay, but no HTML and no link is made of it. One line.
std::string markdown_prose(std::string_view text);

// Text from outside as code within a line.
std::string markdown_code(std::string_view text);

// Lines of code as a block, whose fence is longer than any run of backticks in them.
std::string markdown_code_block(std::string_view lines);

}  // namespace sluice
