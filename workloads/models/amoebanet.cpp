// AmoebaNet-D (Real et al., AAAI 2019) as GPipe trains it (Huang et al., NeurIPS 2019) and torchgpipe's benchmarks
// declare it: every cell reads the outputs of the two before it, so that two tensors cross every cut between cells.
// What that code calls max pooling over 3 x 3 it implements as average pooling, and so does this.
#include <functional>

#include "workloads/models/models.h"

namespace sluice {

namespace {

class AmoebaNet {
 public:
  AmoebaNet(int layers, std::int64_t filters, int classes, std::vector<int>* cell_of_layer)
      : b_("amoebanet_d", {.shape = {3, 224, 224}}), cell_of_layer_(cell_of_layer) {
    const std::int64_t d = filters;
    const int stem = convolution(-1, 3, d / 4, 3, 3, 2);
    outputs_ = {{stem, d / 4}, {stem, d / 4}};
    end_cell();
    cell(d / 2, true);
    cell(d, true);
    for (const std::int64_t c : {d, 2 * d, 4 * d}) {
      if (c > d) cell(c, true);
      for (int k = 0; k < layers / 3; ++k) cell(c, false);
    }
    b_.add("pool", Pool2d{.mode = Pool2d::Mode::global_average}, {outputs_[0].layer});
    b_.add("flatten", Flatten{});
    b_.add("linear", Linear{outputs_[0].channels, classes});
    b_.add("loss", CrossEntropyLoss{});
    end_cell();
  }

  ModelGraph finish() { return b_.finish(); }

 private:
  struct State {
    int layer;
    std::int64_t channels;
  };
  using Op = std::function<int(int state, std::int64_t stride)>;

  std::string name(const std::string& kind) { return kind + std::to_string(count_++); }

  void end_cell() {
    b_.next_block();
    if (cell_of_layer_) cell_of_layer_->resize(static_cast<std::size_t>(b_.last()) + 1, cell_);
    ++cell_;
  }

  // ReLU, convolution without bias, batch norm.
  int convolution(int input, std::int64_t in, std::int64_t out, std::int64_t height, std::int64_t width,
                  std::int64_t stride) {
    const int positive = b_.add(name("relu"), Activation{}, {input});
    b_.add(name("conv"),
           Conv2d{.in = in,
                  .out = out,
                  .kernel = height,
                  .stride = stride,
                  .padding = height / 2,
                  .bias = false,
                  .kernel_w = width,
                  .padding_w = width / 2},
           {positive});
    return b_.add(name("norm"), BatchNorm{out});
  }

  int pool(int input, Pool2d::Mode mode, std::int64_t size, std::int64_t stride) {
    return b_.add(name("pool"), Pool2d{.mode = mode, .kernel = size, .stride = stride, .padding = (size - 1) / 2},
                  {input});
  }

  int sum(int a, int b) { return b_.add(name("add"), Add{}, {a, b}); }

  // Halves height and width: two 1 x 1 convolutions with stride 2, side by side.
  int factorised_reduction(int input, std::int64_t in, std::int64_t out) {
    const int positive = b_.add(name("relu"), Activation{}, {input});
    std::vector<int> halves;
    for (int half = 0; half < 2; ++half)
      halves.push_back(
          b_.add(name("conv"), Conv2d{.in = in, .out = out / 2, .kernel = 1, .stride = 2, .bias = false}, {positive}));
    b_.add(name("concat"), Concat{}, halves);
    return b_.add(name("norm"), BatchNorm{out});
  }

  int bottleneck_3x3(int input, std::int64_t c, std::int64_t stride) {
    const int narrow = convolution(input, c, c / 4, 1, 1, 1);
    const int middle = convolution(narrow, c / 4, c / 4, 3, 3, stride);
    return convolution(middle, c / 4, c, 1, 1, 1);
  }

  // Stride 2 falls on both of the long convolutions in turn: the 1 x 7 one across, the 7 x 1 one along.
  int bottleneck_1x7_7x1(int input, std::int64_t c) {
    const int narrow = convolution(input, c, c / 4, 1, 1, 1);
    const int across = convolution(narrow, c / 4, c / 4, 1, 7, 1);
    const int along = convolution(across, c / 4, c / 4, 7, 1, 1);
    return convolution(along, c / 4, c, 1, 1, 1);
  }

  void cell(std::int64_t c, bool reduction) {
    using enum Pool2d::Mode;
    const State before = outputs_[0], earlier = outputs_[1];
    const int s0 = convolution(before.layer, before.channels, c, 1, 1, 1);
    int s1 = earlier.layer;
    if (after_reduction_)
      s1 = factorised_reduction(earlier.layer, earlier.channels, c);
    else if (earlier.channels != c)
      s1 = convolution(earlier.layer, earlier.channels, c, 1, 1, 1);
    State output{};
    if (reduction) {
      const int s2 = sum(pool(s0, max, 2, 2), pool(s0, average, 3, 2));
      const int s3 = sum(s2, bottleneck_3x3(s1, c, 2));
      const int s4 = sum(bottleneck_1x7_7x1(s2, c), pool(s2, average, 3, 1));
      const int s5 = sum(s3, pool(s1, max, 2, 2));
      const int s6 = sum(pool(s2, average, 3, 1), convolution(s3, c, c, 1, 1, 1));
      output = {b_.add(name("concat"), Concat{}, {s4, s5, s6}), 3 * c};
    } else {
      const int s2 = sum(convolution(s1, c, c, 1, 1, 1), pool(s1, average, 3, 1));
      const int s3 = sum(s1, bottleneck_1x7_7x1(s0, c));
      const int s4 = sum(convolution(s0, c, c, 1, 1, 1), bottleneck_1x7_7x1(s0, c));
      const int s5 = sum(pool(s2, average, 3, 1), s2);
      const int s6 = sum(pool(s1, average, 3, 1), convolution(s5, c, c, 1, 1, 1));
      output = {b_.add(name("concat"), Concat{}, {s0, s3, s4, s6}), 4 * c};
    }
    outputs_ = {output, before};
    after_reduction_ = reduction;
    end_cell();
  }

  ChainBuilder b_;
  std::vector<int>* cell_of_layer_;
  std::vector<State> outputs_;  // of the last cell and of the one before it
  bool after_reduction_ = false;
  int cell_ = 0, count_ = 0;
};

}  // namespace

ModelGraph amoebanet_d(int layers, std::int64_t filters, int classes, std::vector<int>* cell_of_layer) {
  return AmoebaNet(layers, filters, classes, cell_of_layer).finish();
}

}  // namespace sluice
