// The simplified U-Net of torchgpipe's benchmarks (Kim et al., arXiv 2004.09910; Ronneberger et al., MICCAI 2015): five
// levels down and up again with a skip at each, at full size for the virtual clock. Each skip crosses all cuts between
// its ends.
#include <vector>

#include "workloads/models/models.h"

namespace sluice {

namespace {

class UNet {
 public:
  UNet(int convolutions, std::vector<int>* unit_of_layer)
      : b_("unet", {.shape = {3, 192, 192}}), convolutions_(convolutions), unit_of_layer_(unit_of_layer) {}

  ModelGraph build(std::int64_t channels) {
    constexpr int kLevels = 5;
    const std::int64_t c = channels;
    std::vector<int> skips;
    for (int level = 0; level < kLevels; ++level) {
      cell(level == 0 ? 3 : c << (level - 1), c << level, c << level);
      skips.push_back(b_.last());
      ++unit_;  // the layer that hands the skip on
      add("pool", Pool2d{});
    }
    cell(c << (kLevels - 1), c << kLevels, c << (kLevels - 1));
    for (int level = kLevels - 1; level >= 0; --level) {
      const int up = add("up", Upsample{});
      add("concat", Concat{}, {up, skips[static_cast<std::size_t>(level)]});
      const std::int64_t out = (c << level) / 2;
      cell(c << (level + 1), out, out);
    }
    add("segment", Conv2d{.in = c / 2, .out = 1, .kernel = 1, .bias = false});
    --unit_;  // the loss belongs to the last layer
    add("loss", BinaryCrossEntropyLoss{});
    return b_.finish();
  }

 private:
  int add(const char* kind, LayerKind layer) { return add(kind, std::move(layer), {b_.last()}); }
  int add(const char* kind, LayerKind layer, std::vector<int> inputs) {
    const int index = b_.add(kind + std::to_string(count_++), std::move(layer), std::move(inputs));
    if (unit_of_layer_) unit_of_layer_->push_back(unit_);
    ++unit_;
    return index;
  }

  // Convolutions from `in` to `middle` channels, to as many again, and to `out` at last; after each whole channels are
  // dropped, and the rest normalised.
  void cell(std::int64_t in, std::int64_t middle, std::int64_t out) {
    for (int k = 0; k < convolutions_; ++k) {
      const std::int64_t made = k + 1 < convolutions_ ? middle : out;
      add("conv", Conv2d{.in = k == 0 ? in : middle, .out = made, .kernel = 3, .padding = 1, .bias = false});
      add("dropout", Dropout{.probability = 0.1, .channels = true});
      add("norm", InstanceNorm{made});
      add("relu", Activation{Activation::Kind::leaky_relu});
    }
    b_.next_block();
  }

  ChainBuilder b_;
  const int convolutions_;
  std::vector<int>* unit_of_layer_;
  int unit_ = 0, count_ = 0;
};

}  // namespace

ModelGraph unet(int convolutions, std::int64_t channels, std::vector<int>* unit_of_layer) {
  return UNet(convolutions, unit_of_layer).build(channels);
}

}  // namespace sluice
