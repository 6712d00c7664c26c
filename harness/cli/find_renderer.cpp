#include "harness/cli/find_renderer.h"

#include <cstdlib>
#include <filesystem>

#include "harness/base/source_folder.h"

namespace sluice {

Renderer find_renderer() {
  const std::string home = source_folder();
  const char* chosen = std::getenv("SLUICE_PYTHON");
  const std::string own = home + "/.venv/bin/python";
  const std::string python = chosen ? chosen : std::filesystem::exists(own) ? own : "python3";
  return {python, home + "/plots/render.py"};
}

}  // namespace sluice
