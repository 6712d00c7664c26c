#include "systems/dynpipe/detector.h"

#include <algorithm>

namespace sluice {

DetectorOptions code_detector() {
  return {.window = 50, .enter = 2, .leave = 0.5, .confirm = 1, .calibration = 1, .code = true};
}

double banded(double rho) { return rho > 0.5 && rho < 2 ? 1 : rho; }

static bool changed_by_code(const DeviceHistory& device, const DetectorOptions& options) {
  const auto baseline = static_cast<std::size_t>(options.calibration);
  if (device.slowdown.size() <= baseline + 1) return false;
  return banded(device.slowdown.back() / device.slowdown[baseline]) != 1;
}

static bool changed_in(const DeviceHistory& device, double slowdown, const DetectorOptions& options) {
  const double change = slowdown / device.assumed;
  if (change >= options.enter || change <= 1 / options.enter) return true;
  return device.assumed >= options.enter && slowdown <= options.leave;
}

bool has_changed(std::span<const DeviceHistory> devices, const DetectorOptions& options, int confirm) {
  const auto windows = static_cast<std::size_t>(confirm);
  for (const DeviceHistory& device : devices) {
    if (options.code) {
      if (changed_by_code(device, options)) return true;
      continue;
    }
    if (device.slowdown.size() < windows) continue;
    const std::span<const double> newest = std::span(device.slowdown).last(windows);
    if (std::ranges::all_of(newest, [&](double slowdown) { return changed_in(device, slowdown, options); }))
      return true;
  }
  return false;
}

}  // namespace sluice
