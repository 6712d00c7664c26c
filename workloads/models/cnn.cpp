// Convolutional networks: two that train here in minutes, and, at full size for the virtual clock, AlexNet (Krizhevsky,
// arXiv 1404.5997, as torchvision has it), GoogLeNet (Szegedy et al., CVPR 2015, arXiv 1409.4842), VGG-16 and VGG-19
// (Simonyan and Zisserman, ICLR 2015, configurations D and E).
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

ModelGraph alexnet() {
  ChainBuilder b("alexnet", {.shape = {3, 224, 224}});
  const auto pool = [&](const std::string& name) { b.add("pool" + name, Pool2d{.kernel = 3, .stride = 2}); };
  conv_relu(b, "1", 3, 64, 11, 4, 2);
  pool("1");
  conv_relu(b, "2", 64, 192, 5, 1, 2);
  pool("2");
  conv_relu(b, "3", 192, 384, 3, 1, 1);
  conv_relu(b, "4", 384, 256, 3, 1, 1);
  conv_relu(b, "5", 256, 256, 3, 1, 1);
  pool("5");
  b.add("flatten", Flatten{});
  linear_relu(b, "1", 256L * 6 * 6, 4096);
  linear_relu(b, "2", 4096, 4096);
  b.add("linear3", Linear{4096, 1000});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

namespace {

// The widths of an inception block: 1 x 1; 1 x 1 before 3 x 3; 1 x 1 before 5 x 5; 1 x 1 after the pool.
struct InceptionBlock {
  std::int64_t one, before_three, three, before_five, five, pooled;
  std::int64_t width() const { return one + three + five + pooled; }
};

void inception_block(ChainBuilder& b, const std::string& name, std::int64_t in, const InceptionBlock& k) {
  const int input = b.last();
  const auto convolution = [&](const std::string& branch, int from, std::int64_t width, std::int64_t out,
                               std::int64_t kernel) {
    b.add("conv" + name + branch, Conv2d{.in = width, .out = out, .kernel = kernel, .padding = kernel / 2}, {from});
    return b.add("relu" + name + branch, Activation{});
  };
  const int one = convolution("_1", input, in, k.one, 1);
  const int three = convolution("_3", convolution("_3a", input, in, k.before_three, 1), k.before_three, k.three, 3);
  const int five = convolution("_5", convolution("_5a", input, in, k.before_five, 1), k.before_five, k.five, 5);
  const int pool = b.add("pool" + name, Pool2d{.kernel = 3, .stride = 1, .padding = 1}, {input});
  const int pooled = convolution("_p", pool, in, k.pooled, 1);
  b.add("concat" + name, Concat{}, {one, three, five, pooled});
  b.next_block();
}

}  // namespace

ModelGraph googlenet() {
  ChainBuilder b("googlenet", {.shape = {3, 224, 224}});
  const auto halve = [&](const std::string& name) {
    b.add("pool" + name, Pool2d{.kernel = 3, .stride = 2, .padding = 1});
  };
  conv_relu(b, "1", 3, 64, 7, 2, 3);
  halve("1");
  conv_relu(b, "2", 64, 64, 1, 1, 0);
  conv_relu(b, "3", 64, 192, 3, 1, 1);
  halve("2");
  std::int64_t in = 192;
  const std::vector<std::pair<std::string, InceptionBlock>> blocks = {
      {"3a", {64, 96, 128, 16, 32, 32}},     {"3b", {128, 128, 192, 32, 96, 64}},
      {"4a", {192, 96, 208, 16, 48, 64}},    {"4b", {160, 112, 224, 24, 64, 64}},
      {"4c", {128, 128, 256, 24, 64, 64}},   {"4d", {112, 144, 288, 32, 64, 64}},
      {"4e", {256, 160, 320, 32, 128, 128}}, {"5a", {256, 160, 320, 32, 128, 128}},
      {"5b", {384, 192, 384, 48, 128, 128}}};
  for (const auto& [name, widths] : blocks) {
    inception_block(b, name, in, widths);
    in = widths.width();
    if (name == "3b" || name == "4e") halve("_after_" + name);
  }
  b.add("pool", Pool2d{.mode = Pool2d::Mode::global_average});
  b.add("flatten", Flatten{});
  b.add("linear", Linear{in, 1000});
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
  linear_relu(b, "1", 512L * 7 * 7, 4096);
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
