// CostGraph: the costs of a model for planners and the virtual clock: per layer, the seconds of F, I and W of one
// micro-batch on a reference device, and the bytes. Made by formula from LayerSpecs (analytic, a roofline; calibrated:
// calibrated_costs.h), or measured (`sluice profile`); a record names the source.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/quantities.h"
#include "harness/model/cluster.h"
#include "harness/model/measurement.h"
#include "harness/model/model.h"

namespace sluice {

class Json;

// One way to run a layer, if a profile gives several: a tensor-parallel degree, with or without activation
// recomputation (Piper's profiles).
struct LayerVariant {
  int tensor = 1;                    // tensor-parallel degree
  std::string id;                    // as published: "vanilla", "activation recomp"
  Seconds seconds;                   // F + I + W of one micro-batch
  Bytes parameters;                  // of each device
  Bytes in_flight;                   // per device and micro-batch in flight
  Bytes always;                      // per device, for any number in flight
  std::vector<Bytes> input_sync;     // per entry of inputs: further bytes if it comes from elsewhere
  std::map<int, Bytes> output_sync;  // consumer -> further bytes if it is elsewhere
  bool recompute = false;            // recomputes its activations in its backward
};

// A layer's time on a device of this name, if it was measured and is not only a factor.
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
  bool fused = false;                                // a view or a loss: always in the stage of the layer before it
  // For a layer whose input gradient is one product with a column for each of its input channels (linear layers and
  // convolutions), which can be split between two ranks by channels. 0: other layers.
  int input_channels = 0;
  std::vector<Bytes> input_bytes = {};  // per entry of inputs; empty: the producers' outputs
  // Bytes kept of one micro-batch between F and the backward, and between I and W. Each tensor counts with the first
  // layer that keeps it, so the sum over a model is the same for any division into layers. Absent: the output, and
  // nothing.
  std::optional<Bytes> stash = {}, weight_stash = {};
  std::vector<LayerVariant> variants = {};        // empty: only as above
  std::vector<DeviceTime> on = {};                // other devices: as above, by their speed
  std::optional<LayerMeasurement> measured = {};  // in addition to the seconds; absent: not measured inside a run
  // Shares of the seconds of F and I in proportion to the pairs of positions of a sequence; the rest is in proportion
  // to the positions. Set if sequences are cut into chunks.
  double forward_pairs = 0, input_gradient_pairs = 0;
  int copy_of = -1;   // the layer with the weight of which it holds a copy (count_copies); -1: none
  Bytes copy = {};    // of the copy's gradient
  Bytes frozen = {};  // of parameters: the frozen ones, without gradient and optimizer state
  Bytes own = {};     // of the trained ones: those that no other replica has (expert_spread.h)
  // The smallest part of a PyTorch model that torchtitan can put into a stage and that contains this layer. Empty: none
  // (the loss, a function between modules), or unknown.
  std::string part = {};
  // A pass in an overlapped pair (pipeline/schedule.h) takes this share of its own seconds, because the communication
  // of one op overlaps the computation of the other: F and B of two micro-batches take pair_share (F + I + W). Absent:
  // Cluster::pair_share.
  std::optional<double> pair_share = {};
  Bytes trained() const { return parameters - frozen; }
  Bytes reduced() const { return trained() - own; }  // whose gradients the replicas reduce
  Bytes kept() const { return stash.value_or(output); }
};

struct CostGraph {
  std::string model;
  std::string source;            // "analytic", "calibrated ...", "profile", or the format of a published profile
  std::string device;            // device of the seconds
  std::int64_t micro_batch = 1;  // samples
  std::vector<LayerCost> layers;
  // The same model with micro-batches that are a multiple of these, for stages that take several at once. Missing sizes
  // cost in proportion.
  std::vector<CostGraph> larger = {};
  std::optional<MachineCosts> machine = {};  // absent: not measured inside a run
  Seconds launch = {};   // part of every pass of a layer that takes time, for any size; by formula only
  Storage storage = {};  // number formats of its bytes: LayerCost::parameters are those of the weights
  // Bytes that belong to that many bytes of weights: their gradients; and the sum of weights, gradients and fp32
  // copies, which planners count without an optimizer.
  Bytes gradients(Bytes weights) const { return weights * storage.gradient.value / storage.weight.value; }
  Bytes resident(Bytes weights) const {
    return weights + gradients(weights) + weights * storage.master.value / storage.weight.value;
  }
};

// Costs whose weights are in fp32, with them in this storage. Seconds, outputs and what is kept stay as they are.
CostGraph with_weights_in(const Storage& storage, CostGraph costs);

// The costs of micro-batches of another size, in proportion to the samples.
CostGraph in_proportion(const CostGraph& costs, std::int64_t micro_batch);

// The costs of `microbatches_per_op` micro-batches taken at once by one op: from `larger`, or in proportion.
CostGraph grouped_costs(const CostGraph& costs, int microbatches_per_op);

// The costs in inference: only F takes time. Variants, which have no separate F, are left out.
CostGraph forward_only(CostGraph costs);

inline constexpr double kStreaming = 0.8;  // share of the memory bandwidth in analytic costs

// Roofline, for every layer and direction: seconds = max(FLOP / (peak * e), bytes / (bandwidth * 0.8)) + launch, where
// bytes are read and written: inputs, outputs, weights. e, the reached share of the peak, is 0.75 for matrix products,
// 0.55 for convolutions, 0.45 for attention; 0.8 is the share of the bandwidth that streaming reaches. These are
// choices for large fp32 layers, not measurements; `sluice profile` measures. In 16 bit they are the same shares of the
// device's 16-bit peak, and attention that keeps its scores also reads and writes them. Throws InputError if the device
// states no such peak.
CostGraph analytic_costs(const ModelGraph& model, std::int64_t micro_batch, const Device& device,
                         const Storage& storage = {});

// graph: of untied(model). Removes from a tied layer the bytes and the update of the weight that it shares; its passes
// still read that weight.
void count_tied_weights_once(CostGraph& graph, const ModelGraph& model);
// graph: of `model` without its copies (with_copies). Adds to a layer with a copy the weight's bytes and update.
void count_copies(CostGraph& graph, const ModelGraph& model);

// Removes W, update and gradient from frozen layers of the model; and I from layers with nothing to train up to and
// including them, and from those directly after.
void count_frozen_layers(CostGraph& graph, const ModelGraph& model);
// without_gradient() of the graph's model, from its frozen and trained parameters.
std::vector<bool> without_gradient(const CostGraph& graph);

// LayerCost::fused of a layer of the model.
bool is_fused_with_predecessor(const LayerSpec& layer);
// LayerCost::input_channels of a layer of the model.
int input_channels(const LayerSpec& layer);

// Throws InputError at `where`, naming the layer, for impossible values: seconds that are negative, not finite or more
// than kMaxOpSeconds, bytes that are negative or more than kMaxTensorBytes, a micro-batch of more than kMaxSamples.
// Within these bounds no sum over a model overflows.
void check_bounds(const CostGraph& graph, const std::string& where);

Json to_json(const CostGraph& graph);
CostGraph cost_graph_from_json(const Json& json,
                               const std::string& where);  // throws InputError

}  // namespace sluice
