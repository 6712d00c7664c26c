// From the samples of probes to the costs of layers.
#pragma once

#include <span>
#include <vector>

#include "harness/exec/probe.h"
#include "harness/model/cost_graph.h"

namespace sluice {

// The mean; 0 for none.
double mean_of(const std::vector<double>& seconds);
// The upper one of the two in the middle where their number is even; 0 for none.
double median_of(std::vector<double> values);

// Half the distance between the quartiles, as a part of the median; 0 for fewer than four.
double spread_of(std::vector<double> seconds);

// What the samples of some ranks say of one pass of a layer.
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
  // What an op takes in addition to its layers and its data; the data of an op, by the layer that reads it.
  std::vector<double> forward_rest, backward_rest, weight_gradient_rest;
  std::vector<std::vector<double>> load;  // per layer
  std::vector<std::int64_t> loaded;       // bytes, per layer
  std::vector<double> step, clear;        // of the whole model
  std::int64_t step_peak = 0;
  std::vector<double> send, receive;  // of the worker, without what it copies
};

// What a sample costs the rank, in seconds: within the sample itself, and in all. Runs without a probe do not have it.
struct ProbeCost {
  double within = 0, whole = 0;
};

// Adds the samples of the rank's typical updates: those whose time, waiting left out, lies between the quartiles. An
// update is as long as its ops are on the average, not as their medians, and an update that another process disturbed
// says nothing. An update ends with its optimizer step; the first `skipped_steps` ones are warm-up; samples that no
// step follows count only where there is no step at all. layer_of_input[k]: the layer that first reads model input k.
void add_samples(ChainSamples& sum, std::span<const ProbeSample> rank, std::span<const int> layer_of_input,
                 std::size_t skipped_steps, const ProbeCost& cost = {});

}  // namespace sluice
