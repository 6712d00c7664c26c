// Inception-V3 (Szegedy et al., CVPR 2016, arXiv 1512.00567), 299 x 299, 1000 classes, without the auxiliary
// classifier, at full size for the virtual clock; widths as torchvision has them. Blocks are parallel branches whose
// outputs are concatenated.
#include <utility>
#include <vector>

#include "workloads/models/models.h"

namespace sluice {

namespace {

struct Kernel {
  std::int64_t h, w, stride = 1;
  bool padded = true;  // to keep the size, at stride 1
};
constexpr Kernel k1x1{1, 1}, k3x3{3, 3}, k5x5{5, 5}, k1x7{1, 7}, k7x1{7, 1}, k1x3{1, 3}, k3x1{3, 1};
constexpr Kernel kHalving{3, 3, 2, false}, kShrinking{3, 3, 1, false};

using Branch = std::vector<std::pair<std::int64_t, Kernel>>;  // width and kernel, one after another

class Inception {
 public:
  Inception() : b_("inception_v3", {.shape = {3, 299, 299}}) {}

  ModelGraph build() {
    chain(-1, 3, {{32, kHalving}, {32, kShrinking}, {64, k3x3}});
    b_.add("pool1", Pool2d{.kernel = 3, .stride = 2});
    chain(b_.last(), 64, {{80, k1x1}, {192, kShrinking}});
    b_.add("pool2", Pool2d{.kernel = 3, .stride = 2});
    b_.next_block();
    std::int64_t in = 192;
    for (const std::int64_t pooled : {32, 64, 64})
      in = block(in, {{{64, k1x1}}, {{48, k1x1}, {64, k5x5}}, {{64, k1x1}, {96, k3x3}, {96, k3x3}}}, pooled);
    in = block(in, {{{384, kHalving}}, {{64, k1x1}, {96, k3x3}, {96, kHalving}}}, 0);
    for (const std::int64_t w : {128, 160, 160, 192})
      in = block(in,
                 {{{192, k1x1}},
                  {{w, k1x1}, {w, k1x7}, {192, k7x1}},
                  {{w, k1x1}, {w, k7x1}, {w, k1x7}, {w, k7x1}, {192, k1x7}}},
                 192);
    in = block(in, {{{192, k1x1}, {320, kHalving}}, {{192, k1x1}, {192, k1x7}, {192, k7x1}, {192, kHalving}}}, 0);
    for (int k = 0; k < 2; ++k) in = forked_block(in);
    b_.add("pool", Pool2d{.mode = Pool2d::Mode::global_average});
    b_.add("flatten", Flatten{});
    b_.add("linear", Linear{in, 1000});
    b_.add("loss", CrossEntropyLoss{});
    return b_.finish();
  }

 private:
  int convolution(int input, std::int64_t in, std::int64_t out, const Kernel& k) {
    const std::string name = std::to_string(++number_);
    b_.add("conv" + name,
           Conv2d{.in = in,
                  .out = out,
                  .kernel = k.h,
                  .stride = k.stride,
                  .padding = k.padded ? k.h / 2 : 0,
                  .bias = false,
                  .kernel_w = k.w,
                  .padding_w = k.padded ? k.w / 2 : 0},
           {input});
    b_.add("norm" + name, BatchNorm{.features = out, .epsilon = 1e-3});
    return b_.add("relu" + name, Activation{});
  }

  int chain(int input, std::int64_t in, const Branch& branch) {
    for (const auto& [width, kernel] : branch) {
      input = convolution(input, in, width, kernel);
      in = width;
    }
    return input;
  }

  // The branches, and one that pools: to `pooled` channels, or (0) halving the image like the others. Returns the width
  // of all of them.
  std::int64_t block(std::int64_t in, const std::vector<Branch>& branches, std::int64_t pooled) {
    const int input = b_.last();
    std::vector<int> outputs;
    std::int64_t width = 0;
    for (const Branch& branch : branches) {
      outputs.push_back(chain(input, in, branch));
      width += branch.back().first;
    }
    outputs.push_back(
        pooled > 0 ? pool_branch(input, in, pooled)
                   : b_.add("pool_block" + std::to_string(++blocks_), Pool2d{.kernel = 3, .stride = 2}, {input}));
    join(outputs);
    return width + (pooled > 0 ? pooled : in);
  }

  // Branches that end in a 1 x 3 and a 3 x 1 convolution side by side.
  std::int64_t forked_block(std::int64_t in) {
    const int input = b_.last();
    std::vector<int> outputs = {convolution(input, in, 320, k1x1)};
    const std::vector<Branch> stems = {{{384, k1x1}}, {{448, k1x1}, {384, k3x3}}};
    for (const Branch& stem : stems) {
      const int end = chain(input, in, stem);
      for (const Kernel& kernel : {k1x3, k3x1}) outputs.push_back(convolution(end, 384, 384, kernel));
    }
    outputs.push_back(pool_branch(input, in, 192));
    join(outputs);
    return 320 + 4 * 384 + 192;
  }

  int pool_branch(int input, std::int64_t in, std::int64_t out) {
    const int pool = b_.add("pool_block" + std::to_string(++blocks_),
                            Pool2d{.mode = Pool2d::Mode::average, .kernel = 3, .stride = 1, .padding = 1}, {input});
    return convolution(pool, in, out, k1x1);
  }

  void join(std::vector<int> outputs) {
    b_.add("concat" + std::to_string(blocks_), Concat{.axis = 0}, std::move(outputs));
    b_.next_block();
  }

  ChainBuilder b_;
  int number_ = 0, blocks_ = 0;
};

}  // namespace

ModelGraph inception_v3() { return Inception().build(); }

}  // namespace sluice
