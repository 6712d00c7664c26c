// The declared models: that they fit together, and their sizes by hand.
#include "workloads/models/models.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harness/base/expect_error.h"
#include "harness/model/sequence_chunks.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

const ModelGraph& model(const std::string& name) { return find_workload(name).model; }

TEST(Workloads, HaveUniqueNames) {
  std::set<std::string> names;
  for (const Workload& w : all_workloads()) EXPECT_TRUE(names.insert(w.name).second) << w.name;
  EXPECT_GE(names.size(), 10u);
}

TEST(Workloads, FitTogetherAndEndInOneNumber) {
  for (const Workload& w : all_workloads()) {
    SCOPED_TRACE(w.name);
    std::vector<Shape> shapes;
    ASSERT_NO_THROW(shapes = w.model.shapes());
    ASSERT_EQ(shapes.size(), w.model.layers.size());
    for (std::size_t l = 0; l + 1 < shapes.size(); ++l) EXPECT_GT(elements(shapes[l]), 0) << l;
    EXPECT_EQ(elements(shapes.back()), 1);
    EXPECT_FALSE(w.title.empty());
    EXPECT_FALSE(w.source.empty());
  }
}

TEST(Workloads, MicroBatchesDivideTheBatch) {
  for (const Workload& w : all_workloads()) {
    EXPECT_GT(w.microbatches, 0) << w.name;
    EXPECT_EQ(w.batch % w.microbatches, 0) << w.name;
  }
}

TEST(Workloads, BlocksAscendInStepsOfOne) {
  for (const Workload& w : all_workloads()) {
    if (!w.file.empty()) continue;  // may leave them out
    int block = 0;
    for (const LayerSpec& layer : w.model.layers) {
      EXPECT_TRUE(layer.block == block || layer.block == block + 1) << w.name << " " << layer.name;
      block = layer.block;
    }
  }
}

TEST(Workloads, TargetsAreNamedOnlyWhereThereIsData) {
  for (const Workload& w : all_workloads()) {
    if (w.dataset == "synthetic") {
      EXPECT_FALSE(w.target) << w.name;
      EXPECT_EQ(w.epochs, 0) << w.name;
    } else {
      EXPECT_GT(w.epochs, 0) << w.name;
      EXPECT_TRUE(w.metric == "accuracy" || w.metric == "perplexity") << w.name;
      EXPECT_EQ(w.metric_direction, w.metric == "accuracy" ? "up" : "down") << w.name;
    }
    if (w.target && w.single_device_value) {
      const double factor = w.metric_direction == "up" ? 0.98 : 1 / 0.98;
      EXPECT_NEAR(*w.target, factor * *w.single_device_value, 1e-3) << w.name;
    }
  }
}

TEST(Workloads, UnknownNameHasASuggestion) {
  EXPECT_EQ(error_of([] { find_workload("fmnist_cn", "here"); }),
            "here: unknown workload 'fmnist_cn'; did you mean 'fmnist_cnn'?");
  EXPECT_NE(error_of([] { find_workload("something else"); }).find("known: "), std::string::npos);
}

TEST(ParameterCount, Vgg16) { EXPECT_EQ(parameter_count(model("vgg16")), 138'357'544); }

