// Residual networks of bottleneck blocks (He et al., CVPR 2016, arXiv 1512.03385), 224 x 224, 1000 classes, at full
// size for the virtual clock. As usual since, a block's 3 x 3 convolution has the stride.
#include <vector>

#include "workloads/models/models.h"

namespace sluice {

static int convolution(ChainBuilder& b, const std::string& name, int input, std::int64_t in, std::int64_t out,
                       std::int64_t kernel, std::int64_t stride) {
  b.add("conv" + name,
        Conv2d{.in = in, .out = out, .kernel = kernel, .stride = stride, .padding = kernel / 2, .bias = false},
        {input});
  return b.add("norm" + name, BatchNorm{out});
}

// 1 x 1 down to `width`, 3 x 3, 1 x 1 up to 4 `width`; added to the input, which a 1 x 1 convolution brings to the same
// shape where it has another.
static void bottleneck(ChainBuilder& b, const std::string& name, std::int64_t in, std::int64_t width,
                       std::int64_t stride) {
  const int input = b.last();
  convolution(b, name + "a", input, in, width, 1, 1);
  const int first = b.add("relu" + name + "a", Activation{});
  convolution(b, name + "b", first, width, width, 3, stride);
  const int second = b.add("relu" + name + "b", Activation{});
  const int third = convolution(b, name + "c", second, width, 4 * width, 1, 1);
  const bool same = in == 4 * width && stride == 1;
  const int shortcut = same ? input : convolution(b, name + "_shortcut", input, in, 4 * width, 1, stride);
  b.add("add" + name, Add{}, {third, shortcut});
  b.add("relu" + name, Activation{});
  b.next_block();
}

static ModelGraph resnet(const std::string& model, const std::vector<int>& blocks) {
  ChainBuilder b(model, {.shape = {3, 224, 224}});
  convolution(b, "1", -1, 3, 64, 7, 2);
  b.add("relu1", Activation{});
  b.add("pool1", Pool2d{.kernel = 3, .stride = 2, .padding = 1});
  b.next_block();
  std::int64_t in = 64, width = 64;
  for (std::size_t group = 0; group < blocks.size(); ++group, width *= 2)
    for (int k = 0; k < blocks[group]; ++k) {
      const std::string name = std::to_string(group + 2) + "_" + std::to_string(k + 1);
      bottleneck(b, name, in, width, group > 0 && k == 0 ? 2 : 1);
      in = 4 * width;
    }
  b.add("pool", Pool2d{.mode = Pool2d::Mode::global_average});
  b.add("flatten", Flatten{});
  b.add("linear", Linear{in, 1000});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

ModelGraph resnet50() { return resnet("resnet50", {3, 4, 6, 3}); }
ModelGraph resnet101() { return resnet("resnet101", {3, 4, 23, 3}); }
ModelGraph resnet152() { return resnet("resnet152", {3, 8, 36, 3}); }

}  // namespace sluice
