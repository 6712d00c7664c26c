// See style.h.
#include "plots/style.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

#include "harness/base/json.h"
#include "harness/base/split.h"
#include "harness/base/visible_text.h"
#include "results/comparison_rows.h"
#include "results/store.h"

namespace sluice {

Scale time_scale(double largest) {
  if (largest >= 7200) return {3600, "h"};
  if (largest >= 1) return {1, "s"};
  if (largest >= 1e-3) return {1e-3, "ms"};
  return {1e-6, "µs"};
}

Scale byte_scale(double largest) {
  if (largest >= 1024.0 * 1024 * 1024) return {1024.0 * 1024 * 1024, "GiB"};
  if (largest >= 1024.0 * 1024) return {1024.0 * 1024, "MiB"};
  if (largest >= 1024) return {1024, "KiB"};
  return {1, "B"};
}

std::string rate_text(double value) {
  if (value < 100) return fmt::format("{:.3g}", value);
  std::string digits = fmt::format("{:.0f}", value);
  for (std::size_t place = digits.size(); place > 3;) {
    place -= 3;
    digits.insert(place, ",");
  }
  return digits;
}

std::string metric_text(double value) {
  return value < 1000 ? fmt::format("{:#.4g}", value) : fmt::format("{:.0f}", value);
}

std::string slug(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 128 && std::isalnum(byte)) {
      result += static_cast<char>(std::tolower(byte));
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  while (!result.empty() && result.back() == '-') result.pop_back();
  // A name that leaves nothing, or too much for a file's name, is told from others by its digest.
  constexpr std::size_t longest = 100;
  if (result.empty() && !text.empty()) return digest(text).substr(0, 8);
  if (result.size() > longest) return result.substr(0, longest - 9) + "-" + digest(text).substr(0, 8);
  return result;
}

std::string ranks_text(int ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

std::string options_text(const Comparison& c) {
  std::string text;
  std::istringstream words(c.options);
  for (std::string word; words >> word;)
    if (!word.starts_with("file_digests=")) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string shared_options(std::span<const Comparison> all) {
  const std::string first = options_text(all.front());
  return std::ranges::all_of(all, [&](const Comparison& c) { return options_text(c) == first; }) ? first : "";
}

std::string setting(std::span<const Comparison> section) {
  const Comparison& c = section.front();
  const auto if_shared = [&](const auto Comparison::*member, const std::string& text) {
    return std::ranges::all_of(section, [&](const Comparison& o) { return o.*member == c.*member; }) ? text : "";
  };
  std::string text = fmt::format("{} · {}", clock_text(c), c.cluster);
  for (const std::string& more : {if_shared(&Comparison::batch, fmt::format("global batch {}", c.batch)),
                                  if_shared(&Comparison::duration, c.duration), shared_options(section)})
    if (!more.empty()) text += " · " + more;
  return text;
}

std::string setting(const Comparison& comparison) { return setting(std::span(&comparison, 1)); }

std::vector<std::string> wrapped(const std::string& text, std::size_t characters) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && letters(line) + 1 + letters(word) > characters) lines.push_back(std::exchange(line, ""));
    line += (line.empty() ? "" : " ") + word;
  }
  lines.push_back(line);
  return lines;
}

Json panel_heading(const std::string& title, std::size_t characters) {
  const std::vector<std::string> lines = wrapped(title, characters);
  return title.empty() ? Json() : lines.size() == 1 ? Json(title) : Json(lines);
}

std::string panel_title(const Comparison& c, std::span<const Comparison> all) {
  std::string title;
  if (std::any_of(all.begin(), all.end(),
                  [&](const Comparison& other) { return other.workload != c.workload || other.batch != c.batch; }))
    title = fmt::format("{}, batch {}, ", c.title, c.batch);
  title += ranks_text(c.ranks);
  for (const std::string& part : split(c.optimizer, ", ")) {  // "sgd, learning rate 0.02, momentum 0.9"
    const bool shared = std::ranges::all_of(
        all, [&](const Comparison& other) { return std::ranges::count(split(other.optimizer, ", "), part) > 0; });
    if (!shared && !part.empty()) title += ", " + part;
  }
  const std::string options = options_text(c);
  return options == shared_options(all) ? title : title + ", " + options;
}

