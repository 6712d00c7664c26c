// A rendered chart inside a page.
#pragma once

#include <optional>
#include <string>

namespace sluice {

inline constexpr double kChartFont = 12;  // pixels, for most texts of drawn charts

struct InlineSvg {
  std::string markup;  // "" if the picture is no SVG
  double width = 0;    // pixels
};

// Without parts that a page has once (fonts, XML's namespaces), with ids that are unique in the page (prefixed with
// `name`), scaling with its container. The renderer escapes its texts.
InlineSvg inline_svg(const std::string& svg, const std::string& name);

}  // namespace sluice
