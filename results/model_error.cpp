#include "results/model_error.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {

double model_error(const std::string& cost_source) {
  const bool modelled = cost_source.starts_with("analytic") || cost_source.starts_with("calibrated");
  return modelled ? 0.08 : 0.05;
}

bool within_model_error(double a, double b, double error) {
  constexpr double kRounding = 1e-9;
  return std::max(a, b) <= std::min(a, b) * (1 + error + kRounding);
}

std::vector<int> shared_places(std::span<const double> best_first, double error) {
  std::vector<int> places;
  std::size_t first = 0;  // of the current place
  for (std::size_t i = 0; i < best_first.size(); ++i) {
    if (!within_model_error(best_first[first], best_first[i], error)) first = i;
    places.push_back(static_cast<int>(first) + 1);
  }
  return places;
}

std::string published_error_text(const PublishedErrors& e) {
  return fmt::format(
      "against published runs, times of single ranks were {:.1f} % off in the median, steps of 384 A100 {:.1f} % "
      "({:.1f} "
      "% at the 90th percentile), nearly always too fast; of 1 to 32 V100 {:.1f} %, of 8 MI300X {:.0f} %, too fast "
      "(results/findings/external.md)",
      100 * e.rank_times, 100 * e.steps, 100 * e.steps_ninetieth, 100 * e.v100, 100 * e.mi300x_too_fast);
}

std::string model_error_text(double error) { return fmt::format("the model's error of {:g} %", 100 * error); }

}  // namespace sluice
