// See figure_frame.h.
#include "plots/figure_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <sstream>

#include "harness/base/error.h"
#include "plots/chart_template.h"
#include "plots/style.h"
#include "results/comparison_rows.h"
#include "results/fields.h"
#include "results/system_style.h"

namespace sluice {
namespace {

// Adobe's font metrics of Helvetica: thousandths of the font size, of the characters from ' ' to '~'.
constexpr std::array<int, 95> kHelvetica = {
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};

constexpr double kGap = 3;  // points between a mark and its text

}  // namespace

std::string figure_label(const ComparisonRow& row, const std::string& telling, const FigureOptions& options) {
  if (const auto name = options.names.find(row.label); name != options.names.end()) return name->second;
  const auto name = options.names.find(row.system);
  return (name == options.names.end() ? system_style(row.system).title : name->second) +
         (telling.empty() ? "" : " " + telling);
}

double text_width(const std::string& text, double font_size) {
  double sum = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte <= '~')
      sum += kHelvetica[byte - ' '];
    else if ((byte & 0xC0) != 0x80)
      sum += 600;  // a letter of another alphabet
  }
  return sum * font_size / 1000;
}

std::vector<FigureRow> figure_rows(const Comparison& comparison, const FigureOptions& options, const char* field) {
  std::vector<const ComparisonRow*> rows = drawing_order(comparison);
  if (options.order == "given")
    std::ranges::stable_sort(rows, {}, [&](const ComparisonRow* row) {
      return std::ranges::find(options.systems, row->system) - options.systems.begin();
    });
  if (options.order == "value") {
    const Field& sorted_by = *find_field(field);
    const double sign = higher_is_better(sorted_by, comparison.rows.front().records.front()) ? -1 : 1;
    std::ranges::stable_sort(rows, {}, [&](const ComparisonRow* row) {
      const std::optional<double> value = middle(row->figure(sorted_by));
      return value ? sign * *value : std::numeric_limits<double>::infinity();
    });
  }
  std::map<std::string, int> variants;
  std::vector<FigureRow> result;
  for (const ComparisonRow* row : rows) {
    const SystemStyle style = system_style(row->system);
    Json dash = Json::array();
    for (const double length : style.dash) dash.push_back(length);
    result.push_back({row, figure_label(*row, row->options, options), lighter(style.color, variants[row->system]++),
                      vega_shape(style.marker), std::move(dash)});
  }
  return result;
}

const Comparison& only_comparison(std::span<const Comparison> all, const FigureOptions& options) {
  if (all.size() == 1) return all.front();
  std::string differ, advice;
  const auto add = [&](const std::string& key, auto value_of) {
    std::vector<std::string> values;
    for (const Comparison& c : all)
      if (const std::string value = value_of(c); std::ranges::count(values, value) == 0) values.push_back(value);
    if (values.size() < 2) return;
    constexpr std::size_t kShown = 6;
    const std::size_t more = values.size() > kShown ? values.size() - kShown : 0;
    values.resize(values.size() - more);
    differ += fmt::format("{}{} ({}{})", differ.empty() ? "" : ", ", key, fmt::join(values, ", "),
                          more > 0 ? fmt::format(" and {} more", more) : "");
    if (!advice.empty()) return;
    advice = key + "=" + values.front();
    if (advice.find(' ') != std::string::npos) advice = "'" + advice + "'";  // for the shell
  };
  add("workload", [](const Comparison& c) { return c.workload; });
  add("cluster", [](const Comparison& c) { return c.cluster; });
  add("clock", [](const Comparison& c) { return c.clock; });
  add("cost_source", [](const Comparison& c) { return c.cost_source; });
  add("ranks", [](const Comparison& c) { return std::to_string(c.ranks); });
  add("batch", [](const Comparison& c) { return std::to_string(c.batch); });
  add("rate", [](const Comparison& c) { return std::string(c.tuned ? "tuned" : "given"); });
  add("optimizer", [](const Comparison& c) { return c.optimizer; });
  add("duration", [](const Comparison& c) { return c.duration; });
  throw InputError("figure " + options.kind,
                   fmt::format("shows one experiment, and the records hold {}, which differ in {}", all.size(), differ),
                   "choose one with --filter, as in --filter " + advice);
}

