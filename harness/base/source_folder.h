// Where this checkout's folders are: workloads/clusters, harness/sweeps, plots/render.py.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// $SLUICE_HOME, or else the folder that the program was built from.
std::string source_folder();

// The names, without their ending, of a folder's JSON files, in order; none where it cannot be read.
std::vector<std::string> names_of_json_files(const std::string& folder);

}  // namespace sluice
