// Where this checkout's folders are: workloads/clusters, harness/sweeps, plots/render.py.
#pragma once

#include <string>

namespace sluice {

// $SLUICE_HOME, or else the folder that the program was built from.
std::string source_folder();

}  // namespace sluice
