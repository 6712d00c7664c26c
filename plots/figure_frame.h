// Shared by all figures: rows with their styles, text widths, and a view of an exact size with a legend.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plots/figure.h"
#include "results/compare.h"

namespace sluice {

// In points, of Helvetica, whose widths Arial and Liberation Sans share.
double text_width(const std::string& text, double font_size);

// A row of a comparison in a figure.
struct FigureRow {
  const ComparisonRow* row = nullptr;
  std::string label, color;
  std::string shape;          // Vega's name or an SVG path
  Json dash = Json::array();  // in points; empty: solid
};
// The name that was given for the row's label, or the name or title of its system with its `telling` options.
std::string figure_label(const ComparisonRow& row, const std::string& telling, const FigureOptions& options);
// The rows of one comparison, in the order of the options; `field` sorts by value. Rows of one system have its marker
// and dash; from its second row on the colour is lighter.
std::vector<FigureRow> figure_rows(const Comparison& comparison, const FigureOptions& options, const char* field);

// The comparison of a figure that shows one experiment. Throws InputError if there are several.
const Comparison& only_comparison(std::span<const Comparison> all, const FigureOptions& options);

enum class LegendMark { square, point, line };

// About `count` round values from 0, or from `from`, up to `to`.
std::vector<double> round_ticks(double from, double to, int count);
std::string tick_text(double value);
double widest_tick(const std::vector<double>& ticks, double font_size);

// A quantitative axis with round ticks and room above the largest value.
struct FigureAxis {
  std::string title;
  double from = 0, to = 1;
  std::vector<double> ticks = {};
  bool grid = true;
};
FigureAxis axis_to(const std::string& title, double from, double largest, int ticks);
Json encoding(const std::string& field, const FigureAxis& axis);

class FigureFrame {
 public:
  // left: points next to the plot for the labels and the title of the y axis. below: the same under it. height: of the
  // plot, if the options give no height of the figure. Throws InputError if less than min_height (0: four lines of
  // text) is left for the plot.
  FigureFrame(const FigureOptions& options, double left, double below, std::span<const FigureRow> legend,
              LegendMark mark, double height, double min_height = 0);
  double plot_width() const { return width_; }
  double plot_height() const { return height_; }
  // Layers are drawn in their order, the legend and the title last.
  Json spec(Json layers) const;

 private:
  const FigureOptions& options_;
  double left_, top_, below_, width_, height_, legend_rows_ = 0;
  Json legend_ = Json::array();
  LegendMark mark_;
};

// A mark without data: {"mark": mark, "data": one empty row}.
Json single_mark(Json mark, Json encoding = Json::object());

// The figures, one function for one or several kinds.
Json bar_figure(std::span<const Comparison> comparisons, const FigureOptions& options);
Json scaling_figure(std::span<const Comparison> comparisons, const FigureOptions& options);
Json pareto_figure(const Comparison& comparison, const FigureOptions& options);
Json memory_figure(const Comparison& comparison, const FigureOptions& options);
Json loss_figure(const Comparison& comparison, const FigureOptions& options);
Json timelines_figure(const Comparison& comparison, const FigureOptions& options);

}  // namespace sluice
