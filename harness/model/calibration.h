// Calibration: what is known of the times of single kernels on a device in one precision, fitted once to published
// measurements of that device alone. JSON (workloads/devices/*.json, schema sluice/calibration/1):
//   {"schema": "sluice/calibration/1", "device": "...", "precision": "fp32", "evidence": "derived: ...",
//    "source": "...", "peak": 15.7e12, "memory_bandwidth": "900GB/s", "multiprocessors": 80, "host_gap": "0us",
//    "products": {fit, "short_reductions": {"below": 512, "prologue": 8}},
//    "convolutions": {"forward": {fit, "gain_3x3": 2}, "input_gradient": {...}, "weight_gradient": {...}},
//    "attention": {"forward_share": 0.6, "backward_share": 0.5, "forward_extra_width": 0, "forward_tail": 0, ...},
//    "streams": {"bandwidth_share": 0.8, "gap": "5us", "norm_share": 0.4, "activation_share": 0.5},
//    "cautions": ["..."]}
// where a fit is "peak_share": 0.9, "half_intensity": 6, "prologue": 8, "quantisation": 0.5, "bandwidth_share": 0.7,
// "gap": "9us", "points": 160, "held_out": {"median": 0.05, "ninetieth": 0.2}, and perhaps "out_of_range" of the same
// form and "unidentified": ["gap"], the parameters that the measurements do not determine, which nothing here reads; of
// products also "corrections": {"lengths": [1, 0.8, 2], "weights": [[1, 256, 256, 256, 0.01], ...]}, a row a fitted
// shape: batch, m, n, k and its weight. The times that follow from it are in kernel_times.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/base/quantities.h"

namespace sluice {

class Json;

// The distance of a fit from measurements that it has not seen, relative to the measured time.
struct FitError {
  double median = 0, ninetieth = 0;  // ninetieth: of a hundred, sorted
};

// What the tile model misses, learned from the shapes that were measured: a time is multiplied by exp(sum of
// weight exp(-d^2 / 2)) over these shapes, where d is the distance of log2 of the shapes in units of the lengths. Far
// from all of them it is multiplied by 1.
struct ShapeCorrections {
  double batch_length = 1, side_length = 1, reduction_length = 1;
  struct Shape {
    double log2_batch, log2_m, log2_n, log2_k, weight;
  };
  std::vector<Shape> shapes;
};

// Parameters of the times of products, or of convolutions as products (kernel_times.h says what they do).
struct KernelFit {
  double peak_share = 1;       // of the peak that the best tile reaches
  double half_intensity = 0;   // FLOP a loaded element (half of it) at which a tile reaches half of that
  double prologue = 0;         // steps of the reduction that every tile takes besides its own
  double quantisation = 1;     // 0: the last wave of tiles takes its share of a wave; 1: a whole one
  double bandwidth_share = 1;  // of the memory bandwidth that is reached
  Seconds gap;                 // of every kernel, whatever its size
  double gain_3x3 = 1;         // of convolutions with windows of 3 x 3 and stride 1: their reduction is so much shorter
  int short_below = 0;         // reductions below this take short_prologue
  double short_prologue = 0;
  std::optional<ShapeCorrections> corrections;  // of products only
  int points = 0;                               // measurements that it was fitted to
  FitError held_out;
  std::optional<FitError> out_of_range;  // shapes larger than all that it was fitted to
};

struct ConvolutionFits {
  KernelFit forward, input_gradient, weight_gradient;
};

// Fused attention (FlashAttention), forward or backward.
struct AttentionFit {
  double share = 1;        // of the peak that its products reach with heads of 128 numbers
  double extra_width = 0;  // that the exponential of a pair takes as long as, in numbers of a head
  double tail = 0;         // of the work of one block of queries that all multiprocessors wait for at the end
};

struct FusedAttention {
  AttentionFit forward, backward;
};

struct Calibration {
  std::string name;  // of its file
  std::string device, precision;
  // "measured by us: ...", "measured by others: ..." or "derived: ...". Where a file says none: measured by the others
  // whom its source names up to the first comma.
  std::string evidence;
  std::string source;
  double peak = 0;              // FLOP/s
  double memory_bandwidth = 0;  // bytes/s
  int multiprocessors = 0;
  Bytes element{4};  // of a tensor's number: 4 in fp32, 2 in fp16 and bf16
  KernelFit products;
  std::optional<ConvolutionFits> convolutions;  // absent: none were measured
  std::optional<FusedAttention> attention;      // absent: attention is products and softmax
  double stream_share = 0.8;                    // of the bandwidth that a kernel reaches which only reads and writes
  double norm_share = 0.8, activation_share = 0.8;  // the same of normalisations and of activations
  Seconds stream_gap{5e-6};
  Seconds host_gap;                // that the host takes to start a kernel; 0: never more than the kernel itself
  bool blocking_launches = false;  // the host waits for a kernel before it starts the next (CUDA_LAUNCH_BLOCKING)
  std::vector<std::string> cautions;
  bool is_16_bit() const { return element < Bytes(4); }
};

// Throws InputError with file and JSON pointer.
Calibration calibration_from_json(const Json& json, const std::string& where);

// `name`: of a file in `folder` (workloads/devices) without its ending. Throws InputError.
Calibration load_calibration(const std::string& name, const std::string& folder);

}  // namespace sluice
