// The Session of exec/session.h over LibTorch: builds the workers of all ranks, runs programs on
// them, and evaluates with the newest weights between runs.
#include "harness/exec/session.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "harness/exec/threads.h"
#include "harness/exec/torch/checkpoint.h"
#include "harness/exec/torch/stage_worker.h"

namespace sluice {

namespace {

class TorchSession : public Session {
 public:
  explicit TorchSession(const SessionSpec& spec) : spec_(spec) {
    install_counting_allocator();
    const c10::InferenceMode no_autograd;
    context_.spec = &spec_;
    context_.options = at::TensorOptions().dtype(spec.double_precision ? at::kDouble : at::kFloat);
    if (!spec.feed) make_synthetic_batch();
    const std::vector<int> stage_of = stage_of_layers(spec.plan, spec.model.layers.size());
    interfaces_ = interfaces(spec_.model, stage_of, static_cast<int>(spec.plan.stages.size()));
    const RankMap ranks = ranks_of(spec.plan);
    placement_ = ranks.placement;
    std::vector<std::vector<StageId>> held(ranks.devices.size());
    for (std::size_t s = 0; s < placement_.stages.size(); ++s)
      for (const Rank r : placement_.stages[s]) held[r.index()].push_back(StageId(s));
    for (std::size_t s = 0; s < placement_.weight_gradient_ranks.size(); ++s)
      if (const Rank lane = placement_.weight_gradient_ranks[s]; lane.value >= 0)
        held[lane.index()].push_back(StageId(s));
    const auto initial = starting_weights();
    for (std::size_t r = 0; r < held.size(); ++r)
      workers_.push_back(
          std::make_unique<TorchWorker>(Rank(r), context_, held[r], interfaces_, initial));
    for (std::size_t s = 0; s < placement_.stages.size(); ++s)
      for (const Rank r : placement_.stages[s])
        worker(r.index()).weights(StageId(s)).follow(spec.rule, StageId(s));
  }

  RunResult run(const Program& program, const RunRequest& request) override {
    context_.program = &program;
    context_.request = &request;
    context_.first_update = updates_;
    const auto transport = make_thread_transport(program);
    RunResult result;
    result.execution = execute(program, *transport, workers_,
                               {.iterations = request.iterations,
                                .traced_iteration = request.traced_iteration,
                                .timeout = request.timeout,
                                .cancel = request.cancel});
    const std::int64_t all = static_cast<std::int64_t>(request.iterations) * program.updates;
    updates_ += result.execution.diverged.value_or(all);
    result.losses.assign(static_cast<std::size_t>(request.iterations * program.updates), 0);
    for (std::size_t r = 0; r < workers_.size(); ++r)
      for (std::size_t u = 0; u < result.losses.size(); ++u)
        result.losses[u] += worker(r).losses()[u];
    if (result.execution.diverged) drop_unfinished_losses(result.losses);
    if (request.keep_weights) {
      result.weights.resize(placement_.stages.size());
      for (std::size_t s = 0; s < placement_.stages.size(); ++s)
        result.weights[s] = owner_of(StageId(s)).kept_weights(StageId(s));
    }
    return result;
  }

  Evaluation evaluate() override {
    return evaluate_with([this](StageId s) { return owner_of(s).weights(s).newest(); });
  }

  Evaluation evaluate_snapshot(std::size_t k) override {
    const c10::InferenceMode no_autograd;
    // Running statistics live in the modules: those of the snapshot stand in for a while.
    std::vector<std::vector<at::Tensor>> now;
    for (std::size_t s = 0; s < interfaces_.size(); ++s) {
      const std::vector<at::Tensor> buffers = owner_of(StageId(s)).module(StageId(s)).buffers();
      const StageSnapshot& snapshot = owner_of(StageId(s)).snapshots(StageId(s)).at(k);
      auto& saved = now.emplace_back();
      for (std::size_t b = 0; b < buffers.size(); ++b) {
        saved.push_back(buffers[b].clone());
        buffers[b].copy_(snapshot.buffers[b]);
      }
    }
    const Evaluation result = evaluate_with([&](StageId s) {
      return std::span<const at::Tensor>(owner_of(s).snapshots(s)[k].weights);
    });
    for (std::size_t s = 0; s < interfaces_.size(); ++s) {
      const std::vector<at::Tensor> buffers = owner_of(StageId(s)).module(StageId(s)).buffers();
      for (std::size_t b = 0; b < buffers.size(); ++b) buffers[b].copy_(now[s][b]);
    }
    return result;
  }

