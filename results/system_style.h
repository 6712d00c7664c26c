// The title, colour, marker and dash of a system in all figures. plots/systems.json has one row per system, which never
// changes, for any set of systems in a figure; matplotlib users read the same file.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace sluice {

struct SystemStyle {
  std::string title;         // for readers: "1F1B"
  std::string color;         // "#f07008"
  std::string marker;        // in matplotlib's letters, one of kMarkers
  std::vector<double> dash;  // alternating lengths of line and gap, in widths of the line; empty: solid
};

inline const std::vector<std::string> kMarkers = {"o", "s", "D", "d", "^", "v", "<", ">", "P", "X", "*", "p", "h"};

// All rows of plots/systems.json by system. Throws InputError with file and JSON pointer.
const std::map<std::string, SystemStyle>& system_styles();

// For a system without a row: the title of this build or else its name, in black, with a marker and a dash by its name.
SystemStyle system_style(const std::string& system);

}  // namespace sluice
