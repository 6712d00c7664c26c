// Module: TorchScript that LibTorch's interpreter runs and autograd differentiates.
//
// F records autograd's graph. I runs it to the inputs, and takes out of it the gradients that reach the operations with
// weights. W runs these operations alone, to their weights. So I and W together are one backward, W reads no weights,
// and what is kept between F, I and W is what autograd saves.
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/splitmix64.h"
#include "harness/exec/torch/layers/layers.h"
#include "harness/model/module_file.h"

namespace sluice {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;
using NodePtr = c10::intrusive_ptr<Node>;

// Autograd is off in stages (InferenceMode). Here it is on, and runs on the calling thread, whose memory is counted.
class Autograd {
 public:
  Autograd() { c10::AutogradState::get_tls_state().set_multithreading_enabled(false); }

 private:
  c10::InferenceMode off_{false};
};

// A tensor that autograd takes, on the same memory.
at::Tensor alias_of(const at::Tensor& t) {
  return at::empty({0}, t.options()).set_(t.storage(), t.storage_offset(), t.sizes(), t.strides());
}

// The end of the graph at an input or a weight. Unlike a leaf it does not keep the tensor. memory: of a weight, which
// what autograd saved of it shares.
struct Source final : Node {
  c10::Storage memory;
  variable_list apply(variable_list&&) override { return {}; }
};

c10::intrusive_ptr<Source> follow(at::Tensor& t) {
  auto source = c10::make_intrusive<Source>();
  torch::autograd::create_gradient_edge(t, source);
  return source;
}

// What is left of a forward, and then of an input gradient. It hangs on a tensor without elements, so that a LayerStash
// keeps it.
struct Pending final : Node {
  Edge root;
  std::vector<c10::intrusive_ptr<Source>> inputs, weights;  // an input of token ids: null
  // Operations' outputs and their gradients, from which W goes to these weights.
  struct Part {
    edge_list from;
    variable_list gradients;
    std::vector<std::size_t> weights;
  };
  std::vector<Part> parts;
  variable_list apply(variable_list&&) override { return {}; }
};

Pending& pending(const LayerStash& stash) {
  return static_cast<Pending&>(*torch::autograd::impl::gradient_edge(stash.kept.at(0)).function);
}

variable_list backward(const edge_list& from, const variable_list& gradients, const edge_list& to, bool keeps_graph) {
  return torch::autograd::Engine::get_default_engine().execute(from, gradients, keeps_graph, /*create_graph=*/false,
                                                               /*accumulate_grad=*/false, to);
}

// Where a node leads.
struct Reach {
  bool input = false;                // to an input whose gradient is wanted
  std::vector<std::size_t> weights;  // ascending
};

class Reaches {
 public:
  Reaches(const Pending& graph, const std::vector<bool>& needs_input) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
      if (graph.inputs[i]) of_[graph.inputs[i].get()].input = needs_input[i];
    for (std::size_t w = 0; w < graph.weights.size(); ++w) of_[graph.weights[w].get()].weights = {w};
    visit(graph.root.function);
  }
  const Reach& of(const Node* node) const { return of_.at(node); }

  // The parts of W, or none where a weight is read by several operations on the way to an input.
  std::vector<Pending::Part> parts() const {
    std::vector<Pending::Part> result;
    std::vector<std::size_t> all;
    for (const NodePtr& node : order_) {
      if (!of(node.get()).input) continue;
      Pending::Part part;
      for (const Edge& next : node->next_edges()) {
        if (!next.is_valid() || of(next.function.get()).input) continue;
        const std::vector<std::size_t>& weights = of(next.function.get()).weights;
        part.weights.insert(part.weights.end(), weights.begin(), weights.end());
      }
      std::ranges::sort(part.weights);
      part.weights.erase(std::ranges::unique(part.weights).begin(), part.weights.end());
      if (part.weights.empty()) continue;
      for (std::uint32_t k = 0; k < node->num_inputs(); ++k) part.from.emplace_back(node, k);
      all.insert(all.end(), part.weights.begin(), part.weights.end());
      result.push_back(std::move(part));
    }
    std::ranges::sort(all);
    if (std::ranges::adjacent_find(all) != all.end()) result.clear();
    return result;
  }

