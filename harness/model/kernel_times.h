// Seconds of single kernels on a device, from its calibration: matrix products and convolutions by their shapes, all
// others by the bytes that they read and write.
//
// A product of B matrices, M x N with reduction K, is computed in tiles of Tm x Tn, whose reduction may be split into s
// parts. For every tile and split (those of cuBLAS's and cuDNN's kernels: kernel_times.cpp), with x = the number of
// tiles over the number of multiprocessors and I = Tm Tn / (Tm + Tn), a tile's FLOPs over its loads,
//
//   waves   = (1 - quantisation) max(1, x) + quantisation ceil(x)
//   reached = peak peak_share min(1, I / (I + h) (64 + h) / 64),   h = half_intensity; 64: I of the tile 128 x 128
//   compute = waves 2 Tm Tn (ceil(K / s) + prologue) multiprocessors / reached
//   memory  = bytes / (bandwidth bandwidth_share)
//   seconds = max(compute, memory) + (split: 8 s B M N bytes more, written and read) + gap
//
// and the least of these counts; corrections (calibration.h) then multiply it. A convolution is the product that it
// implies, with the bytes of its tensors alone; one with a window of 3 x 3 and stride 1 may run as a transform
// (Winograd's, say), whose reduction is gain_3x3 shorter. Where a calibration has no convolutions, they take what the
// products that they imply take, corrections included, with the bytes of their own tensors and no transform.
#pragma once

#include <cstdint>

#include "harness/model/calibration.h"

namespace sluice {

struct Product {
  double batch = 1, m = 0, n = 0, k = 0;  // k: the reduction
  friend auto operator<=>(const Product&, const Product&) = default;
};
Seconds product_seconds(const Calibration& calibration, const Product& product);

// Of `images` images; in, out: channels; groups divide both.
struct Convolution {
  double images = 1, in = 0, height = 0, width = 0, out = 0, out_height = 0, out_width = 0;
  double kernel_height = 1, kernel_width = 1, stride = 1, stride_across = 1, groups = 1;
};
enum class ConvolutionPass { forward, input_gradient, weight_gradient };
Seconds convolution_seconds(const Calibration& calibration, ConvolutionPass pass, const Convolution& convolution);

// Fused attention over `pairs` of a query and a key, of all heads and samples, each a dot product of `width`. A query
// meets at most `keys`; `bytes` are read and written.
struct AttentionWork {
  double pairs = 0, width = 0, keys = 0, bytes = 0;
};
// With n = 2 products forward, 5 backward, P multiprocessors, blocks of 128 queries, the last of which may run alone:
//   compute = 2 n (pairs / P + tail 128 keys) (width + extra) 128 / (128 + extra) / (peak share / P) + gap
// or what the bytes take, if that is longer. Throws InputError where the calibration has none.
Seconds fused_attention_seconds(const Calibration& calibration, bool backward, const AttentionWork& work);

// Of a kernel that reads and writes `bytes` bytes in all.
Seconds stream_seconds(const Calibration& calibration, double bytes);

}  // namespace sluice
