// The accuracy of the virtual clock's order of systems: simulated figures that differ by less than the model's error
// tie.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace sluice {

// Relative error of the ratio of two systems' simulated throughputs or times, by where the costs of layers come from
// (Record::cost_source, or --costs):
//   measured costs ("profile", or a file): 5 %. `sluice validate --check` requires that pairs of cases that differ by
//     more than 5 % are predicted in the right order (99 % of them), with a median error of 3 % and a 90th percentile
//     of 8 %; of closer pairs it requires nothing.
//   "analytic", "calibrated ...": 8 %. Of the published ratios of two throughputs that `sluice reproduce` computes with
//     such costs (torchgpipe, ZeroPP), five of six are within it; model_error_test.cpp counts them.
double model_error(const std::string& cost_source);

// Errors of costs from 16-bit calibrations against measurements by others: shares of the measured figures. From
// results/findings/external.md; a test compares them.
struct PublishedErrors {
  double rank_times = 0.032;                      // forward and backward of single ranks, A100: median
  double steps = 0.113, steps_ninetieth = 0.297;  // TFLOP/s of 384 A100: median, 90th percentile
  double v100 = 0.148;                            // iterations of 1 to 32 V100: median
  double mi300x_too_fast = 0.409;                 // tokens/s of 8 MI300X
};
// "forward and backward times of single ranks were 3.2 % off in the median, steps of ...".
std::string published_error_text(const PublishedErrors& errors = {});

// Whether two positive figures differ by at most that share of the smaller one.
bool within_model_error(double a, double b, double error);

// Places of figures in their order, best first, as in a race: figures within `error` of the first of their place share
// it. {100, 97, 90, 50} and 5 %: {1, 1, 3, 4}.
std::vector<int> shared_places(std::span<const double> best_first, double error);

// "the model's error of 8 %".
std::string model_error_text(double error);

}  // namespace sluice