 private:
  // Nodes after those that they lead to.
  void visit(const NodePtr& root) {
    std::vector<std::pair<NodePtr, std::size_t>> path{{root, 0}};
    of_.try_emplace(root.get());
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next < node->num_outputs()) {
        const NodePtr child = node->next_edge(next++).function;
        if (child && of_.try_emplace(child.get()).second) path.emplace_back(child, 0);
        continue;
      }
      Reach reach = of_[node.get()];
      for (const Edge& edge : node->next_edges()) {
        if (!edge.is_valid()) continue;
        const Reach& below = of_[edge.function.get()];
        reach.input = reach.input || below.input;
        std::vector<std::size_t> both;
        std::ranges::set_union(reach.weights, below.weights, std::back_inserter(both));
        reach.weights = std::move(both);
      }
      of_[node.get()] = std::move(reach);
      order_.push_back(node);
      path.pop_back();
    }
  }

  std::unordered_map<const Node*, Reach> of_;
  std::vector<NodePtr> order_;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

torch::jit::Module load(const LayerSpec& layer, c10::Device device) {
  const Autograd normal_tensors;
  std::istringstream content(read_module_file(layer));
  try {
    return torch::jit::load(content, device);
  } catch (const std::exception& e) {
    throw InputError(module_path(layer), std::string("LibTorch reads no TorchScript in it: ") + first_line(e.what()),
                     "write it with the version of PyTorch that Sluice is built with, or an older one");
  }
}

at::Tensor tensor_of(const torch::jit::Module& module, const LayerSpec& layer, const std::string& name,
                     const Shape& shape) {
  const std::string where = module_path(layer);
  if (!module.hasattr(name) || !module.attr(name).isTensor()) throw InputError(where, "has no tensor " + name);
  at::Tensor tensor = module.attr(name).toTensor().detach();
  if (tensor.sizes().vec() != shape)
    throw InputError(where,
                     name + " is " + to_text(tensor.sizes().vec()) + ", the model file declares " + to_text(shape));
  return tensor;
}

