// A temporary folder, removed at the end, also after an error.
#pragma once

#include <filesystem>

namespace sluice {

struct PassingFolder {
  std::filesystem::path path;

  explicit PassingFolder(std::filesystem::path folder) : path(std::move(folder)) {}
  ~PassingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
};

}  // namespace sluice
