// The folders of files that come with the program: workloads/clusters, harness/sweeps, plots/render.py; and of files
// that it makes.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// $SLUICE_HOME; or ../share/sluice of the program's folder, where `cmake --install` puts them; or else the checkout
// from which the program was built.
std::string source_folder();

// In a checkout, or in $SLUICE_HOME: its results/runs. For an installed program: results/runs in the current folder.
std::string runs_folder();
// .cache in it; for an installed program $XDG_CACHE_HOME/sluice or ~/.cache/sluice.
std::string cache_folder();

// The folders of SLUICE_EXTRA_SYSTEMS that the program was built with.
std::vector<std::string> extra_system_folders();
// The default folder for the output of `sluice new`: `shipped`, such as "baselines", of a checkout or $SLUICE_HOME; for
// an installed program the current folder.
std::string folder_of_new(const std::string& shipped);

// The names, without extension, of a folder's JSON files, in order; empty if it cannot be read.
std::vector<std::string> names_of_json_files(const std::string& folder);

}  // namespace sluice