std::vector<double> round_ticks(double from, double to, int count) {
  const double rough = std::max(to - from, 1e-300) / count, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0})
    if (factor * power >= rough * 0.8) step = factor * power;
  std::vector<double> ticks;
  for (double k = std::ceil(from / step - 1e-9); k * step <= to * (1 + 1e-9); ++k)
    ticks.push_back(k * step + 0.0);  // no -0
  return ticks;
}

std::string tick_text(double value) {
  return std::abs(value) >= 1000 ? rate_text(value) : fmt::format("{:.4g}", value);
}

double widest_tick(const std::vector<double>& ticks, double font_size) {
  double widest = 0;
  for (const double tick : ticks) widest = std::max(widest, text_width(tick_text(tick), font_size));
  return widest;
}

FigureAxis axis_to(const std::string& title, double from, double largest, int ticks) {
  const double to = largest > from ? from + (largest - from) * 1.05 : from + 1;
  return {title, from, to, round_ticks(from, to, ticks)};
}

Json encoding(const std::string& field, const FigureAxis& axis) {
  Json values = Json::array(), texts = Json::array();
  for (const double tick : axis.ticks) {
    values.push_back(tick);
    texts.push_back(tick_text(tick));
  }
  return {{"field", field},
          {"type", "quantitative"},
          {"scale", {{"domain", Json::array({axis.from, axis.to})}, {"nice", false}, {"zero", false}}},
          {"axis",
           {{"title", axis.title.empty() ? Json(nullptr) : Json(axis.title)},
            {"values", values},
            {"grid", axis.grid},
            {"labelExpr", fmt::format("{}[indexof({}, datum.value)]", texts.dump(), values.dump())}}}};
}

Json single_mark(Json mark, Json encoding) {
  return {{"data", {{"values", Json::array({Json::object()})}}},
          {"mark", std::move(mark)},
          {"encoding", std::move(encoding)}};
}

// The text in lines of at most `room` points, broken at spaces; a word that is wider has a line of its own.
static std::vector<std::string> lines_within(const std::string& text, double room, double font_size) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.empty() && text_width(lines.back() + " " + word, font_size) <= room)
      lines.back() += " " + word;
    else
      lines.push_back(word);
  }
  return lines;
}

FigureFrame::FigureFrame(const FigureOptions& options, double left, double below, std::span<const FigureRow> legend,
                         LegendMark mark, double height, double min_height)
    : options_(options), left_(left), below_(below), mark_(mark) {
  const double font = options.font_size, sample = mark == LegendMark::line ? 2.4 * font : 0.8 * font;
  const double right = 1.1 * font;  // of the last label of the x axis
  width_ = options.width - left - right;
  top_ = options.title.empty() ? 0.6 * font : 2 * font;
  if (!legend.empty()) {
    // As many columns as fit, all of one width, filled row by row. A name that is wider than the figure has several
    // lines.
    const double room = options.width - 2;
    std::vector<std::vector<std::string>> labels;
    double widest = 0;
    for (const FigureRow& row : legend) {
      labels.push_back(lines_within(row.label, room - sample - kGap, font));
      for (const std::string& line : labels.back()) widest = std::max(widest, text_width(line, font));
    }
    const double column = sample + kGap + widest + font;
    if (column - font > room)
      throw InputError(
          "figure " + options.kind,
          fmt::format("a name's longest word leaves no room: the legend needs {:.2f}in", (column - font + 2) / 72),
          "give shorter names with --names, choose rows with --filter, or give a larger --width");
    auto columns = static_cast<std::size_t>(std::clamp(std::floor((room + font) / column), 1.0, 12.0));
    columns = std::min(columns, legend.size());
    const std::size_t rows = (legend.size() + columns - 1) / columns;
    columns = (legend.size() + rows - 1) / rows;
    const double begin = std::max(0.0, (options.width - (static_cast<double>(columns) * column - font)) / 2) - left;
    for (std::size_t row = 0, i = 0; row < rows; ++row) {
      std::size_t lines = 1;
      for (std::size_t k = 0; k < columns && i < legend.size(); ++k, ++i) {
        lines = std::max(lines, labels[i].size());
        legend_.push_back({{"label", labels[i].size() > 1 ? Json(labels[i]) : Json(legend[i].label)},
                           {"color", legend[i].color},
                           {"shape", legend[i].shape},
                           {"dash", legend[i].dash},
                           {"at", begin + static_cast<double>(k) * column},
                           {"line", legend_rows_}});
      }
      legend_rows_ += static_cast<double>(lines);
    }
  }
  const double wanted = options.height > 0 ? options.height : height + top_ + below + legend_rows_ * 1.35 * font + 1;
  height_ = wanted - top_ - below - legend_rows_ * 1.35 * font - 1;
  if (width_ < 8 * font || height_ < std::min(min_height > 0 ? min_height : 4 * font, height))
    throw InputError("figure " + options.kind,
                     fmt::format("{:.0f} x {:.0f} points leave no room for the plot next to its {:g}-point text",
                                 options.width, wanted, font),
                     "give a larger --width or --height, a smaller --font-size, shorter --names or fewer --systems");
}

