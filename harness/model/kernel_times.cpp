#include "harness/model/kernel_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/error.h"

namespace sluice {

namespace {

struct Tile {
  double rows, columns;
};
constexpr Tile kTiles[] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64},
                           {64, 32},   {32, 64},   {32, 128},  {128, 32}, {32, 32}};
constexpr double kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16, 32};
constexpr double kMinPart = 48;        // of a reduction that is split
constexpr double kFullIntensity = 64;  // of the tile 128 x 128
constexpr double kChannelsToTransform = 16;
constexpr double kQueriesOfABlock = 128, kFullHead = 128;  // of fused attention

// What a product reads and writes, and what it writes and reads once more for every part of a split reduction.
struct Traffic {
  double bytes, bytes_of_a_part;
};

double tile_share(const KernelFit& fit, const Tile& tile) {
  const double intensity = tile.rows * tile.columns / (tile.rows + tile.columns), half = fit.half_intensity;
  return std::min(1.0, intensity / (intensity + half) * (kFullIntensity + half) / kFullIntensity);
}

// Without the gap.
double min_seconds(const Calibration& c, const KernelFit& fit, const Product& p, const Traffic& traffic) {
  const double prologue = p.k < fit.short_below ? fit.short_prologue : fit.prologue;
  const double processors = c.multiprocessors, bandwidth = c.memory_bandwidth * fit.bandwidth_share;
  const double moving = traffic.bytes / bandwidth;
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double reached = c.peak * fit.peak_share * tile_share(fit, tile);
    const double tiles = p.batch * std::ceil(p.m / tile.rows) * std::ceil(p.n / tile.columns);
    for (const double parts : kSplits) {
      if (parts > 1 && p.k / parts < kMinPart) break;
      const double again = parts > 1 ? parts * traffic.bytes_of_a_part / bandwidth : 0;
      if (moving + again >= least) break;  // nor is any with more parts faster
      const double each = tiles * parts / processors;
      const double waves = (1 - fit.quantisation) * std::max(1.0, each) + fit.quantisation * std::ceil(each);
      const double steps = std::ceil(p.k / parts) + prologue;
      const double compute = waves * 2 * tile.rows * tile.columns * steps * processors / reached;
      least = std::min(least, std::max(compute, moving) + again);
    }
  }
  return least;
}

double correction(const ShapeCorrections& c, const Product& p) {
  const double batch = std::log2(p.batch), m = std::log2(p.m), n = std::log2(p.n), k = std::log2(p.k);
  const auto squared = [](double distance) { return distance * distance; };
  double sum = 0;
  for (const ShapeCorrections::Shape& s : c.shapes)
    sum += s.weight * std::exp(-(squared((batch - s.log2_batch) / c.batch_length) +
                                 (squared(m - s.log2_m) + squared(n - s.log2_n)) / squared(c.side_length) +
                                 squared((k - s.log2_k) / c.reduction_length)) /
                               2);
  return std::exp(sum);
}

// The product that a pass implies. Of an input gradient with stride s, every s-th element of the window meets a pixel.
Product implied_product(ConvolutionPass pass, const Convolution& c) {
  const double window = c.kernel_height * c.kernel_width, in = c.in / c.groups, out = c.out / c.groups;
  const double made = c.images * c.out_height * c.out_width;
  switch (pass) {
    case ConvolutionPass::forward:
      return {c.groups, made, out, in * window};
    case ConvolutionPass::input_gradient:
      return {c.groups, c.images * c.height * c.width, in,
              std::max(1.0, std::floor(out * window / (c.stride * c.stride_across)))};
    case ConvolutionPass::weight_gradient:
      break;
  }
  return {c.groups, out, in * window, made};
}

const KernelFit& fit_of_pass(const ConvolutionFits& fits, ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return fits.forward;
    case ConvolutionPass::input_gradient:
      return fits.input_gradient;
    case ConvolutionPass::weight_gradient:
      break;
  }
  return fits.weight_gradient;
}

}  // namespace

Seconds product_seconds(const Calibration& c, const Product& p) {
  const double bytes = static_cast<double>(c.element.value) * p.batch * (p.m * p.k + p.k * p.n + p.m * p.n);
  const Seconds seconds = Seconds(min_seconds(c, c.products, p, {bytes, 8 * p.batch * p.m * p.n})) + c.products.gap;
  return c.products.corrections ? seconds * correction(*c.products.corrections, p) : seconds;
}

Seconds convolution_seconds(const Calibration& c, ConvolutionPass pass, const Convolution& v) {
  const KernelFit& fit = c.convolutions ? fit_of_pass(*c.convolutions, pass) : c.products;
  const double window = v.kernel_height * v.kernel_width;
  const double numbers = v.images * v.in * v.height * v.width + v.in / v.groups * v.out * window +
                         v.images * v.out * v.out_height * v.out_width;
  const Traffic traffic{static_cast<double>(c.element.value) * numbers, 0};
  Product product = implied_product(pass, v);
  double seconds = min_seconds(c, fit, product, traffic);
  const bool transforms = v.kernel_height == 3 && v.kernel_width == 3 && v.stride == 1 && v.stride_across == 1 &&
                          v.in / v.groups >= kChannelsToTransform;
  if (transforms) {
    product.k = std::ceil(product.k / fit.gain_3x3);
    seconds = std::min(seconds, min_seconds(c, fit, product, traffic));
  }
  const Seconds whole = Seconds(seconds) + fit.gap;
  return fit.corrections ? whole * correction(*fit.corrections, product) : whole;
}

Seconds fused_attention_seconds(const Calibration& c, bool backward, const AttentionWork& work) {
  if (!c.attention) throw InputError("calibration '" + c.name + "'", "has no fused attention on " + c.device);
  const AttentionFit& fit = backward ? c.attention->backward : c.attention->forward;
  const double pairs = work.pairs + fit.tail * kQueriesOfABlock * work.keys * c.multiprocessors;
  const double width = (work.width + fit.extra_width) * kFullHead / (kFullHead + fit.extra_width);
  const Seconds products((backward ? 5 : 2) * 2 * pairs * width / (c.peak * fit.share));
  return std::max(products + c.products.gap, stream_seconds(c, work.bytes));
}

Seconds stream_seconds(const Calibration& c, double bytes) {
  return Seconds(bytes / (c.memory_bandwidth * c.stream_share)) + c.stream_gap;
}

}  // namespace sluice
