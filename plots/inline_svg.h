// A rendered chart as a part of a page.
#pragma once

#include <optional>
#include <string>

namespace sluice {

inline constexpr double kChartFont = 12;  // pixels, of most texts of charts as they are drawn

struct InlineSvg {
  std::string markup;            // "" if the picture is no SVG
  double width = 0, height = 0;  // pixels
};

// Without what a page says once (fonts, XML's namespaces), with ids that no other picture of the page has (`name` in
// front), scaling with its place. The renderer escapes the texts in it.
InlineSvg inline_svg(const std::string& svg, const std::string& name);

}  // namespace sluice
