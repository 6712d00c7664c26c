// What all charts share: units, colours and small texts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "results/compare.h"

namespace sluice {

class Json;

// Of seconds or bytes of about `largest`: the divisor and the name of a unit that reads well.
struct Scale {
  double divisor = 1;
  std::string unit;
};
Scale time_scale(double largest_seconds);
Scale byte_scale(double largest_bytes);

std::string rate_text(double samples_per_second);  // "1,234", "12.3"
std::string metric_text(double value);             // an accuracy or a perplexity in four digits: "0.8580", "21.30"
std::string slug(const std::string& text);         // lower case, digits and single dashes
// The red of what does not fit: a device's memory.
inline constexpr const char* kLimitColor = "#b3261e";

std::string ranks_text(int ranks);  // "1 rank", "4 ranks"

// In lines of at most this many characters, cut at spaces; a longer word is a line of its own.
std::vector<std::string> wrapped(const std::string& text, std::size_t characters);
// Of one of several panels, in lines of up to `characters`; "": null.
Json panel_heading(const std::string& title, std::size_t characters = 64);
// Panels of one workload are told apart by their ranks and, where these differ, by what their optimizers do not share:
// "4 ranks, learning rate tuned". Those of several workloads by all of it. With the options of their rows where these
// differ.
std::string panel_title(const Comparison& c, std::span<const Comparison> all);
// How a chart's panels fill a page 1,400 pixels wide without an empty place or smaller text.
struct PanelGrid {
  std::size_t columns;
  double width;               // pixels, of a panel's plot
  std::size_t heading_chars;  // what a line of its heading has room for
};
// Three panels in a row, otherwise two (equal and tuned rates of one rank count); one below the other where the names
// next to them would leave too little. labels: pixels of these names. width: pixels of a plot that has room.
PanelGrid panel_grid(std::size_t panels, double labels, double width);
// Entries of a legend under a chart in one line, so that long names are not cut.
std::size_t legend_columns(const std::vector<std::string>& labels);

// "wall clock · laptop · global batch 100 · 3 epochs · recompute=all": the line under every title. Of the
// comparisons of a section, which differ in their ranks and learning rates only; options that they do not share stand
// in their panels' titles.
std::string setting(const Comparison& comparison);
std::string setting(std::span<const Comparison> section);
// The options of its rows that a reader can tell something by: without the digests of files.
std::string options_text(const Comparison& c);
// The options of all rows of all comparisons; "" where comparisons differ.
std::string shared_options(std::span<const Comparison> all);

std::string lighter(const std::string& color, int variant);  // of the n-th row of one system; 0: as it is
std::string vega_shape(const std::string& marker);           // of one of kMarkers (results/system_style.h)

// The label without its "microbatches=8": one for a system with all its numbers of micro-batches.
std::string label_without_microbatches(const ComparisonRow& row);

// title_of() the baseline; "" if the comparison has none.
std::string baseline_title(const Comparison& comparison);

// The rows in the order all charts use: single_device, then by title.
std::vector<const ComparisonRow*> drawing_order(const Comparison& comparison);

}  // namespace sluice
