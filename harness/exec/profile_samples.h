// Costs of layers from the samples of probes.
#pragma once

#include <span>
#include <vector>

#include "harness/exec/probe.h"
#include "harness/model/cost_graph.h"

namespace sluice {

// The mean; 0 for none.
double mean_of(const std::vector<double>& seconds);
// For an even number of values, the upper of the two in the middle; 0 for none.
double median_of(std::vector<double> values);

// Half the distance between the quartiles, as a part of the median; 0 for fewer than four.
double spread_of(std::vector<double> seconds);

// The samples of some ranks for one pass of a layer.
struct PassSamples {
  std::vector<double> seconds;  // of one micro-batch
  std::int64_t peak = 0, left = 0;
};

struct LayerSamples {
  PassSamples forward, unstashed, input_gradient, weight_gradient;
};

// Samples of whole-chain runs: one stage on every rank.
struct ChainSamples {
  std::vector<LayerSamples> layers;
  // The time of an op beyond its layers and its data; the data of an op, by the layer that reads it.
  std::vector<double> forward_rest, backward_rest, weight_gradient_rest;
  std::vector<std::vector<double>> load;  // per layer
  std::vector<std::int64_t> loaded;       // bytes, per layer
  std::vector<double> step, clear;        // of the whole model
  std::int64_t step_peak = 0;
  std::vector<double> send, receive;  // of the worker, without what it copies
};

// Cost of a sample for the rank, in seconds: inside the sample, and in total. Runs without a probe do not have it.
struct ProbeCost {
  double within = 0, whole = 0;
};

// Adds the samples of the rank's typical updates: those whose time, without waits, is between the quartiles, because an
// update takes the mean of its ops, not their median, and disturbed updates must not count. An update ends with its
// optimizer step; the first `skipped_steps` ones are warm-up; samples after the last step count only if there is no
// step. layer_of_input[k]: the layer that first reads model input k.
void add_samples(ChainSamples& sum, std::span<const ProbeSample> rank, std::span<const int> layer_of_input,
                 std::size_t skipped_steps, const ProbeCost& cost = {});

}  // namespace sluice
