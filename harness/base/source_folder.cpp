#include "harness/base/source_folder.h"

#include <sluice_build.h>

#include <cstdlib>

namespace sluice {

std::string source_folder() {
  const char* home = std::getenv("SLUICE_HOME");
  return home ? home : SLUICE_SOURCE_DIR;
}

}  // namespace sluice
