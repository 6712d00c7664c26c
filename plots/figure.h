// Figures for papers, as Vega-Lite specifications: of an exact size, with text of an exact size, without a title by
// default, with titles of systems instead of names, and every system in its own colour, marker and dash. A unit of the
// specification is a point (1/72 inch).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "results/record.h"

namespace sluice {

inline const std::vector<std::string> kFigureKinds = {"throughput", "scaling",   "pareto",  "time-to-accuracy",
                                                      "memory",     "timelines", "bubbles", "loss"};
// name: by title; value: best first; given: as in `systems`.
inline const std::vector<std::string> kFigureOrders = {"name", "value", "given"};

struct FigureOptions {
  std::string kind;                          // of kFigureKinds
  double width = 3.3 * 72, height = 0;       // points; height 0: default of the kind
  double font_size = 8;                      // points
  std::string title = {};                    // "": none
  std::vector<std::string> systems = {};     // names; empty: all
  std::string order = "name";                // of kFigureOrders
  std::map<std::string, std::string> names;  // titles in the figure, by a system's name or a row's label
  std::string clusters = {};                 // folder of cluster files, for the memory limits of devices
};

// Throws InputError if the records lack what the kind needs, or hold more experiments than it shows.
Json figure_spec(std::span<const Record> records, const FigureOptions& options);

}  // namespace sluice
