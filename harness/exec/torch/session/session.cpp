// The Session of exec/session.h over LibTorch: builds the workers of all ranks, runs programs on
// them, and evaluates with the newest weights between runs. Long because all that the ranks of a
// run share is here.
#include "harness/exec/session.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/exec/bytes.h"
#include "harness/exec/threads.h"
#include "harness/exec/torch/session/across_processes.h"
#include "harness/exec/torch/session/checkpoint.h"
#include "harness/exec/torch/session/device_backend.h"
#include "harness/exec/torch/stage/stage_worker.h"

namespace sluice {

namespace {

class TorchSession : public Session {
 public:
  explicit TorchSession(const SessionSpec& spec) : spec_(spec) {
    install_counting_allocator();
    const c10::InferenceMode no_autograd;
    if (spec.sharding.active() && !spec.rule.synchronous())
      throw InputError("sharding", "the system updates without a flush, which needs whole weights",
                       "use it with replicas");
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
      if (const Rank weight_gradient_rank = placement_.weight_gradient_ranks[s]; weight_gradient_rank.value >= 0)
        held[weight_gradient_rank.index()].push_back(StageId(s));
    if (spec.device == "cuda") devices_ = make_rank_devices(held.size(), processes());
    if (spec.transport == "nccl") nccl_ = make_nccl_transports(rank_devices(), processes());
    loss_stage_ = StageId(stage_of.back());
    const auto initial = starting_weights();
    for (std::size_t r = 0; r < held.size(); ++r) {
      workers_.emplace_back();
      if (!here(Rank(r))) continue;
      workers_.back() =
          std::make_unique<TorchWorker>(Rank(r), context_, held[r], placement_, interfaces_, initial, device_of(r));
      codec_.receiver = worker(r).counters();
    }
    for (std::size_t s = 0; s < placement_.stages.size(); ++s)
      for (const Rank r : placement_.stages[s])
        if (here(r)) worker(r.index()).weights(StageId(s)).follow(spec.rule, StageId(s));
  }

  RunResult run(const Program& program, const RunRequest& request) override {
    for (std::size_t s = 0; s < placement_.stages.size(); ++s)
      if (program.sharded(StageId(s)) != sharded(StageId(s)) ||
          (sharded(StageId(s)) && keeps_whole(program.sharding) != keeps_whole(spec_.sharding)))
        throw std::logic_error("a program of other sharding than its session's");
    context_.program = &program;
    context_.request = &request;
    context_.first_update = updates_;
    const std::unique_ptr<Transport> transport = make_transport(program);
    RunResult result;
    result.execution = execute(program, *transport, workers_,
                               {.iterations = request.iterations,
                                .traced_iteration = request.traced_iteration,
                                .timeout = request.timeout,
                                .cancel = request.cancel,
                                .processes = processes(),
                                .pinning = request.pinning});
    const std::int64_t all = static_cast<std::int64_t>(request.iterations) * program.updates;
    updates_ += result.execution.diverged.value_or(all);
    result.losses.assign(static_cast<std::size_t>(request.iterations * program.updates), 0);
    const std::vector<RankLosses> losses = losses_of_ranks();
    for (const RankLosses& rank : losses)
      for (std::size_t u = 0; u < result.losses.size(); ++u) result.losses[u] += rank.losses[u];
    if (result.execution.diverged) drop_unfinished_losses(losses, result.losses);
    if (request.keep_weights) {
      result.weights.resize(placement_.stages.size());
      for (std::size_t s = 0; s < placement_.stages.size(); ++s) result.weights[s] = kept_weights(StageId(s));
    }
    return result;
  }

  Evaluation evaluate() override {
    const c10::InferenceMode no_autograd;
    return evaluate_with([](TorchWorker& w, StageId s) { return w.weights(s).newest_flat(); });
  }

  Evaluation evaluate_snapshot(std::size_t k) override {
    const c10::InferenceMode no_autograd;
    // Running statistics live in the modules: those of the snapshot stand in for a while.
    std::vector<std::vector<at::Tensor>> now(interfaces_.size());
    for (std::size_t s = 0; s < interfaces_.size(); ++s) {
      if (!owns(StageId(s))) continue;
      const std::vector<at::Tensor> buffers = owner_of(StageId(s)).module(StageId(s)).buffers();
      const StageSnapshot& snapshot = owner_of(StageId(s)).snapshots(StageId(s)).at(k);
      auto& saved = now[s];
      for (std::size_t b = 0; b < buffers.size(); ++b) {
        saved.push_back(buffers[b].clone());
        buffers[b].copy_(snapshot.buffers[b]);
      }
    }
    const Evaluation result = evaluate_with([&](TorchWorker& w, StageId s) { return w.snapshots(s)[k].weights; });
    for (std::size_t s = 0; s < interfaces_.size(); ++s) {
      if (!owns(StageId(s))) continue;
      const std::vector<at::Tensor> buffers = owner_of(StageId(s)).module(StageId(s)).buffers();
      for (std::size_t b = 0; b < buffers.size(); ++b) buffers[b].copy_(now[s][b]);
    }
    return result;
  }