  void save(const std::string& path) const override {
    const c10::InferenceMode no_autograd;
    Checkpoint checkpoint{.of = identity(), .updates = updates_, .stages = {}};
    for (std::size_t s = 0; s < interfaces_.size(); ++s) {
      StageWeights::State state = owner_of(StageId(s)).weights(StageId(s)).state();
      for (const at::Tensor& buffer : owner_of(StageId(s)).module(StageId(s)).buffers())
        state.tensors.push_back(buffer.to(context_.options.dtype()).contiguous().flatten());
      checkpoint.stages.push_back({state.numbers, state.tensors});
    }
    write_checkpoint(checkpoint, path);
  }

  void load(const std::string& path) override {
    const c10::InferenceMode no_autograd;
    Checkpoint checkpoint = read_checkpoint(path, identity(), context_.options);
    for (std::size_t s = 0; s < interfaces_.size(); ++s) {
      CheckpointStage& stage = checkpoint.stages.at(s);
      for (const Rank r : placement_.stages[s]) {
        const std::vector<at::Tensor> buffers = worker(r.index()).module(StageId(s)).buffers();
        const std::size_t own = stage.tensors.size() - buffers.size();
        for (std::size_t b = 0; b < buffers.size(); ++b)
          buffers[b].copy_(stage.tensors[own + b].view(buffers[b].sizes()));
        worker(r.index())
            .weights(StageId(s))
            .restore(
                {{stage.tensors.begin(), stage.tensors.begin() + static_cast<std::ptrdiff_t>(own)},
                 stage.numbers});
      }
    }
    updates_ = checkpoint.updates;
  }

  std::vector<PeakMemory> peak_memory() const override {
    std::vector<PeakMemory> peaks;
    for (std::size_t r = 0; r < workers_.size(); ++r) peaks.push_back(worker(r).counters()->peak());
    return peaks;
  }
  void reset_peak_memory() override {
    for (std::size_t r = 0; r < workers_.size(); ++r) worker(r).counters()->reset_peak();
  }
  std::vector<double> weights(int layer) const override {
    return of_layer(layer, [](StageWeights& w) { return w.newest_flat(); });
  }
  std::vector<double> gradients(int layer) const override {
    return of_layer(layer, [](StageWeights& w) { return w.gradients_flat(); });
  }
  std::int64_t updates_done() const override { return updates_; }

 private:
  // After a divergence: the losses up to the first update that lacks a micro-batch's part.
  void drop_unfinished_losses(std::vector<double>& losses) const {
    std::size_t whole = 0;
    const auto parts = [&](std::size_t u) {
      int sum = 0;
      for (std::size_t r = 0; r < workers_.size(); ++r) sum += worker(r).loss_parts()[u];
      return sum;
    };
    while (whole < losses.size() && parts(whole) == worker(0).micros_of_update(whole)) ++whole;
    losses.resize(whole);
  }

  // What a stage reads: its newest weights, or a snapshot's.
  using WeightsOf = std::function<std::span<const at::Tensor>(StageId)>;

