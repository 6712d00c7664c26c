// CostGraph: what planners and the virtual clock know of a model: per layer, the seconds of F, I
// and W of one micro-batch on a reference device, and the bytes. Made by formula from LayerSpecs
// (analytic, a roofline), or measured (`sluice profile`); a record says which.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/base/quantities.h"
#include "harness/model/cluster.h"
#include "harness/model/model.h"

namespace sluice {

// One way to run a layer, where a profile gives several: a tensor-parallel degree, with or without
// activation recomputation (Piper's profiles).
struct LayerVariant {
  int tensor = 1;                    // devices that share the layer
  std::string id;                    // as published: "vanilla", "activation recomp"
  Seconds seconds;                   // F + I + W of one micro-batch
  Bytes parameters;                  // of each device
  Bytes in_flight;                   // memory of each device for every micro-batch in flight
  Bytes always;                      // memory of each device whatever is in flight
  std::vector<Bytes> input_sync;     // per entry of inputs: further bytes if it comes from elsewhere
  std::map<int, Bytes> output_sync;  // consumer -> further bytes if it is elsewhere
  bool recompute = false;            // makes its activations again in its backward
};

// What a layer takes on a device of this name, where that was measured and is no mere factor.
struct DeviceTime {
  std::string device;
  Seconds forward, input_gradient, weight_gradient;
};

struct LayerCost {
  std::string name;
  std::vector<int> inputs;                           // as LayerSpec::inputs
  Seconds forward, input_gradient, weight_gradient;  // of one micro-batch
  Seconds update;                                    // of one optimizer step
  Bytes parameters;                                  // bytes of weights
  Bytes output;                                      // bytes of the output of one micro-batch
  bool fused = false;                                // a view or a loss: belongs into the stage of the layer before it
  std::vector<Bytes> input_bytes = {};               // per entry of inputs; empty: the producers' outputs
  std::vector<LayerVariant> variants = {};           // empty: only as above
  std::vector<DeviceTime> on = {};                   // devices not named here: as above, by their speed
};

struct CostGraph {
  std::string model;
  std::string source;            // "analytic", "profile", or the format of a published profile
  std::string device;            // what the seconds are for
  std::int64_t micro_batch = 1;  // samples
  std::vector<LayerCost> layers;
  // The same model with micro-batches that are a multiple of these, for stages that take several
  // at once. What is not here takes as many times as long.
  std::vector<CostGraph> larger = {};
};

// The costs of `micros_per_op` micro-batches taken at once by one op: from `larger`, or in proportion.
CostGraph grouped_costs(const CostGraph& costs, int micros_per_op);

// Roofline, for every layer and direction: seconds = max(FLOP / (peak * e), bytes / (bandwidth * 0.8)) + launch, where
// bytes are what is read and written: inputs, outputs, weights. e, the part of the peak that is reached, is 0.75 for
// matrix products, 0.55 for convolutions, 0.45 for attention; 0.8 is the part of the bandwidth that streaming reaches.
// These are choices for large fp32 layers, not measurements; `sluice profile` measures.
CostGraph analytic_costs(const ModelGraph& model, std::int64_t micro_batch, const Device& device);

// Whether a layer of the model is such a one.
bool is_fused_with_predecessor(const LayerSpec& layer);

nlohmann::json to_json(const CostGraph& graph);
CostGraph cost_graph_from_json(const nlohmann::json& json,
                               const std::string& where);  // throws InputError

}  // namespace sluice