// As torchvision publishes them.
TEST(ParameterCount, Vgg19) { EXPECT_EQ(parameter_count(model("vgg19")), 143'667'240); }
TEST(ParameterCount, VisionTransformers) {
  EXPECT_EQ(parameter_count(model("vit_base")), 86'567'656);  // torchvision's vit_b_16, vit_l_16; ViT-H/14 at 224
  EXPECT_EQ(parameter_count(model("vit_large")), 304'326'632);
  EXPECT_EQ(parameter_count(model("vit_huge")), 632'045'800);
}
TEST(ParameterCount, AlexNetAndResNets) {  // as torchvision publishes them
  EXPECT_EQ(parameter_count(model("alexnet")), 61'100'840);
  EXPECT_EQ(parameter_count(model("resnet50")), 25'557'032);
  EXPECT_EQ(parameter_count(model("resnet101")), 44'549'160);
}
TEST(ParameterCount, GoogLeNet) { EXPECT_EQ(parameter_count(model("googlenet")), 6'998'552); }  // BVLC's Caffe model
TEST(ParameterCount, AmoebaNetD) {  // 122.47 M by torchgpipe's definition
  EXPECT_EQ(std::llround(1e-4 * static_cast<double>(parameter_count(model("amoebanet_d")))), 12'247);
}
TEST(ParameterCount, UNet) {  // 232.69 M by torchgpipe's definition
  EXPECT_EQ(std::llround(1e-4 * static_cast<double>(parameter_count(model("unet")))), 23'269);
}
// XLNet-Large has 360,268,800 with a vector for masked words, and for segments three a layer, which are left out here
// (Hugging Face's XLNetModel, xlnet-large-cased). DAPPLE's profile of XLNet-36 has 2,003 MiB of parameters.
TEST(ParameterCount, XlNet) {
  constexpr std::int64_t kHidden = 1024, kLarge = 24, kLayers = 36, kVocabulary = 32'000;
  const std::int64_t head = (kHidden + 1) * kHidden + 2 * kHidden + 2;
  const std::int64_t layers = parameter_count(model("xlnet_36")) - head - kVocabulary * kHidden;
  EXPECT_EQ(layers % kLayers, 0);
  const std::int64_t with_segments = layers / kLayers + 3 * kHidden;
  EXPECT_EQ(kLarge * with_segments + kVocabulary * kHidden + kHidden, 360'268'800);
  EXPECT_NEAR(4.0 * static_cast<double>(kLayers * with_segments + kVocabulary * kHidden + head) / (1 << 20), 2003, 0.5);
}
// With a head of its own; 28.3B counts the embedding once.
TEST(ParameterCount, GptsOfZeroBubble) {
  const auto billions = [](const std::string& name, std::int64_t hidden) {
    return 1e-9 * static_cast<double>(parameter_count(model(name)) - 51'200 * hidden);
  };
  EXPECT_NEAR(billions("gpt_1.5b", 2304), 1.5, 0.05);
  EXPECT_NEAR(billions("gpt_14.6b", 5120), 14.6, 0.15);
  EXPECT_NEAR(billions("gpt_28.3b", 6144), 28.3, 0.15);
}
TEST(ParameterCount, ResNet152) { EXPECT_EQ(parameter_count(model("resnet152")), 60'192'808); }
TEST(ParameterCount, InceptionV3WithoutAuxiliaryClassifier) {
  EXPECT_EQ(parameter_count(model("inception_v3")), 23'834'568);
}

TEST(ParameterCount, Bert48) {
  const std::int64_t h = 1024;
  const std::int64_t embeddings = (30'522 + 512 + 2) * h + 2 * h;
  const std::int64_t pooler = h * h + h, classifier = 2 * h + 2;
  EXPECT_EQ(parameter_count(model("bert48")), embeddings + 48 * (12 * h * h + 13 * h) + pooler + classifier);
  // DAPPLE's profile of it says 2550 MB.
  EXPECT_EQ(std::llround(4e-6 * static_cast<double>(parameter_count(model("bert48")))), 2550);
  // 24 layers are BERT-Large: 335.1 M parameters with its pooler.
  EXPECT_EQ(parameter_count(bert("bert_large", 24, 1024, 16, 512, 30522)) - classifier, 335'141'888);
}

// Multiply-adds of one image's forward, as published: VGG-19 19.6 G, ResNet-152 11.5 G, Inception-V3 5.7 G.
TEST(FullSizeModels, WorkIsAsPublished) {
  const auto multiply_adds = [](const ModelGraph& m) {
    const std::vector<Shape> shapes = m.shapes();
    double total = 0;
    for (const LayerSpec& layer : m.layers) {
      std::vector<Shape> inputs;
      for (const int p : layer.inputs) inputs.push_back(p < 0 ? m.inputs[-1 - p].shape : shapes[p]);
      if (parameter_count(layer) > 0 && !std::holds_alternative<BatchNorm>(layer.kind))
        total += flops(layer, inputs).forward.value / 2;
    }
    return total;
  };
  EXPECT_NEAR(multiply_adds(model("vgg19")), 19.6e9, 0.05e9);
  EXPECT_NEAR(multiply_adds(model("resnet152")), 11.5e9, 0.05e9);
  EXPECT_NEAR(multiply_adds(model("inception_v3")), 5.7e9, 0.05e9);
}

TEST(FullSizeModels, EndWhereTheirPapersDo) {
  const auto shape_of = [](const std::string& name, const std::string& layer) {
    const ModelGraph& m = model(name);
    for (std::size_t l = 0; l < m.layers.size(); ++l)
      if (m.layers[l].name == layer) return m.shapes()[l];
    return Shape{};
  };
  EXPECT_EQ(shape_of("vgg19", "flatten"), (Shape{512 * 7 * 7}));
  EXPECT_EQ(shape_of("resnet152", "relu5_3"), (Shape{2048, 7, 7}));
  EXPECT_EQ(shape_of("inception_v3", "concat3"), (Shape{288, 35, 35}));
  EXPECT_EQ(shape_of("inception_v3", "concat8"), (Shape{768, 17, 17}));
  EXPECT_EQ(shape_of("inception_v3", "concat11"), (Shape{2048, 8, 8}));
  EXPECT_EQ(shape_of("bert48", "ln2_47"), (Shape{512, 1024}));
}

TEST(ParameterCount, DropoutHasNone) {
  EXPECT_EQ(parameter_count(vgg16(true)), parameter_count(vgg16(false)));
  EXPECT_EQ(vgg16(true).layers.size(), vgg16(false).layers.size() + 2);
}

TEST(ParameterCount, PeersMlps) {
  EXPECT_EQ(parameter_count(model("tiny")), 8 * (64 * 64 + 64));
  EXPECT_EQ(parameter_count(model("tiny32")), 8 * (64 * 64 + 64));
  EXPECT_EQ(parameter_count(model("mlp1024")), 8 * (1024 * 1024 + 1024));
}

TEST(ParameterCount, PeersTransformer) {
  // A block: two layer norms (2 h each), qkv and proj (4 h^2 + 4 h), up and down (2 h f + f + h).
  const std::int64_t h = 256, f = 1024;
  EXPECT_EQ(parameter_count(model("tfm256")), 8 * (2 * 2 * h + 4 * h * h + 4 * h + 2 * h * f + f + h));
}

TEST(ParameterCount, Gpt) {
  // 24 blocks of 12 h^2 + 13 h, embedding and head of 51200 x h (not tied), 1024 positions, the final norm.
  const std::int64_t h = 2048;
  EXPECT_EQ(parameter_count(model("gpt_1.3b")), 24 * (12 * h * h + 13 * h) + 2 * 51'200 * h + 1024 * h + 2 * h);
}

TEST(ParameterCount, FashionMnistMlp) {
  EXPECT_EQ(parameter_count(model("fmnist_mlp")),
            (784 * 512 + 512) + (512 * 512 + 512) + (512 * 256 + 256) + (256 * 128 + 128) + (128 * 10 + 10));
}

TEST(ParameterCount, FashionMnistCnn) {
  // 28 -> 14 -> 14 -> 7 -> 7, so the first linear layer reads 32 x 7 x 7.
  const std::int64_t convolutions = (1 * 25 * 16 + 16) + (16 * 9 * 32 + 32) + 2 * (32 * 9 * 32 + 32);
  const std::int64_t linears = (1568 * 128 + 128) + (128 * 64 + 64) + (64 * 10 + 10);
  EXPECT_EQ(parameter_count(model("fmnist_cnn")), convolutions + linears);
}

TEST(ParameterCount, DeepCnns) {
  const auto convolutions = [](std::int64_t channels) {
    std::int64_t total = 0, in = channels;
    for (const std::int64_t width : {16, 32, 64})
      for (int k = 0; k < 3; ++k) {
        total += in * 9 * width + 2 * width;  // no bias; batch norm's weight and bias
        in = width;
      }
    return total;
  };
  // Three halvings: 28 -> 14 -> 7 -> 3 and 32 -> 16 -> 8 -> 4.
  EXPECT_EQ(parameter_count(model("fmnist_cnn_deep")), convolutions(1) + 64 * 3 * 3 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(parameter_count(model("cifar10_cnn")), convolutions(3) + 64 * 4 * 4 * 128 + 128 + 128 * 10 + 10);
}

std::int64_t lstm_size(std::int64_t in, std::int64_t hidden) { return 4 * hidden * (in + hidden) + 8 * hidden; }

TEST(ParameterCount, ResidualLstm) {
  const auto count = [](std::int64_t words, std::int64_t w, std::int64_t blocks) {
    return words * w + blocks * (lstm_size(w, w) + w * w + w) + 2 * w + 2;
  };
  EXPECT_EQ(parameter_count(model("sentiment_lstm")), count(6000, 64, 4));
  EXPECT_EQ(parameter_count(model("rlstm_imdb")), count(10'000, 128, 4));
}

TEST(ParameterCount, TransformerClassifier) {
  const std::int64_t h = 64, f = 128;
  EXPECT_EQ(parameter_count(model("sentiment_transformer")),
            6000 * h + 40 * h + 4 * (4 * h * h + 4 * h + 2 * h * f + f + h + 4 * h) + 2 * h + 2 * h + 2);
}

TEST(ParameterCount, Gnmt) {
  const auto count = [](std::int64_t layers, std::int64_t h, std::int64_t words) {
    const std::int64_t encoder = 2 * lstm_size(h, h) + lstm_size(2 * h, h) + (layers - 2) * lstm_size(h, h);
    const std::int64_t decoder = lstm_size(h, h) + (layers - 1) * lstm_size(2 * h, h);
    return 2 * words * h + encoder + decoder + 4 * (h * h + h) + words * h + words;
  };
  EXPECT_EQ(parameter_count(model("translation_gnmt")), count(3, 96, 2000));
  EXPECT_EQ(parameter_count(model("gnmt_8")), count(4, 1024, 32'320));
  EXPECT_EQ(parameter_count(model("gnmt_16")), count(8, 1024, 32'320));
}

TEST(ParameterCount, TransformerTranslator) {
  const auto count = [](std::int64_t layers, std::int64_t h, std::int64_t f, std::int64_t words,
                        std::int64_t positions) {
    const std::int64_t attention = 4 * h * h + 4 * h, forward = 2 * h * f + f + h, norm = 2 * h;
    return 3 * words * h + 2 * positions * h + layers * (attention + forward + 2 * norm) +
           layers * (2 * attention + forward + 3 * norm) + 2 * norm;
  };
  EXPECT_EQ(parameter_count(model("translation_transformer")), count(3, 96, 192, 2000, 16));
  EXPECT_EQ(parameter_count(model("transformer_wmt")), count(6, 512, 2048, 37'000, 64));
}

TEST(Gnmt, HasAsManyLstmLayersAsItsName) {
  // PipeDream's: the bidirectional first layer counts once, the one before the attention too.
  for (const int layers : {8, 16}) {
    int count = 0;
    for (const LayerSpec& l : model("gnmt_" + std::to_string(layers)).layers)
      count += std::holds_alternative<Lstm>(l.kind);
    EXPECT_EQ(count, layers + 1);
  }
  const ModelGraph& small = model("translation_gnmt");
  const std::vector<Shape> shapes = small.shapes();
  EXPECT_EQ(shapes[shapes.size() - 2], (Shape{16, 2000}));
  EXPECT_EQ(small.inputs.size(), 2u);
}

TEST(Text, ModelsCanBeCutIntoEightStages) {
  for (const char* name : {"sentiment_lstm", "sentiment_transformer", "translation_gnmt", "translation_transformer",
                           "gnmt_8", "gnmt_16", "rlstm_imdb"}) {
    int cuttable = 0;
    for (const LayerSpec& l : model(name).layers) cuttable += parameter_count(l) > 0;
    EXPECT_GE(cuttable, 8) << name;
  }
}

TEST(PeersBenchmark, HasThePublishedBatches) {
  const auto sizes = [](const std::string& name) {
    const Workload& w = find_workload(name);
    return std::pair(w.batch, w.microbatches);
  };
  EXPECT_EQ(sizes("tiny"), std::pair(std::int64_t{64}, 8));
  EXPECT_EQ(sizes("tiny32"), std::pair(std::int64_t{256}, 32));
  EXPECT_EQ(sizes("mlp1024"), std::pair(std::int64_t{256}, 8));
  EXPECT_EQ(sizes("tfm256"), std::pair(std::int64_t{8}, 8));
  EXPECT_EQ(model("tfm256").inputs.front().shape, (Shape{128, 256}));
  // Linear + ReLU eight times, but no ReLU before the loss.
  EXPECT_EQ(model("tiny").layers.size(), 8u + 7u + 1u);
}

TEST(Gpt, ReadsTokensAndIsFullSizeOnly) {
  const Workload& w = find_workload("gpt_1.3b");
  EXPECT_TRUE(w.model.inputs.front().is_token_ids);
  EXPECT_FALSE(w.runs_for_real);
  const std::vector<Shape> shapes = w.model.shapes();
  EXPECT_EQ(shapes.front(), (Shape{1024, 2048}));
  EXPECT_EQ(shapes[shapes.size() - 2], (Shape{1024, 51'200}));
}

TEST(Gpt, ATinyOneRunsForRealAndItsSequencesCanBeCut) {
  const Workload& w = find_workload("gpt_tiny");
  EXPECT_TRUE(w.runs_for_real);
  EXPECT_EQ(sequence_fault(w.model), "");
  EXPECT_EQ(sequence_length(w.model), 256);
  EXPECT_EQ(sequence_fault(model("sentiment_transformer")).substr(0, 17), "layer 'attention_");
}

TEST(ChainBuilder, RejectsShapesThatDoNotFit) {
  ChainBuilder b("broken", {.shape = {4}});
  b.add("linear", Linear{5, 1});
  b.add("loss", MseLoss{});
  EXPECT_NE(error_of([&] { b.finish(); }), "no error");
}

}  // namespace
}  // namespace sluice