  Evaluation evaluate_with(const WeightsOf& weights) const {
    const c10::InferenceMode no_autograd;
    at::set_num_threads(1);  // with more, a busy machine makes the threads wait for one another
    Evaluation result;
    if (!spec_.feed) throw std::logic_error("a synthetic workload has no test samples");
    constexpr std::int64_t kChunk = 500;
    const std::int64_t n = spec_.feed->test_samples;
    double correct = 0, scored = 0;
    for (std::int64_t first = 0; first < n; first += kChunk) {
      std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min(kChunk, n - first)));
      std::iota(indices.begin(), indices.end(), first);
      const at::Tensor target = load_targets(context_, false, indices);
      const auto [loss, prediction] = predict(load_inputs(indices), target, weights);
      result.loss += loss.item<double>() * static_cast<double>(indices.size());
      if (target.scalar_type() == at::kLong) {
        // Padding (-100) is no class, so it is never hit.
        correct += prediction.argmax(-1).eq(target).sum().item<double>();
        scored += target.ge(0).sum().item<double>();
      }
    }
    result.loss /= static_cast<double>(n);
    result.accuracy = scored > 0 ? correct / scored : 0;
    if (const auto& decoding = spec_.feed->decoding) {
      std::vector<std::vector<std::int32_t>> generated;
      for (std::int64_t first = 0; first < decoding->samples; first += kChunk) {
        const std::int64_t end = std::min(first + kChunk, decoding->samples);
        std::vector<std::int64_t> indices(static_cast<std::size_t>(end - first));
        std::iota(indices.begin(), indices.end(), first);
        auto texts = generate(*decoding, load_inputs(indices), weights);
        std::move(texts.begin(), texts.end(), std::back_inserter(generated));
      }
      result.extra[decoding->metric] = decoding->score(generated);
    }
    return result;
  }

  std::vector<at::Tensor> load_inputs(std::span<const std::int64_t> test_samples) const {
    std::vector<at::Tensor> inputs;
    for (std::size_t i = 0; i < spec_.model.inputs.size(); ++i)
      inputs.push_back(load_input(context_, false, i, test_samples));
    return inputs;
  }