  void save(const std::string& path) const override {
    const c10::InferenceMode no_autograd;
    Checkpoint checkpoint{.of = identity(), .updates = updates_, .stages = {}};
    for (std::size_t s = 0; s < interfaces_.size(); ++s) {
      CheckpointStage stage;
      StageWeights::State state;
      if (owns(StageId(s))) state = owner_of(StageId(s)).weights(StageId(s)).state();
      if (sharded(StageId(s))) {
        const auto tensors = from_owner(StageId(s), {static_cast<double>(state.tensors.size())});
        state.tensors.resize(static_cast<std::size_t>(tensors[0]));
        for (std::size_t k = 0; k < state.tensors.size(); ++k)
          state.tensors[k] =
              whole(StageId(s), [&](TorchWorker& w, StageId id) { return w.weights(id).state().tensors[k]; });
      }
      if (owns(StageId(s))) {
        for (const at::Tensor& buffer : owner_of(StageId(s)).module(StageId(s)).buffers())
          state.tensors.push_back(buffer.to(context_.options.dtype()).contiguous().flatten());
        for (at::Tensor& tensor : state.tensors) tensor = tensor.cpu();
        stage = {state.numbers, state.tensors};
      }
      if (processes()) bring(stage, placement_.stages[s].front().value);
      checkpoint.stages.push_back(std::move(stage));
    }
    agree_on_error(processes(), [&] {
      if (!processes() || processes()->rank() == 0) write_checkpoint(checkpoint, path);
    });
  }

  void load(const std::string& path) override {
    const c10::InferenceMode no_autograd;
    Checkpoint checkpoint;
    agree_on_error(processes(), [&] { checkpoint = read_checkpoint(path, identity(), context_.options); });
    for (std::size_t s = 0; s < interfaces_.size(); ++s) {
      CheckpointStage& stage = checkpoint.stages.at(s);
      for (const Rank r : placement_.stages[s]) {
        if (!here(r)) continue;
        const std::vector<at::Tensor> buffers = worker(r.index()).module(StageId(s)).buffers();
        const std::size_t own = stage.tensors.size() - buffers.size();
        for (std::size_t b = 0; b < buffers.size(); ++b)
          buffers[b].copy_(stage.tensors[own + b].view(buffers[b].sizes()));
        worker(r.index())
            .weights(StageId(s))
            .restore(
                {{stage.tensors.begin(), stage.tensors.begin() + static_cast<std::ptrdiff_t>(own)}, stage.numbers});
      }
    }
    updates_ = checkpoint.updates;
  }

  std::vector<MemoryByKind> peak_memory() const override {
    std::vector<MemoryByKind> peaks;
    if (processes()) {
      ByteWriter own;
      own.value(worker(static_cast<std::size_t>(processes()->rank())).counters()->peak());
      for (const std::string& bytes : processes()->all_gather(own.bytes()))
        peaks.push_back(ByteReader(bytes).value<MemoryByKind>());
      return peaks;
    }
    for (std::size_t r = 0; r < workers_.size(); ++r) peaks.push_back(worker(r).counters()->peak());
    return peaks;
  }
  void reset_peak_memory() override {
    for (std::size_t r = 0; r < workers_.size(); ++r)
      if (here(Rank(r))) worker(r).counters()->reset_peak();
  }
  std::vector<double> weights(int layer) const override {
    return of_layer(layer, [](TorchWorker& w, StageId s) { return w.weights(s).newest_flat(); });
  }
  std::vector<double> gradients(int layer) const override {
    return of_layer(layer, [](TorchWorker& w, StageId s) { return w.weights(s).gradients_flat(); });
  }
  std::int64_t updates_done() const override { return updates_; }

 private:
  ProcessGroup* processes() const { return spec_.processes; }
  bool here(Rank rank) const { return !processes() || processes()->rank() == rank.value; }
  bool owns(StageId stage) const { return here(placement_.stages[stage.index()].front()); }

