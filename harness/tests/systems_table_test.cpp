// The table of systems in README.md: a line for each system, which says what it was written from.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "harness/base/json_reader.h"
#include "harness/pipeline/system.h"

namespace sluice {
namespace {

// Third column by the fourth, which is a system's file or folder in backticks: "code, memory" by "spp".
std::map<std::string, std::string> written_from_in_readme() {
  std::map<std::string, std::string> found;
  std::istringstream page(read_text_file(SLUICE_SOURCE_DIR "/README.md"));
  for (std::string line; std::getline(page, line);) {
    std::vector<std::string> cells;
    std::istringstream columns(line);
    for (std::string cell; std::getline(columns, cell, '|');) cells.push_back(cell);
    if (cells.size() != 5 || !(cells[4].starts_with(" `baselines/") || cells[4].starts_with(" `systems/"))) continue;
    std::string path = cells[4].substr(2, cells[4].size() - 4);
    EXPECT_TRUE(std::filesystem::exists(std::string(SLUICE_SOURCE_DIR "/") + path)) << path;
    if (path.ends_with('/')) path.pop_back();
    found[std::filesystem::path(path).stem().string()] = cells[3].substr(1, cells[3].size() - 2);
  }
  return found;
}

TEST(SystemsTableTest, ReadmeSaysOfEverySystemWhatItWasWrittenFrom) {
  std::map<std::string, std::string> expected;
  for (const System* system : shipped_systems()) expected[system->name] = sources_text(system->written_from);
  EXPECT_EQ(written_from_in_readme(), expected);
}

}  // namespace
}  // namespace sluice
