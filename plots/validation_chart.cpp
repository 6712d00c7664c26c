
#include <fmt/format.h>

#include <algorithm>

#include "plots/charts.h"
#include "plots/style.h"
#include "results/validation.h"

namespace sluice {

using json = Json;

static json band(double low, double high, double part, const char* color) {
  json values = json::array();
  for (const double x : {low, high}) values.push_back({{"x", x}, {"low", x * (1 - part)}, {"high", x * (1 + part)}});
  return {{"data", {{"values", values}}},
          {"mark", {{"type", "area"}, {"color", color}, {"opacity", 0.5}}},
          {"encoding",
           {{"x", {{"field", "x"}, {"type", "quantitative"}, {"scale", {{"type", "log"}}}}},
            {"y", {{"field", "low"}, {"type", "quantitative"}, {"scale", {{"type", "log"}}}}},
            {"y2", {{"field", "high"}}}}}};
}

Chart validation_chart(const std::string& name, const Validation& validation) {
  const std::string title = kValidationChartTitle;
  if (validation.cases.empty()) return {name, title, nullptr};
  json values = json::array();
  double low = 1e300, high = 0;
  for (const ValidatedCase& c : validation.cases) {
    low = std::min({low, 1e3 * c.wall, 1e3 * c.simulated});
    high = std::max({high, 1e3 * c.wall, 1e3 * c.simulated});
    values.push_back({{"measured", 1e3 * c.wall},
                      {"predicted", 1e3 * c.simulated},
                      {"workload", c.workload},
                      {"case", c.label},
                      {"error", fmt::format("{:+.1f} %", 100 * c.error())}});
  }
  low *= 0.8;
  high *= 1.25;
  const std::vector<std::string> subtitle = {
      fmt::format("{} cases · error: median {:.1f} %, 90th percentile {:.1f} % · order kept {:.1f} %",
                  validation.cases.size(), 100 * validation.time.median, 100 * validation.time.p90,
                  100 * validation.order.share()),
      "Bands: within 3 % and 8 %"};
  Chart chart{name, title, chart_frame(title, subtitle)};
  const auto axis = [&](const char* field, const char* text) {
    return json{{"field", field},
                {"type", "quantitative"},
                {"scale", {{"type", "log"}, {"domain", json::array({low, high})}, {"nice", false}}},
                {"axis", {{"title", text}}}};
  };
  chart.spec["width"] = 520;
  chart.spec["height"] = 520;
  chart.spec["layer"] =
      json::array({band(low, high, 0.08, "#dddddd"), band(low, high, 0.03, "#a0c0a0"),
                   json{{"data", {{"values", values}}},
                        {"mark", {{"type", "point"}, {"filled", true}, {"size", 45}, {"opacity", 0.8}}},
                        {"encoding",
                         {{"x", axis("measured", "measured, ms an update")},
                          {"y", axis("predicted", "predicted, ms an update")},
                          {"color", {{"field", "workload"}, {"type", "nominal"}, {"legend", {{"title", nullptr}}}}},
                          {"tooltip", json::array({json{{"field", "case"}}, json{{"field", "error"}}})}}}}});
  return chart;
}

}  // namespace sluice