  struct RankLosses {
    std::vector<double> losses;
    std::vector<int> parts;
  };
  std::vector<RankLosses> losses_of_ranks() const {
    std::vector<RankLosses> all;
    if (!processes()) {
      for (std::size_t r = 0; r < workers_.size(); ++r) all.push_back({worker(r).losses(), worker(r).loss_parts()});
      return all;
    }
    const TorchWorker& own = worker(static_cast<std::size_t>(processes()->rank()));
    ByteWriter out;
    out.list(own.losses());
    out.list(own.loss_parts());
    for (const std::string& bytes : processes()->all_gather(out.bytes())) {
      ByteReader in(bytes);
      in.list(all.emplace_back().losses);
      in.list(all.back().parts);
    }
    return all;
  }

  std::vector<std::vector<double>> kept_weights(StageId stage) const {
    const auto& ranks = placement_.stages[stage.index()];
    std::vector<std::vector<double>> kept = kept_by(ranks.front(), stage);
    if (!sharded(stage)) return kept;
    for (std::size_t k = 1; k < ranks.size(); ++k) {
      const auto slices = kept_by(ranks[k], stage);
      for (std::size_t u = 0; u < kept.size(); ++u) kept[u].insert(kept[u].end(), slices[u].begin(), slices[u].end());
    }
    for (auto& update : kept) update.resize(static_cast<std::size_t>(size_of(stage)));
    return kept;
  }

  std::vector<std::vector<double>> kept_by(Rank rank, StageId stage) const {
    if (!processes()) return worker(rank.index()).kept_weights(stage);
    ByteWriter out;
    if (here(rank)) {
      const auto& own = worker(rank.index()).kept_weights(stage);
      out.value(own.size());
      for (const auto& update : own) out.list(update);
    }
    const std::string bytes = processes()->broadcast(out.bytes(), rank.value);
    ByteReader in(bytes);
    std::vector<std::vector<double>> kept(in.value<std::size_t>());
    for (auto& update : kept) in.list(update);
    return kept;
  }

  // What a stage's owner keeps of it, to the first process, which writes it down.
  void bring(CheckpointStage& stage, int owner) const {
    if (owner == 0) return;
    if (processes()->rank() == owner) {
      send_tensors(*processes(), 0, stage.tensors);
      processes()->send(0, std::as_bytes(std::span(stage.numbers)));
    } else if (processes()->rank() == 0) {
      stage.tensors = receive_tensors(*processes(), owner);
      const std::vector<std::byte> numbers = processes()->receive(owner);
      stage.numbers.resize(numbers.size() / sizeof stage.numbers[0]);
      std::memcpy(stage.numbers.data(), numbers.data(), numbers.size());
    }
  }

  // After a divergence: the losses up to the first update that lacks a micro-batch's part.
  void drop_unfinished_losses(const std::vector<RankLosses>& ranks, std::vector<double>& losses) const {
    std::size_t whole = 0;
    const auto parts = [&](std::size_t u) {
      int sum = 0;
      for (const RankLosses& rank : ranks) sum += rank.parts[u];
      return sum;
    };
    const TorchWorker& any = worker(processes() ? static_cast<std::size_t>(processes()->rank()) : 0);
    while (whole < losses.size() && parts(whole) == any.micros_of_update(whole)) ++whole;
    losses.resize(whole);
  }

  // A flat tensor of a stage; of a sharded one this rank's slice.
  using FlatOf = std::function<at::Tensor(TorchWorker&, StageId)>;
  // By stage and parameter.
  using WeightsOf = std::vector<std::vector<at::Tensor>>;

  static bool keeps_whole(const Sharding& s) { return s.gather == Sharding::Gather::after_step; }
  bool sharded(StageId stage) const { return spec_.sharding.active() && placement_.stages[stage.index()].size() > 1; }
  // A flat tensor of the whole stage, put together where it is sharded. With a process group a collective
  // call; undefined where the process neither owns the stage nor is it sharded.
  at::Tensor whole(StageId stage, const FlatOf& flat) const {
    if (!sharded(stage)) return owns(stage) ? flat(owner_of(stage), stage) : at::Tensor();
    std::vector<at::Tensor> slices;
    for (const Rank r : placement_.stages[stage.index()]) {
      at::Tensor slice;
      if (here(r)) slice = flat(worker(r.index()), stage);
      slices.push_back(processes() ? broadcast_tensor(*processes(), slice, r.value) : slice);
      if (owns(stage)) slices.back() = slices.back().to(owner_of(stage).device());
    }
    return at::cat(slices).narrow(0, 0, size_of(stage));
  }
  std::int64_t size_of(StageId stage) const {  // parameters
    std::int64_t size = 0;
    for (const int l : spec_.plan.stages[stage.index()].layers)
      size += parameter_count(spec_.model.layers[static_cast<std::size_t>(l)]);
    return size;
  }

