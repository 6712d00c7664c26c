// The kernels that a layer's passes are on a calibrated device, and what they take (kernel_times.h). Each layer is the
// kernels that cuBLAS, cuDNN and a framework that runs a kernel an operation make of it:
//
//   linear layers        one product a pass; the bias is added within it, its gradient is a sum of its own
//   attention            products for the projections (q, k and v together), scores and values; scaling and softmax
//                        are kernels over all pairs, causal or not. Backward the scores, which are not kept, once more
//     in 16 bit          copies of q, k, v and the output between the layouts of rows and of heads; then, fused, one
//                        kernel a pass, which with a causal mask skips pairs; otherwise scaling, mask and softmax in
//                        one kernel, and the scores are kept
//   gradients, 16 bit    are added to those of earlier micro-batches by a kernel of their own; fp32 ones by the product
//                        that makes them. An embedding's are dense: filled with zeros first
//   cross entropy,       logits are cast to fp32; max, subtraction, exp, sum and division are kernels of their own.
//     16 bit             Backward the gradient is scaled and cast back
//   LSTM                 one product for all steps' inputs, then for every step a product and a kernel of the gates
//   convolutions         one kernel a pass; a transposed one's forward is the input gradient of the one it transposes
//   patch embedding      a copy that lays every patch in a row, and a product
//   experts              a batched product a matrix and pass, copies that gather rows by expert and add them up, and a
//                        kernel each for scores, f, gate and weights; every expert has the same number of rows
//   a Module             a square product of the FLOP that its file declares, and a stream of inputs and output
//   all others           kernels that read and write what they must once; normalisations read twice backward
#pragma once

#include <map>
#include <span>

#include "harness/model/calibration.h"
#include "harness/model/kernel_times.h"
#include "harness/model/layer_spec.h"

namespace sluice {

struct PassKernels {
  Seconds seconds;  // one after the other
  double count = 0;
};

struct LayerKernels {
  PassKernels forward, input_gradient, weight_gradient;
};

// Of one calibration: the layers of a model ask for the same few again and again.
using KnownProducts = std::map<Product, Seconds>;

// inputs: shapes of one sample. storage: what attention keeps, and the bytes of gradients. known: read and added to.
LayerKernels layer_kernels(const LayerSpec& layer, std::span<const Shape> inputs, std::int64_t samples,
                           const Calibration& calibration, const Storage& storage, KnownProducts& known);
LayerKernels layer_kernels(const LayerSpec& layer, std::span<const Shape> inputs, std::int64_t samples,
                           const Calibration& calibration, const Storage& storage = {});

// What a pass takes: its kernels, or as long as the host takes to start them; both where it waits for each of them.
Seconds pass_seconds(const PassKernels& pass, Seconds host_gap, bool blocking_launches = false);

}  // namespace sluice