  struct Prediction {
    at::Tensor loss, prediction;
  };
  // The model's output, stage after stage.
  Prediction predict(const std::vector<at::Tensor>& inputs, const at::Tensor& target,
                     const WeightsOf& weights) const {
    std::map<int, at::Tensor> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) values[-1 - static_cast<int>(i)] = inputs[i];
    Prediction result;
    for (std::size_t s = 0; s < interfaces_.size(); ++s) {
      TorchWorker& owner = owner_of(StageId(s));
      std::vector<at::Tensor> received;
      for (const int producer : interfaces_[s].receives) received.push_back(values.at(producer));
      const auto out = owner.module(StageId(s))
                           .forward(received, weights(StageId(s)), target,
                                    {.training = false}, nullptr, &result.loss, &result.prediction);
      for (std::size_t k = 0; k < out.size(); ++k) values[interfaces_[s].sends[k]] = out[k];
    }
    return result;
  }

  // Greedy decoding of a chunk: see Decoding.
  std::vector<std::vector<std::int32_t>> generate(const Decoding& decoding,
                                                  std::vector<at::Tensor> inputs,
                                                  const WeightsOf& weights) const {
    const std::int64_t n = inputs[1].size(0), most = inputs[1].size(1);
    std::vector<std::vector<std::int32_t>> texts(static_cast<std::size_t>(n));
    std::vector<bool> ended(texts.size(), false);
    at::Tensor prefix = at::full({n, 1}, decoding.begin, at::kLong);
    for (std::int64_t length = 1; length <= most && std::ranges::count(ended, false) > 0;
         ++length) {
      inputs[1] = prefix;
      const at::Tensor next =
          predict(inputs, at::zeros_like(prefix), weights).prediction.select(1, length - 1).argmax(-1);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto id = next.const_data_ptr<std::int64_t>()[i];
        const auto text = static_cast<std::size_t>(i);
        ended[text] = ended[text] || id == decoding.end;
        if (!ended[text]) texts[text].push_back(static_cast<std::int32_t>(id));
      }
      prefix = at::cat({prefix, next.unsqueeze(1)}, 1);
    }
    return texts;
  }

  TorchWorker& worker(std::size_t r) const { return static_cast<TorchWorker&>(*workers_[r]); }

  TorchWorker& owner_of(StageId stage) const {
    return worker(placement_.stages[stage.index()].front().index());
  }

  // What a checkpoint must agree with.
  nlohmann::json identity() const {
    nlohmann::json plan = nlohmann::json::array();
    for (const PlanStage& stage : spec_.plan.stages) plan.push_back(stage.layers);
    const OptimizerSpec& o = spec_.optimizer;
    return {{"model", {spec_.model.name, parameter_count(spec_.model)}},
            {"plan", plan},
            {"optimizer", {static_cast<int>(o.kind), o.momentum > 0, o.nesterov, o.momentum_ema}},
            {"precision", spec_.double_precision ? "double" : "float"},
            {"seed", spec_.seed}};
  }

  // The part of a stage's flat tensor that belongs to one layer.
  template <class Flat>
  std::vector<double> of_layer(int layer, Flat flat) const {
    for (std::size_t s = 0; s < spec_.plan.stages.size(); ++s) {
      std::int64_t offset = 0;
      for (const int l : spec_.plan.stages[s].layers) {
        const std::int64_t n = parameter_count(spec_.model.layers[static_cast<std::size_t>(l)]);
        if (l == layer) {
          const at::Tensor part = flat(owner_of(StageId(s)).weights(StageId(s)))
                                      .narrow(0, offset, n)
                                      .to(at::kDouble)
                                      .contiguous();
          return {part.template data_ptr<double>(), part.template data_ptr<double>() + n};
        }
        offset += n;
      }
    }
    throw std::logic_error("layer " + std::to_string(layer) + " is in no stage");
  }

  std::vector<std::vector<at::Tensor>> starting_weights() const {
    if (!spec_.initial) return initial_weights(spec_.model, spec_.seed, context_.options);
    std::vector<std::vector<at::Tensor>> result;
    for (std::size_t l = 0; l < spec_.model.layers.size(); ++l) {
      auto& tensors = result.emplace_back();
      const auto specs = parameters(spec_.model.layers[l]);
      for (std::size_t p = 0; p < specs.size(); ++p)
        tensors.push_back(at::tensor((*spec_.initial)[l][p], at::kDouble)
                              .view(specs[p].shape)
                              .to(context_.options.dtype()));
    }
    return result;
  }

  // The batch of the peers' benchmark: g = Generator(seed 7); x = randn(g); y = randn(g).
  void make_synthetic_batch() {
    if (spec_.synthetic_batch < 1)
      throw std::logic_error("a session without a feed needs synthetic_batch");
    const auto with_batch = [&](const Shape& shape) {
      std::vector<std::int64_t> full{spec_.synthetic_batch};
      full.insert(full.end(), shape.begin(), shape.end());
      return full;
    };
    const ModelGraph& model = spec_.model;
    if (model.inputs.front().is_token_ids)
      throw std::logic_error("no synthetic token ids: give a feed");
    const std::vector<Shape> shapes = model.shapes();
    at::Generator generator = at::detail::createCPUGenerator(7);
    context_.synthetic_features =
        at::randn(with_batch(model.inputs.front().shape), generator, at::kFloat)
            .to(context_.options.dtype());
    const Shape& prediction = shapes[model.layers.size() - 2];
    if (std::holds_alternative<MseLoss>(model.layers.back().kind)) {
      context_.synthetic_targets =
          at::randn(with_batch(prediction), generator, at::kFloat).to(context_.options.dtype());
    } else {
      const Shape positions(prediction.begin(), prediction.end() - 1);
      context_.synthetic_targets =
          at::randint(prediction.back(), with_batch(positions), generator, at::kLong);
    }
  }

  SessionSpec spec_;
  RunContext context_;
  std::vector<StageInterface> interfaces_;
  Placement placement_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::int64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<Session> make_session(const SessionSpec& spec) {
  return std::make_unique<TorchSession>(spec);
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace sluice
