// For tests that read the published profiles. These are no part of the project: tests look for them in
// $SLUICE_PROFILES, or in ../shared/profiles beside the checkout, and skip where they are not.
#pragma once

#include <gtest/gtest.h>
#include <sluice_build.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace sluice {

inline std::string published(const std::string& file) {
  const char* folder = std::getenv("SLUICE_PROFILES");
  return (folder ? std::string(folder) : SLUICE_SOURCE_DIR "/../shared/profiles") + "/" + file;
}

}  // namespace sluice

#define SLUICE_NEEDS_PUBLISHED(file)                         \
  if (!std::filesystem::exists(sluice::published(file)))     \
  GTEST_SKIP() << sluice::published(file)                    \
               << " is not there: set SLUICE_PROFILES to a " \
                  "folder with the published profiles"
