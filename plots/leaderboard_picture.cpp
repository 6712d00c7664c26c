// The leaderboard's synchronous systems as a picture: a cell is darker the nearer the system is to the column's best.
#include <fmt/format.h>

#include <cmath>

#include "plots/leaderboard.h"
#include "plots/report.h"

namespace sluice {
namespace {

constexpr int kRow = 24, kName = 168, kScore = 56, kCell = 88, kHead = 62, kMargin = 12;

std::string text(double x, double y, const std::string& anchor, const std::string& style, const std::string& content) {
  return fmt::format("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                     style.empty() ? "" : " " + style, escape_html(content));
}

// From white to the blue of Vega's "blues" at 1; the ink on it.
std::pair<std::string, const char*> look(double share) {
  const auto mix = [&](double from, double to) { return static_cast<int>(std::lround(from + (to - from) * share)); };
  return {fmt::format("#{:02x}{:02x}{:02x}", mix(250, 8), mix(252, 81), mix(255, 156)), share > 0.55 ? "#fff" : "#222"};
}

// A heading in up to three lines, cut after commas.
std::string heading(double x, const std::string& name) {
  std::string result;
  int line = 0;
  for (std::size_t begin = 0; begin < name.size() && line < 3; ++line) {
    const std::size_t comma = name.find(", ", begin);
    const std::size_t end = comma == std::string::npos || line == 2 ? name.size() : comma;
    result += text(x, kMargin + 14 + 15 * line, "middle", "font-size=\"11\"", name.substr(begin, end - begin));
    begin = end + 2;
  }
  return result;
}

}  // namespace

std::string leaderboard_svg(const Leaderboard& board) {
  const auto& columns = board.description.columns;
  const auto rows = board.synchronous;
  const double width = 2 * kMargin + kName + kScore + kCell * static_cast<double>(columns.size());
  const double height = kMargin + kHead + kRow * static_cast<double>(rows.size()) + kMargin;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:g} {:g}\" width=\"{:g}\" height=\"{:g}\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"12.5\" fill=\"#222\">\n<title>{}</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      width, height, width, height, escape_html(board.description.title));
  const auto column_x = [&](std::size_t c) {
    return kMargin + kName + kScore + kCell * (static_cast<double>(c) + 0.5);
  };
  svg += text(kMargin + kName + kScore / 2.0, kMargin + 14, "middle", "font-weight=\"bold\"", "score");
  for (std::size_t c = 0; c < columns.size(); ++c) svg += heading(column_x(c), columns[c].heading);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const BoardRow& row = rows[r];
    const double top = kMargin + kHead + kRow * static_cast<double>(r), base = top + kRow / 2.0 + 4.5;
    const std::string place = row.reference ? "" : std::to_string(row.place);
    svg += text(kMargin + 16, base, "end", "fill=\"#666\"", place);
    svg += text(kMargin + 26, base, "start", row.reference ? "font-style=\"italic\"" : "", row.title);
    svg +=
        text(kMargin + kName + kScore / 2.0, base, "middle", "font-weight=\"bold\"", fmt::format("{:.2f}", row.score));
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const BoardCell& cell = row.cells[c];
      const auto [color, ink] = cell.best ? look(cell.share) : std::pair<std::string, const char*>("#f3f3f3", "#888");
      svg += fmt::format("<rect x=\"{:g}\" y=\"{:g}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
                         column_x(c) - kCell / 2.0 + 1, top + 1, kCell - 2, kRow - 2, color);
      svg += text(column_x(c), base, "middle",
                  fmt::format("fill=\"{}\"{}", ink, cell.place == 1 ? " font-weight=\"bold\"" : ""), cell.text());
    }
  }
  return svg + "</svg>\n";
}

}  // namespace sluice
