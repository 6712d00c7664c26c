// See inline_svg.h.
#include "plots/inline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <string_view>

namespace sluice {
namespace {

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  std::string result;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(what, from)) != std::string::npos; from = at + what.size()) {
    result.append(text, from, at - from);
    result += with;
  }
  text = result + text.substr(from);
}

// The number of the first attribute `name` of the first tag; 0 if there is none.
double attribute(const std::string& svg, const std::string& name) {
  const std::size_t end = svg.find('>'), at = svg.find(" " + name + "=\"");
  return at == std::string::npos || at > end ? 0 : std::strtod(svg.c_str() + at + name.size() + 3, nullptr);
}

// Coordinates to a tenth of a pixel: of every `name="..."`, the digits behind the first decimal.
void round_numbers(std::string& svg, const std::string& name) {
  const std::string head = " " + name + "=\"";
  std::string result;
  std::size_t from = 0;
  for (std::size_t at; (at = svg.find(head, from)) != std::string::npos;) {
    const std::size_t begin = at + head.size(), end = std::min(svg.find('"', begin), svg.size());
    result.append(svg, from, begin - from);
    int decimals = -1;  // -1: before the point
    for (std::size_t k = begin; k < end; ++k) {
      const bool is_digit = svg[k] >= '0' && svg[k] <= '9';
      if (svg[k] == '.')
        decimals = 0;
      else if (!is_digit)
        decimals = -1;
      else if (decimals >= 0)
        ++decimals;
      if (decimals <= 1) result += svg[k];
    }
    from = end;
  }
  svg = result + svg.substr(from);
}

// What marks carry to be drawn by is no part of what the page says of them, which is their tooltip: "x: 4; system:
// GPipe" -> "system: GPipe". A mark without a tooltip (a whisker, a text) says nothing.
void drop_drawing_fields(std::string& svg) {
  static const std::set<std::string, std::less<>> kFields = {
      "order",          "ink",         "color", "shade", "top", "bottom", "drawn", "framed", "centre",     "middle",
      "text",           "x",           "y",     "label", "end", "size",   "value", "memory", "throughput", "held",
      "search_seconds", "update_time", "ended"};
  const std::string head = " aria-label=\"";
  std::string result;
  std::size_t from = 0;
  for (std::size_t at; (at = svg.find(head, from)) != std::string::npos;) {
    const std::size_t begin = at + head.size(), end = std::min(svg.find('"', begin), svg.size());
    std::string kept;
    bool says_something = false;
    for (std::size_t part = begin; part < end;) {
      const std::size_t stop = std::min(svg.find("; ", part), end);
      const std::string_view text = std::string_view(svg).substr(part, stop - part);
      const std::string_view field = text.substr(0, text.find(':'));
      if (!kFields.contains(field)) {
        kept.append(kept.empty() ? "" : "; ").append(text);
        says_something |= field != "low" && field != "high";  // alone: the ends of a whisker
      }
      part = stop == end ? end : stop + 2;
    }
    result.append(svg, from, at - from);
    if (says_something) result += head + kept + '"';
    from = std::min(end + 1, svg.size());
  }
  svg = result + svg.substr(from);
}

// Gives all texts the size of the smallest, so that none grows out of its place, and titles 15/13 of it. Returns that
// size in pixels; 0 for no texts.
double unify_fonts(std::string& svg) {
  constexpr double kTitle = 15;  // pixels: charts are drawn with titles of 16 and other texts of 9 to 13
  const std::string head = " font-size=\"";
  const auto each = [&](auto use) {
    for (std::size_t at = svg.find(head); at != std::string::npos; at = svg.find(head, at + 1)) use(at + head.size());
  };
  const auto size_at = [&](std::size_t at) { return std::strtod(svg.c_str() + at, nullptr); };
  double least = 0;
  each([&](std::size_t at) { least = least > 0 ? std::min(least, size_at(at)) : size_at(at); });
  each([&](std::size_t at) {
    const double size = size_at(at) > kTitle ? least * 15 / 13 : least;
    svg.replace(at, svg.find('"', at) - at, fmt::format("{:.4g}px", size));
  });
  return least;
}

}  // namespace

InlineSvg inline_svg(const std::string& svg, const std::string& name) {
  const std::size_t begin = svg.find("<svg");
  const std::size_t end = svg.rfind("</svg>");
  if (begin == std::string::npos || end == std::string::npos) return {};
  InlineSvg result{svg.substr(begin, end + 6 - begin), 0};
  result.width = attribute(result.markup, "width");
  // Of every mark: half of a chart's bytes.
  for (const char* noise : {" font-family=\"Helvetica, Arial, sans-serif\"",
                            " opacity=\"1\"",
                            " pointer-events=\"none\"",
                            " aria-hidden=\"true\"",
                            " xmlns=\"http://www.w3.org/2000/svg\"",
                            " version=\"1.1\"",
                            " xmlns:xlink=\"http://www.w3.org/1999/xlink\"",
                            " role=\"graphics-symbol\"",
                            " role=\"graphics-object\"",
                            "<path class=\"foreground\" d=\"\" display=\"none\"/>",
                            "<path class=\"background\" d=\"M0,0h0v0h0Z\"/>",
                            " aria-roledescription=\"group mark container\"",
                            " aria-roledescription=\"bar\"",
                            " aria-roledescription=\"point\"",
                            " aria-roledescription=\"rect mark\"",
                            " aria-roledescription=\"line mark\"",
                            " aria-roledescription=\"text mark\"",
                            " aria-roledescription=\"rule mark\"",
                            " font-weight=\"normal\"",
                            " stroke-width=\"1\"",
                            " text-anchor=\"start\"",
                            " transform=\"translate(0,0)\""})
    replace_all(result.markup, noise, "");
  drop_drawing_fields(result.markup);
  for (const char* attribute_name : {"d", "transform"}) round_numbers(result.markup, attribute_name);
  if (const double font = unify_fonts(result.markup); font > 0) result.width *= kChartFont / font;
  replace_all(result.markup, " id=\"", " id=\"" + name + "-");
  replace_all(result.markup, "url(#", "url(#" + name + "-");
  return result;
}

}  // namespace sluice