Json FigureFrame::spec(Json layers) const {
  const double font = options_.font_size, line = 1.35 * font;
  const double first = height_ + below_ + 0.6 * font;  // the middle of the legend's first line
  const bool lines = mark_ == LegendMark::line, squares = mark_ == LegendMark::square;
  const double sample = lines ? 2.4 * font : 0.8 * font;
  Json drawn = Json::array(), legend = Json::array();
  for (Json& layer : layers) drawn.push_back({{"layer", std::move(layer)}});
  for (const Json& entry : legend_) {
    const double at = entry["at"].get<double>();
    legend.push_back({{"y", first + entry["line"].get<double>() * line},
                      {"line_begin", at},
                      {"line_end", lines ? Json(at + sample) : Json()},
                      {"mark", at + sample / 2},
                      {"text_begin", at + sample + kGap},
                      {"color", entry["color"]},
                      {"dash", entry["dash"].empty() ? Json() : entry["dash"]},
                      {"shape", squares ? Json("square") : entry["shape"]},
                      {"label", entry["label"]}});
  }
  return filled_chart("figure_frame", {{"layers", std::move(drawn)},
                                       {"legend", std::move(legend)},
                                       {"line_height", line},
                                       {"size", std::pow((squares ? 0.8 : 0.65) * font, 2)},
                                       {"title", options_.title.empty() ? Json() : Json(options_.title)},
                                       {"title_x", options_.width / 2 - left_},
                                       {"title_y", -top_ + 1},
                                       {"font", font},
                                       {"title_padding", 0.4 * font},
                                       {"width", width_},
                                       {"height", height_},
                                       {"left", left_},
                                       {"right", options_.width - left_ - width_},
                                       {"top", top_},
                                       {"bottom", below_ + legend_rows_ * line + 1}});
}

Json figure_spec(std::span<const Record> records, const FigureOptions& options) {
  std::vector<Record> chosen(records.begin(), records.end());
  if (!options.systems.empty())
    std::erase_if(chosen, [&](const Record& r) { return std::ranges::count(options.systems, r.system) == 0; });
  for (const std::string& system : options.systems)
    if (std::ranges::count(chosen, system, &Record::system) == 0)
      throw InputError("--systems", "no record of system '" + system + "'", "leave it out, or run it");
  const std::vector<Comparison> comparisons = compare(chosen);
  if (comparisons.empty()) throw InputError("figure " + options.kind, "none of the records measures anything");
  std::set<std::string> labels;
  for (const Comparison& c : comparisons)
    for (const ComparisonRow& row : c.rows) labels.insert({row.label, row.system});
  for (const auto& [name, text] : options.names)
    if (!labels.contains(name))
      throw InputError("--names", "no system or row is called '" + name + "'",
                       suggestion(name, std::vector<std::string>(labels.begin(), labels.end())));
  if (options.kind == "scaling") return scaling_figure(comparisons, options);
  if (options.kind == "throughput" || options.kind == "bubbles" || options.kind == "time-to-accuracy")
    return bar_figure(comparisons, options);
  const Comparison& c = only_comparison(comparisons, options);
  if (options.kind == "pareto") return pareto_figure(c, options);
  if (options.kind == "memory") return memory_figure(c, options);
  if (options.kind == "loss") return loss_figure(c, options);
  if (options.kind == "timelines") return timelines_figure(c, options);
  throw InputError("figure", "unknown kind '" + options.kind + "'", suggestion(options.kind, kFigureKinds));
}

}  // namespace sluice
