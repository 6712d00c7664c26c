// DynPipe's detector: whether a rank's device has become slower, or as fast as before, since the plan that runs was
// chosen. It sees each rank's seconds of forwards and backwards per window of updates, nothing of the ops themselves.
#pragma once

#include <span>
#include <vector>

namespace sluice {

struct DetectorOptions {
  int window = 25;      // updates
  double enter = 1.3;   // slower (or faster) than the plan assumes by at least this factor ...
  double leave = 1.1;   // ... or, assumed slow, at most this much slower than undisturbed ...
  int confirm = 2;      // ... in this many windows in a row
  int calibration = 1;  // window, from 0, of the first plan whose seconds count as undisturbed
  bool code = false;    // the released code's rule instead (code_detector below)
};

// The constants of the released code: every 50 updates; a baseline at update 100 of every plan; slower or faster than
// it by a factor of 2.
DetectorOptions code_detector();

// rho_s: the seconds of a window over those of the baseline, 1 inside the dead band (0.5, 2).
double banded(double rho);

// What is known of one device, window by window under the plan that runs. slowdown: its seconds per update over what
// they would be undisturbed.
struct DeviceHistory {
  std::vector<double> slowdown;
  double assumed = 1;  // when the plan was chosen
};

// Whether the newest windows of any device say that it has changed. confirm: at least this many windows in a row.
bool has_changed(std::span<const DeviceHistory> devices, const DetectorOptions& options, int confirm);

}  // namespace sluice
