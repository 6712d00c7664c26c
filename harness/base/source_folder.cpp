#include "harness/base/source_folder.h"

#include <sluice_build.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace sluice {

std::string source_folder() {
  const char* home = std::getenv("SLUICE_HOME");
  return home ? home : SLUICE_SOURCE_DIR;
}

std::vector<std::string> names_of_json_files(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace sluice
