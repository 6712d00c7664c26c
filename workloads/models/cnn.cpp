// Convolutional networks: two that train here in minutes, and VGG-16 and VGG-19 (Simonyan and Zisserman, ICLR 2015,
// configurations D and E) at full size for the virtual clock.
#include "workloads/models/models.h"

namespace sluice {

namespace {

void conv_relu(ChainBuilder& b, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
               std::int64_t stride, std::int64_t padding) {
  b.add("conv" + name, Conv2d{.in = in, .out = out, .kernel = kernel, .stride = stride, .padding = padding});
  b.add("relu" + name, Activation{});
  b.next_block();
}

void linear_relu(ChainBuilder& b, const std::string& name, std::int64_t in, std::int64_t out) {
  b.add("linear" + name, Linear{in, out});
  b.add("relu_" + name, Activation{});
  b.next_block();
}

}  // namespace

ModelGraph small_cnn(Shape image, int classes) {
  const std::int64_t h = image[1], w = image[2];
  ChainBuilder b("small_cnn", {.shape = image});
  // Strides instead of pooling: fewer layers, the same sizes.
  conv_relu(b, "1", image[0], 16, 5, 2, 2);
  conv_relu(b, "2", 16, 32, 3, 1, 1);
  conv_relu(b, "3", 32, 32, 3, 2, 1);
  conv_relu(b, "4", 32, 32, 3, 1, 1);
  b.add("flatten", Flatten{});
  const auto half = [](std::int64_t n) { return (n + 1) / 2; };
  linear_relu(b, "1", 32 * half(half(h)) * half(half(w)), 128);
  linear_relu(b, "2", 128, 64);
  b.add("linear3", Linear{64, classes});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

ModelGraph deep_cnn(Shape image, int classes) {
  ChainBuilder b("deep_cnn", {.shape = image});
  std::int64_t in = image[0], h = image[1], w = image[2];
  int number = 0;
  for (const std::int64_t width : {16, 32, 64}) {
    for (int k = 0; k < 3; ++k) {
      const std::string name = std::to_string(++number);
      b.add("conv" + name, Conv2d{.in = in, .out = width, .kernel = 3, .stride = 1, .padding = 1, .bias = false});
      b.add("norm" + name, BatchNorm{width});
      b.add("relu" + name, Activation{});
      b.next_block();
      in = width;
    }
    b.add("pool" + std::to_string(number), Pool2d{.mode = Pool2d::Mode::max, .kernel = 2, .stride = 2});
    h /= 2;
    w /= 2;
  }
  b.add("flatten", Flatten{});
  linear_relu(b, "1", in * h * w, 128);
  b.add("linear2", Linear{128, classes});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

// groups: width and number of convolutions between two poolings.
static ModelGraph vgg(const std::string& name, const std::vector<std::pair<std::int64_t, int>>& groups, bool dropout) {
  ChainBuilder b(name, {.shape = {3, 224, 224}});
  std::int64_t in = 3;
  int number = 0;
  for (const auto& [width, convolutions] : groups) {
    for (int k = 0; k < convolutions; ++k) {
      conv_relu(b, std::to_string(++number), in, width, 3, 1, 1);
      in = width;
    }
    b.add("pool" + std::to_string(number), Pool2d{});
  }
  b.add("flatten", Flatten{});
  linear_relu(b, "1", 512 * 7 * 7, 4096);
  if (dropout) b.add("dropout1", Dropout{0.5});
  linear_relu(b, "2", 4096, 4096);
  if (dropout) b.add("dropout2", Dropout{0.5});
  b.add("linear3", Linear{4096, 1000});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

ModelGraph vgg16(bool dropout) { return vgg("vgg16", {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}, dropout); }

ModelGraph vgg19() { return vgg("vgg19", {{64, 2}, {128, 2}, {256, 4}, {512, 4}, {512, 4}}, false); }

}  // namespace sluice
