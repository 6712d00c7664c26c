// Where the files are that come with the program: workloads/clusters, harness/sweeps, plots/render.py; and where it
// keeps what it makes.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// $SLUICE_HOME; or ../share/sluice of the program's folder, where `cmake --install` put them; or else the checkout that
// the program was built from.
std::string source_folder();

// Of a checkout, or of $SLUICE_HOME: results/runs in it. Of an installed program: results/runs in the current folder.
std::string runs_folder();
// .cache in it; of an installed program $XDG_CACHE_HOME/sluice or ~/.cache/sluice.
std::string cache_folder();

// The folders of SLUICE_EXTRA_SYSTEMS that the program was built with.
std::vector<std::string> extra_system_folders();
// Where `sluice new` puts what it writes, unless it is told: `shipped`, such as "baselines", of a checkout or
// $SLUICE_HOME; of an installed program the current folder.
std::string folder_of_new(const std::string& shipped);

// The names, without their ending, of a folder's JSON files, in order; none where it cannot be read.
std::vector<std::string> names_of_json_files(const std::string& folder);

}  // namespace sluice
