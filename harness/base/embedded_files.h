// Files of a folder that are built into the program. sluice_embed (harness/room.cmake) writes a table of them.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

// Name and content.
using EmbeddedFiles = std::span<const std::pair<std::string_view, std::string_view>>;

// The content of a file. Throws std::logic_error if there is none of that name.
std::string_view embedded_file(EmbeddedFiles files, std::string_view name);

// The file with each {{NAME}} replaced by the value of NAME. Throws std::logic_error for a name without a value.
std::string filled_file(EmbeddedFiles files, std::string_view name,
                        const std::map<std::string, std::string, std::less<>>& values);

}  // namespace sluice