  // flat: what every stage reads, its newest weights or a snapshot's.
  Evaluation evaluate_with(const FlatOf& flat) const {
    WeightsOf weights;
    for (std::size_t s = 0; s < interfaces_.size(); ++s)
      if (const at::Tensor all = whole(StageId(s), flat); owns(StageId(s)))
        weights.push_back(owner_of(StageId(s)).weights(StageId(s)).views_of(all));
      else
        weights.emplace_back();
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
      if (!owns(loss_stage_)) continue;
      result.loss += loss.item<double>() * static_cast<double>(indices.size());
      if (target.scalar_type() == at::kLong) {
        // Padding (-100) is no class, so it is never hit.
        correct += prediction.argmax(-1).cpu().eq(target).sum().item<double>();
        scored += target.ge(0).sum().item<double>();
      }
    }
    result.loss /= static_cast<double>(n);
    result.accuracy = scored > 0 ? correct / scored : 0;
    if (processes()) {
      ByteWriter out;
      out.value(result.loss);
      out.value(result.accuracy);
      const std::string bytes = processes()->broadcast(out.bytes(), loss_owner());
      ByteReader in(bytes);
      in.value(result.loss);
      in.value(result.accuracy);
    }
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
  int loss_owner() const { return placement_.stages[loss_stage_.index()].front().value; }

  // The model's output, stage after stage; with a process group only where the loss is.
  Prediction predict(const std::vector<at::Tensor>& inputs, const at::Tensor& target, const WeightsOf& weights) const {
    std::map<int, at::Tensor> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) values[-1 - static_cast<int>(i)] = inputs[i];
    Prediction result;
    for (std::size_t s = 0; s < interfaces_.size(); ++s) {
      if (!owns(StageId(s))) {
        if (reads(processes()->rank(), s)) {
          const auto out = receive_tensors(*processes(), placement_.stages[s].front().value);
          for (std::size_t k = 0; k < out.size(); ++k) values[interfaces_[s].sends[k]] = out[k];
        }
        continue;
      }
      TorchWorker& owner = owner_of(StageId(s));
      std::vector<at::Tensor> received;
      for (const int producer : interfaces_[s].receives) received.push_back(values.at(producer).to(owner.device()));
      const auto out = owner.module(StageId(s))
                           .forward(received, weights[s], target.to(owner.device()), {.training = false}, nullptr,
                                    &result.loss, &result.prediction);
      for (std::size_t k = 0; k < out.size(); ++k) values[interfaces_[s].sends[k]] = out[k];
      for (int p = 0; processes() && p < processes()->size(); ++p)
        if (p != processes()->rank() && reads(p, s)) send_tensors(*processes(), p, out);
    }
    return result;
  }

  // Whether a process owns a stage that reads what `from` hands on.
  bool reads(int process, std::size_t from) const {
    for (std::size_t s = 0; s < interfaces_.size(); ++s)
      if (placement_.stages[s].front().value == process)
        for (const int producer : interfaces_[s].receives)
          if (std::ranges::count(interfaces_[from].sends, producer) > 0) return true;
    return false;
  }

