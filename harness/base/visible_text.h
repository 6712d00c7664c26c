// Text from outside (names in records, files and arguments) as it may be printed: nothing in it moves the cursor,
// changes colours, reverses the line or breaks the table that it stands in.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Control characters, marks of writing direction and bytes that are not UTF-8 become "\x1b", "\u202e" and so on, a line
// end "\n"; everything else stays.
std::string visible(std::string_view text);

// The same for a text of several lines, which stay lines.
std::string visible_lines(std::string_view text);

// A JSON document, in UTF-8, whose texts hold such characters: they become "\u009b" and so on, which reads as the same.
std::string visible_json(std::string document);

// One cell of a CSV line: visible, quoted where it must be, and with an apostrophe before what spreadsheets would take
// for a formula (=, +, -, @, tab or carriage return first). A number is none.
std::string csv_cell(std::string_view text);

// Whether it is a name of letters, digits, ".", "_" and "-" only, "." and "-" not first, of at most 100 characters:
// what may name a file and stand in a link to it.
bool is_portable_name(std::string_view name);

// Whether it is a name of lower-case letters, digits and "_", a letter first: what may name a variable and a file.
bool is_plain_name(std::string_view name);

// The first line. One longer than `characters` bytes is cut between two characters, and ends in "…".
std::string shortened(const std::string& text, std::size_t characters);

// How many characters are drawn: UTF-8 continuation bytes take no room.
std::size_t letters(std::string_view text);

// The length in bytes of the UTF-8 character that `text` begins with; 0: it is none (too long a form, a surrogate, cut
// off).
std::size_t utf8_length(std::string_view text);

}  // namespace sluice
