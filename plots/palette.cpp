// See palette.h.
#include "plots/palette.h"

#include <array>
#include <set>

#include "results/comparison.h"

namespace sluice {

Palette::Palette(std::span<const Record> records) {
  // Neighbours in the alphabet differ in hue, so that what stands side by side is told apart.
  static const std::array<const char*, 24> kColors = {"#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2",
                                                      "#d4a600", "#9d755d", "#ff9da6", "#2f4b7c", "#88d27a", "#a05195",
                                                      "#0f8a8a", "#ffbe7d", "#7b6fd0", "#8c1d18", "#9ecae9", "#6b8e23",
                                                      "#d67195", "#3d6b4f", "#c49c6b", "#1b9ed8", "#5c3d2e", "#b6b800"};
  std::set<std::string> systems;
  for (const Record& record : records) systems.insert(record.system);
  systems.erase(kReferenceSystem);
  std::size_t next = 0;
  for (const std::string& system : systems) colors_[system] = kColors[next++ % kColors.size()];
  colors_[kReferenceSystem] = "#6f6f6f";
}

const std::string& Palette::color(const std::string& system) const {
  static const std::string kUnknown = "#b0b0b0";
  const auto found = colors_.find(system);
  return found == colors_.end() ? kUnknown : found->second;
}

}  // namespace sluice