  // Greedy decoding of a chunk: see Decoding.
  std::vector<std::vector<std::int32_t>> generate(const Decoding& decoding, std::vector<at::Tensor> inputs,
                                                  const WeightsOf& weights) const {
    const std::int64_t n = inputs[1].size(0), most = inputs[1].size(1);
    std::vector<std::vector<std::int32_t>> texts(static_cast<std::size_t>(n));
    std::vector<bool> ended(texts.size(), false);
    at::Tensor prefix = at::full({n, 1}, decoding.begin, at::kLong);
    for (std::int64_t length = 1; length <= most && std::ranges::count(ended, false) > 0; ++length) {
      inputs[1] = prefix;
      const Prediction all = predict(inputs, at::zeros_like(prefix), weights);
      at::Tensor next;
      if (owns(loss_stage_)) next = all.prediction.select(1, length - 1).argmax(-1).cpu();
      if (processes()) next = broadcast_tensor(*processes(), next, loss_owner());
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

  std::vector<RankDevice*> rank_devices() const {
    std::vector<RankDevice*> all;
    for (const auto& device : devices_) all.push_back(device.get());
    return all;
  }
  RankDevice* device_of(std::size_t rank) const { return devices_.empty() ? nullptr : devices_[rank].get(); }
  std::unique_ptr<Transport> make_transport(const Program& program) {
    if (nccl_) return nccl_->make(program);
    if (processes()) return processes()->transport(program, codec_);
    if (!devices_.empty()) return make_device_thread_transport(program, rank_devices());
    return make_thread_transport(program);
  }

  TorchWorker& worker(std::size_t r) const { return static_cast<TorchWorker&>(*workers_[r]); }

  TorchWorker& owner_of(StageId stage) const { return worker(placement_.stages[stage.index()].front().index()); }

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
  std::vector<double> of_layer(int layer, const FlatOf& flat) const {
    for (std::size_t s = 0; s < spec_.plan.stages.size(); ++s) {
      std::int64_t offset = 0;
      for (const int l : spec_.plan.stages[s].layers) {
        const std::int64_t n = parameter_count(spec_.model.layers[static_cast<std::size_t>(l)]);
        if (l == layer) {
          const at::Tensor all = whole(StageId(s), flat);
          if (!owns(StageId(s))) return from_owner(StageId(s), std::vector<double>());
          const at::Tensor part = all.narrow(0, offset, n).to(at::kDouble).cpu().contiguous();
          return from_owner(StageId(s), std::vector<double>(part.data_ptr<double>(), part.data_ptr<double>() + n));
        }
        offset += n;
      }
    }
    throw std::logic_error("layer " + std::to_string(layer) + " is in no stage");
  }

  std::vector<double> from_owner(StageId stage, std::vector<double> values) const {
    if (!processes()) return values;
    ByteWriter out;
    out.list(values);
    const std::string bytes = processes()->broadcast(out.bytes(), placement_.stages[stage.index()].front().value);
    ByteReader(bytes).list(values);
    return values;
  }

  std::vector<std::vector<at::Tensor>> starting_weights() const {
    if (!spec_.initial) return initial_weights(spec_.model, spec_.seed, context_.options);
    std::vector<std::vector<at::Tensor>> result;
    for (std::size_t l = 0; l < spec_.model.layers.size(); ++l) {
      auto& tensors = result.emplace_back();
      const auto specs = parameters(spec_.model.layers[l]);
      for (std::size_t p = 0; p < specs.size(); ++p)
        tensors.push_back(
            at::tensor((*spec_.initial)[l][p], at::kDouble).view(specs[p].shape).to(context_.options.dtype()));
    }
    return result;
  }

  // The batch of the peers' benchmark: g = Generator(seed 7); x = randn(g); y = randn(g).
  void make_synthetic_batch() {
    if (spec_.synthetic_batch < 1) throw std::logic_error("a session without a feed needs synthetic_batch");
    const auto with_batch = [&](const Shape& shape) {
      std::vector<std::int64_t> full{spec_.synthetic_batch};
      full.insert(full.end(), shape.begin(), shape.end());
      return full;
    };
    const ModelGraph& model = spec_.model;
    const std::vector<Shape> shapes = model.shapes();
    at::Generator generator = at::detail::createCPUGenerator(7);
    if (model.inputs.front().is_token_ids) {
      context_.synthetic_features =
          at::randint(1, vocabulary(), with_batch(model.inputs.front().shape), generator, at::kLong);
    } else {
      context_.synthetic_features =
          at::randn(with_batch(model.inputs.front().shape), generator, at::kFloat).to(context_.options.dtype());
    }
    const Shape& prediction = shapes[model.layers.size() - 2];
    if (std::holds_alternative<MseLoss>(model.layers.back().kind)) {
      context_.synthetic_targets =
          at::randn(with_batch(prediction), generator, at::kFloat).to(context_.options.dtype());
    } else {
      const Shape positions(prediction.begin(), prediction.end() - 1);
      context_.synthetic_targets = at::randint(prediction.back(), with_batch(positions), generator, at::kLong);
    }
  }

  // Of the embeddings that read the model's input.
  std::int64_t vocabulary() const {
    std::int64_t smallest = INT64_MAX;
    for (const LayerSpec& layer : spec_.model.layers)
      if (const auto* table = std::get_if<Embedding>(&layer.kind); table && layer.inputs[0] == -1)
        smallest = std::min(smallest, table->vocabulary);
    return smallest;
  }

  SessionSpec spec_;
  RunContext context_;
  std::vector<StageInterface> interfaces_;
  Placement placement_;
  std::vector<std::unique_ptr<RankDevice>> devices_;  // by rank, null elsewhere; empty: CPU
  std::unique_ptr<DeviceTransports> nccl_;
  StageId loss_stage_;
  TensorCodec codec_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::int64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<Session> make_session(const SessionSpec& spec) { return std::make_unique<TorchSession>(spec); }

std::string torch_version() { return TORCH_VERSION; }

}  // namespace sluice
