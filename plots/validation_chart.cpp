
#include <fmt/format.h>

#include <algorithm>

#include "plots/chart_template.h"
#include "plots/charts.h"
#include "results/validation.h"

namespace sluice {

// What is within `part` of the measured time.
static Json band(double low, double high, double part, const char* color) {
  Json corners = Json::array();
  for (const double x : {low, high}) corners.push_back({{"x", x}, {"low", x * (1 - part)}, {"high", x * (1 + part)}});
  return {{"corners", std::move(corners)}, {"color", color}};
}

Chart validation_chart(const std::string& name, const Validation& validation) {
  const std::string title = kValidationChartTitle;
  if (validation.cases.empty()) return {name, title, nullptr};
  Json values = Json::array();
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
  return {name, title,
          filled_chart("validation", title, subtitle,
                       {{"values", std::move(values)},
                        {"bands", Json::array({band(low, high, 0.08, "#dddddd"), band(low, high, 0.03, "#a0c0a0")})},
                        {"domain", Json::array({low, high})}})};
}

}  // namespace sluice