PanelGrid panel_grid(std::size_t panels, double labels, double width) {
  constexpr double kPage = 1220, kGap = 28, kCharacter = 7.2;  // pixels
  std::size_t columns = panels == 3 ? 3 : std::min<std::size_t>(panels, 2);
  const double gaps = kGap * static_cast<double>(columns - 1);
  double room = (kPage - gaps) / static_cast<double>(columns) - labels;
  if (columns > 1 && room < 0.65 * width) columns = 1, width *= 2, room = kPage - labels;
  width = std::max(100.0, std::min(width, room));
  return {columns, width, std::min<std::size_t>(64, static_cast<std::size_t>((width + labels) / kCharacter))};
}

std::size_t legend_columns(const std::vector<std::string>& labels) {
  std::size_t longest = 1;
  for (const std::string& label : labels) longest = std::max(longest, letters(label));
  return std::clamp<std::size_t>(130 / (longest + 6), 1, std::max<std::size_t>(labels.size(), 1));
}

std::string lighter(const std::string& color, int variant) {
  constexpr double kShares[] = {0, 0.35, 0.55, 0.7};  // of white; more would not be seen on paper
  const double share = kShares[variant % 4];
  std::string text = "#";
  for (std::size_t i = 1; i < 7; i += 2) {
    const double part = std::stoi(color.substr(i, 2), nullptr, 16);
    text += fmt::format("{:02x}", static_cast<int>(std::lround(part + share * (255 - part))));
  }
  return text;
}

std::string vega_shape(const std::string& marker) {
  // What Vega has no name for: paths in a square from -1 to 1.
  static const std::map<std::string, std::string> shapes = {
      {"o", "circle"},
      {"s", "square"},
      {"D", "diamond"},
      {"^", "triangle-up"},
      {"v", "triangle-down"},
      {"<", "triangle-left"},
      {">", "triangle-right"},
      {"P", "cross"},
      {"d", "M0,-1L0.55,0L0,1L-0.55,0Z"},
      {"X", "M0,-0.4L0.5,-0.9L0.9,-0.5L0.4,0L0.9,0.5L0.5,0.9L0,0.4L-0.5,0.9L-0.9,0.5L-0.4,0L-0.9,-0.5L-0.5,-0.9Z"},
      {"*", "M0,-1L0.26,-0.36L0.95,-0.31L0.43,0.14L0.59,0.81L0,0.45L-0.59,0.81L-0.43,0.14L-0.95,-0.31L-0.26,-0.36Z"},
      {"p", "M0,-1L0.95,-0.31L0.59,0.81L-0.59,0.81L-0.95,-0.31Z"},
      {"h", "M0,-1L0.87,-0.5L0.87,0.5L0,1L-0.87,0.5L-0.87,-0.5Z"}};
  return shapes.at(marker);
}

std::string label_without_microbatches(const ComparisonRow& row) {
  std::string label;
  std::istringstream words(title_of(row));
  for (std::string word; words >> word;)
    if (!word.starts_with("microbatches=")) label += (label.empty() ? "" : " ") + word;
  return label;
}

std::string baseline_title(const Comparison& comparison) {
  const auto row = std::ranges::find(comparison.rows, true, &ComparisonRow::baseline);
  return row == comparison.rows.end() ? "" : title_of(*row);
}

std::vector<const ComparisonRow*> drawing_order(const Comparison& comparison) {
  std::vector<const ComparisonRow*> rows;
  for (const ComparisonRow& row : comparison.rows) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    if (a->reference != b->reference) return a->reference;
    return title_of(*a) < title_of(*b);
  });
  return rows;
}

}  // namespace sluice
