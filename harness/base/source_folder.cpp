#include "harness/base/source_folder.h"

#include <sluice_build.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "harness/base/split.h"

namespace sluice {

namespace fs = std::filesystem;

// A folder next to that of the running program, if it is there: of PREFIX/bin/sluice, or of CHECKOUT/build/sluice.
static std::string next_to_program(const fs::path& folder, const fs::path& part) {
  std::error_code none;
  const fs::path found = fs::read_symlink("/proc/self/exe", none).parent_path().parent_path() / folder;
  return fs::is_directory(found / part, none) ? found.string() : "";
}

// share/sluice of an installed program; "": it is none.
static const std::string& installed_folder() {
  static const std::string folder = next_to_program("share/sluice", "workloads");
  return folder;
}

// The checkout in whose build folder this program is, which may have moved since it was compiled.
static const std::string& checkout() {
  static const std::string folder = [] {
    const std::string found = next_to_program("", "harness/sweeps");
    return found.empty() ? SLUICE_SOURCE_DIR : fs::path(found).lexically_normal().string();
  }();
  return folder;
}

static bool is_installed() { return !std::getenv("SLUICE_HOME") && !installed_folder().empty(); }

std::string source_folder() {
  if (const char* home = std::getenv("SLUICE_HOME")) return home;
  return is_installed() ? installed_folder() : checkout();
}

std::string runs_folder() { return is_installed() ? "results/runs" : source_folder() + "/results/runs"; }

std::string cache_folder() {
  if (!is_installed()) return source_folder() + "/.cache";
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache) return std::string(cache) + "/sluice";
  const char* home = std::getenv("HOME");
  return (home && *home ? std::string(home) : fs::temp_directory_path().string()) + "/.cache/sluice";
}

std::vector<std::string> extra_system_folders() {
  std::vector<std::string> folders;
  for (const std::string& folder : split(SLUICE_EXTRA_SYSTEMS, ";"))
    if (!folder.empty()) folders.push_back(folder);
  return folders;
}

std::string folder_of_new(const std::string& shipped) {
  if (is_installed()) return ".";
  const std::vector<std::string> extra = extra_system_folders();
  if (shipped == "baselines" && !extra.empty() && !std::getenv("SLUICE_HOME")) return extra.front();
  return source_folder() + "/" + shipped;
}

std::vector<std::string> names_of_json_files(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace sluice