class ModuleLayer final : public Layer {
 public:
  ModuleLayer(const LayerSpec& layer, int index, const at::TensorOptions& options)
      : name_(layer.name),
        path_(module_path(layer)),
        spec_(std::get<Module>(layer.kind)),
        index_(index),
        frozen_(layer.frozen),
        module_(load(layer, options.device())) {
    if (options.dtype() != at::kFloat && options.dtype() != at::kDouble)
      throw InputError("layer '" + name_ + "' (Module)", "computes in fp32", "leave the precision out");
    const Autograd normal_tensors;
    for (std::size_t k = 0; k < spec_.buffers.size(); ++k) {
      const at::Tensor stored = tensor_of(module_, layer, module_buffer(k), spec_.buffers[k]);
      buffers_.push_back(stored.is_floating_point() ? stored.to(options, false, true) : stored.clone());
    }
    train_ = code_of("forward");
    evaluate_ = code_of("evaluate");
  }

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode& mode, bool, LayerStash* stash) override {
    const Autograd autograd;
    const at::AutoGradMode records(stash != nullptr);
    const auto graph = c10::make_intrusive<Pending>();
    torch::jit::Stack stack{module_._ivalue()};
    std::vector<std::size_t> handles;  // of each input's memory
    for (const at::Tensor& x : in) handles.push_back(x.storage().use_count());
    for (const at::Tensor& x : in) {
      at::Tensor alias = alias_of(x);
      if (stash) graph->inputs.push_back(x.is_floating_point() ? follow(alias) : nullptr);
      stack.emplace_back(alias);
    }
    if (mode.training)
      for (at::Tensor& numbers : drawn(in[0], mode)) stack.emplace_back(std::move(numbers));
    for (const at::Tensor& w : weights) {
      if (!stash || frozen_) {
        stack.emplace_back(alias_of(w));
        continue;
      }
      at::Tensor alias = at::from_blob(w.data_ptr(), w.sizes(), w.strides(), w.options());
      graph->weights.push_back(follow(alias));
      graph->weights.back()->memory = alias.storage();
      stack.emplace_back(alias);
    }
    for (const at::Tensor& b : buffers_) stack.emplace_back(mode.training && mode.recomputing ? b.clone() : b);
    try {
      torch::jit::InterpreterState(mode.training ? train_ : evaluate_).run(stack);
    } catch (const std::exception& e) {
      throw InputError("layer '" + name_ + "' (Module)", "its TorchScript fails: " + first_line(e.what()),
                       "a micro-batch must be like the example inputs that the module was imported with");
    }
    at::Tensor y = result(stack, in[0].size(0));
    stack.clear();
    // A later layer may write over what it takes for a tensor of ours.
    const bool is_view =
        std::ranges::any_of(in, [&](const at::Tensor& x) { return x.storage().is_alias_of(y.storage()); });
    if (stash) {
      if (!y.requires_grad())
        throw InputError("layer '" + name_ + "' (Module)",
                         "its output depends on no weight and no input that is trained",
                         "write the part again with workloads/import_pytorch.py --layers");
      graph->root = torch::autograd::impl::gradient_edge(y);
      stash->kept = {at::empty({0}, y.options())};
      torch::autograd::impl::set_gradient_edge(stash->kept[0], {graph, 0});
    }
    const at::Tensor own = is_view ? y.detach().clone() : y.detach();
    if (!stash) return own;
    y.reset();
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i].storage().use_count() > handles[i]) stash->kept.push_back(in[i]);
    if (own.storage().use_count() > 1) stash->kept.push_back(own);
    return own;
  }

  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    const Autograd autograd;
    Pending& graph = pending(stash);
    for (std::size_t w = 0; w < graph.weights.size(); ++w)
      graph.weights[w]->memory.set_data_ptr_noswap({weights[w].data_ptr(), weights[w].device()});
    const variable_list gradient{alias_of(dy)};
    std::vector<at::Tensor> dx(needs_input.size());
    edge_list to;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < dx.size(); ++i) {
      if (!needs_input[i] || !graph.inputs[i]) continue;
      to.emplace_back(graph.inputs[i], 0);
      places.push_back(i);
    }
    const Reaches reaches(graph, needs_input);
    const bool has_inputs = reaches.of(graph.root.function.get()).input;
    if (!graph.weights.empty()) {
      if (has_inputs) graph.parts = reaches.parts();
      if (graph.parts.empty()) {
        whole_backward(graph, gradient, weights);
        stash.kept.push_back(dy);
      }
      if (has_inputs)
        for (const Pending::Part& part : graph.parts) to.insert(to.end(), part.from.begin(), part.from.end());
    }
    variable_list made(to.size());
    if (has_inputs) made = backward({graph.root}, gradient, to, /*keeps_graph=*/!graph.weights.empty());
    std::size_t next = 0;
    for (const std::size_t i : places) {
      dx[i] = std::move(made[next++]);
      if (!dx[i].defined()) dx[i] = graph.inputs[i]->input_metadata(0).zeros_like();  // what it does not depend on
    }
    if (!has_inputs) return dx;
    for (Pending::Part& part : graph.parts) {  // their places in `to` follow the inputs'
      edge_list with_gradient;
      part.gradients.clear();
      for (const Edge& edge : part.from) {
        const at::Tensor& reached = made[next++];
        if (!reached.defined()) continue;
        with_gradient.push_back(edge);
        part.gradients.push_back(reached);
        stash.kept.push_back(reached);
      }
      part.from = std::move(with_gradient);
    }
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    for (LayerStash* stash : stashes) {
      for (const Pending::Part& part : pending(*stash).parts) {
        if (part.from.empty()) continue;
        edge_list to;
        for (const std::size_t w : part.weights) to.emplace_back(pending(*stash).weights[w], 0);
        variable_list made;
        {
          const Autograd autograd;
          made = backward(part.from, part.gradients, to, /*keeps_graph=*/false);
        }
        for (std::size_t k = 0; k < made.size(); ++k)
          if (made[k].defined()) gradients[part.weights[k]].add_(made[k]);
      }
    }
    clear(stashes);
  }

  std::vector<at::Tensor> buffers() const override { return buffers_; }

 private:
  torch::jit::Code code_of(const std::string& method) const {
    const auto found = module_.find_method(method);
    const std::size_t drawn = method == "forward" ? spec_.random.size() : 0;
    if (!found) throw InputError(path_, "has no method '" + method + "'");
    const auto graph = found->graph()->copy();
    torch::jit::Inline(*graph);
    const std::size_t other = 1 + drawn + spec_.weights.size() + spec_.buffers.size();
    if (graph->inputs().size() <= other)
      throw InputError(path_, "method '" + method + "' takes " + std::to_string(graph->inputs().size()) +
                                  " arguments, expected an input and " + std::to_string(other) + " others");
    return torch::jit::Code(graph, method);
  }

  // Uniform numbers from 0 to 1, for every draw [batch, numbers a sample]. They depend on the run's seed, the layer and
  // the micro-batch, as the masks of Dropout.
  std::vector<at::Tensor> drawn(const at::Tensor& x, const ForwardMode& mode) const {
    std::vector<at::Tensor> all;
    for (const std::int64_t count : spec_.random) all.push_back(at::empty({x.size(0), count}, at::kFloat));
    const std::int64_t rows = x.size(0) / mode.micro_batches;
    for (int m = 0; m < mode.micro_batches && !all.empty(); ++m) {
      const std::uint64_t layer = splitmix64(splitmix64(mode.seed) + static_cast<std::uint64_t>(index_));
      at::Generator generator =
          at::detail::createCPUGenerator(splitmix64(layer + static_cast<std::uint64_t>(mode.sequence + m)));
      for (const at::Tensor& numbers : all) numbers.narrow(0, m * rows, rows).uniform_(0, 1, generator);
    }
    for (at::Tensor& numbers : all) numbers = numbers.to(x.device());
    return all;
  }

  at::Tensor result(const torch::jit::Stack& stack, std::int64_t batch) const {
    Shape expected{batch};
    expected.insert(expected.end(), spec_.output.begin(), spec_.output.end());
    if (stack.size() != 1 || !stack[0].isTensor()) throw InputError(path_, "does not give one tensor");
    if (const Shape found = stack[0].toTensor().sizes().vec(); found != expected)
      throw InputError("layer '" + name_ + "' (Module)",
                       "its TorchScript gives " + to_text(found) + ", the model file declares " + to_text(expected));
    return stack[0].toTensor();
  }

  // All of W by one backward from the output. It reads the weights again, which have to stay as they are now.
  static void whole_backward(Pending& graph, const variable_list& gradient, std::span<const at::Tensor> weights) {
    Pending::Part& part = graph.parts.emplace_back();
    part = {{graph.root}, gradient, {}};
    for (std::size_t w = 0; w < weights.size(); ++w) {
      part.weights.push_back(w);
      auto* const owner = new at::Tensor(weights[w]);
      graph.weights[w]->memory.set_data_ptr_noswap(
          {weights[w].data_ptr(), owner, [](void* p) { delete static_cast<at::Tensor*>(p); }, weights[w].device()});
    }
  }

  std::string name_, path_;
  Module spec_;
  int index_;
  bool frozen_;
  torch::jit::Module module_;
  torch::jit::Code train_, evaluate_;
  std::vector<at::Tensor> buffers_;
};

}  // namespace

std::unique_ptr<Layer> make_module(const LayerSpec& layer, int index_in_model, const at::TensorOptions& options) {
  return std::make_unique<ModuleLayer>(layer, index_in_model, options);
}

std::vector<at::Tensor> stored_weights(const LayerSpec& layer) {
  const torch::jit::Module module = load(layer, c10::Device(c10::kCPU));
  const auto& spec = std::get<Module>(layer.kind);
  std::vector<at::Tensor> result;
  for (std::size_t w = 0; w < spec.weights.size(); ++w)
    result.push_back(tensor_of(module, layer, module_weight(w), spec.weights[w]));
  return result;
}

}  // namespace sluice
