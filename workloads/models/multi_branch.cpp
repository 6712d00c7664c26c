// Models of several branches that meet in a concatenation: what GraphPipe (Jeon et al., ASPLOS 2025, section 7 and
// appendix A.2) is evaluated on. Layers as in FlexFlow's examples: attention and two dense layers without residuals or
// normalisation; what the paper leaves open (the layers after the concatenation, losses) is ours.
//
// Full-size models have an input for every branch. The small ones, which run for real, have one dense input that every
// branch reads.
#include "workloads/models/models.h"

namespace sluice {

namespace {

class BranchBuilder {
 public:
  explicit BranchBuilder(std::string name) { model_.name = std::move(name); }

  int input(ModelInput input) {
    model_.inputs.push_back(std::move(input));
    return -static_cast<int>(model_.inputs.size());
  }
  int add(const std::string& name, LayerKind kind, std::vector<int> inputs) {
    model_.layers.push_back({name, std::move(kind), std::move(inputs), block_});
    return static_cast<int>(model_.layers.size()) - 1;
  }
  // Linear and ReLU.
  int dense(const std::string& name, std::int64_t in, std::int64_t out, int x) {
    const int linear = add(name, Linear{in, out}, {x});
    const int relu = add(name + "_relu", Activation{}, {linear});
    ++block_;
    return relu;
  }
  void next_block() { ++block_; }
  ModelGraph finish(const std::string& loss_name, int prediction) {
    add(loss_name, MseLoss{}, {prediction});
    model_.shapes();  // throws if the declaration does not fit together
    return std::move(model_);
  }

 private:
  ModelGraph model_;
  int block_ = 0;
};

}  // namespace

ModelGraph multi_modal_transformer(const TransformerBranches& t) {
  BranchBuilder b("mmt" + std::to_string(t.branches));
  const ModelInput tokens{.shape = {t.sequence, t.hidden}};
  const int shared = t.own_inputs ? 0 : b.input(tokens);
  std::vector<int> ends;
  for (int branch = 0; branch < t.branches; ++branch) {
    int x = t.own_inputs ? b.input(tokens) : shared;
    for (int l = 0; l < t.layers; ++l) {
      const std::string n = std::to_string(branch) + "_" + std::to_string(l);
      x = b.add("attention" + n, Attention{.width = t.hidden, .heads = t.heads}, {x});
      x = b.add("up" + n, Linear{t.hidden, t.feed_forward, false}, {x});
      x = b.add("relu" + n, Activation{}, {x});
      x = b.add("down" + n, Linear{t.feed_forward, t.hidden, false}, {x});
      b.next_block();
    }
    ends.push_back(x);
  }
  int x = ends.front();
  if (t.branches > 1) x = b.add("concat", Concat{1}, ends);
  if (t.head) x = b.add("head", Linear{t.branches * t.hidden, t.hidden, false}, {x});
  return b.finish("loss", x);
}

ModelGraph recommendation(const RecommendationBranches& r) {
  BranchBuilder b("dlrm" + std::to_string(r.dense) + "_" + std::to_string(r.sparse));
  const ModelInput features{.shape = {r.width}};
  const int shared = r.own_inputs ? 0 : b.input(features);
  std::vector<int> ends;
  std::int64_t joined = 0;
  for (int branch = 0; branch < r.dense; ++branch) {
    int x = r.own_inputs ? b.input(features) : shared;
    for (int l = 0; l < r.dense_layers; ++l)
      x = b.dense("dense" + std::to_string(branch) + "_" + std::to_string(l), r.width, r.width, x);
    ends.push_back(x);
    joined += r.width;
  }
  for (int branch = 0; branch < r.sparse; ++branch) {
    const std::string n = std::to_string(branch);
    if (r.own_inputs) {
      const int ids = b.input({.shape = {r.bag}, .is_token_ids = true});
      const int rows = b.add("embedding" + n, Embedding{r.rows, r.embedding}, {ids});
      ends.push_back(b.add("bag" + n, Flatten{}, {rows}));
      joined += r.bag * r.embedding;
    } else {
      // Rows summed over a bag: the table times a vector that counts the bag's rows.
      ends.push_back(b.add("embedding" + n, Linear{r.width, r.embedding, false}, {shared}));
      joined += r.embedding;
    }
    b.next_block();
  }
  int x = b.add("concat", Concat{0}, ends);
  for (int l = 0; l < r.top_layers; ++l) x = b.dense("top" + std::to_string(l), l == 0 ? joined : r.width, r.width, x);
  return b.finish("loss", b.add("out", Linear{r.width, 1}, {x}));
}

ModelGraph drug_response(const DrugResponseBranches& d) {
  BranchBuilder b("uno" + std::to_string(d.branches));
  const ModelInput features{.shape = {d.width}};
  const int shared = d.own_inputs ? 0 : b.input(features);
  std::vector<int> ends;
  for (int branch = 0; branch < d.branches; ++branch) {
    int x = d.own_inputs ? b.input(features) : shared;
    for (int l = 0; l < d.layers; ++l)
      x = b.dense("dense" + std::to_string(branch) + "_" + std::to_string(l), d.width, d.width, x);
    ends.push_back(x);
  }
  int x = b.add("concat", Concat{0}, ends);
  for (int l = 0; l < d.trunk_layers; ++l)
    x = b.dense("trunk" + std::to_string(l), l == 0 ? d.branches * d.width : d.width, d.width, x);
  return b.finish("loss", b.add("out", Linear{d.width, 1}, {x}));
}

}  // namespace sluice
