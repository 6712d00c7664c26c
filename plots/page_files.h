// The files of plots/page: pages, their styles and scripts, and templates of charts. They are built into the program.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "harness/base/embedded_files.h"

namespace sluice {

class Json;

extern const EmbeddedFiles kPageFiles;

// See embedded_files.h. Values are HTML.
inline std::string_view page_file(std::string_view name) { return embedded_file(kPageFiles, name); }
inline std::string filled_page(std::string_view file, const std::map<std::string, std::string, std::less<>>& values) {
  return filled_file(kPageFiles, file, values);
}

// A JSON text for a <script>, in which no text can end the script.
std::string script_json(const Json& value);

}  // namespace sluice
