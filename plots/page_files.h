// The files of plots/page: pages, their styles and scripts, and templates of charts. They are built into the program.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

class Json;

// Name and content, by name. embed_files.cmake writes them.
extern const std::span<const std::pair<std::string_view, std::string_view>> kPageFiles;

// The content of plots/page/NAME. Throws std::logic_error if there is no such file.
std::string_view page_file(std::string_view name);

// The file with each {{NAME}} replaced by the value of NAME, which is HTML. Throws std::logic_error for a name without
// a value.
std::string filled_page(std::string_view file, const std::map<std::string, std::string, std::less<>>& values);

// A JSON text for a <script>, in which no text can end the script.
std::string script_json(const Json& value);

}  // namespace sluice
