#include "harness/program/numerics.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <utility>
#include <variant>

#include "harness/base/splitmix64.h"
#include "harness/pipeline/optimizer.h"

namespace sluice {

namespace {

// A value that a training computes, by what it is computed from. 0: there is none.
using Symbol = std::uint64_t;
using Symbols = std::vector<Symbol>;

enum class Value : std::uint64_t {
  initial,
  input,
  target,
  output,
  input_gradient,
  weight_gradient,
  loss_gradient,
  accumulated,
  reduced,
  sum,
  step,
  statistics,
  prediction,
  loss,
  end,
  instructions
};

class HashBuilder {
 public:
  explicit HashBuilder(Value kind) : symbol_(splitmix64(static_cast<Symbol>(kind) + 1)) {}
  template <class... Numbers>
  explicit HashBuilder(Value kind, Numbers... numbers) : HashBuilder(kind) {
    (add(numbers), ...);
  }
  template <class Number>
  HashBuilder& add(Number number) {
    if constexpr (std::is_floating_point_v<Number>)
      symbol_ = splitmix64(symbol_ ^ splitmix64(std::bit_cast<Symbol>(static_cast<double>(number))));
    else
      symbol_ = splitmix64(symbol_ ^ splitmix64(static_cast<Symbol>(number)));
    return *this;
  }
  template <class Number>
  HashBuilder& add(const std::vector<Number>& numbers) {
    return add(std::span<const Number>(numbers));
  }
  template <class Number>
  HashBuilder& add(std::span<const Number> numbers) {
    add(numbers.size());
    for (const Number number : numbers) add(number);
    return *this;
  }
  Symbol symbol() const { return symbol_; }

 private:
  Symbol symbol_;
};

void add_to(Symbol& sum, Symbol term) {
  if (term == 0) return;
  sum = sum == 0 ? term : HashBuilder(Value::sum, std::min(sum, term), std::max(sum, term)).symbol();
}

// What a step or a prediction of a stage depends on besides its operands.
void add_rule(HashBuilder& made, const WeightRule& rule, StageId stage) {
  using Delta = WeightRule::Delta;
  for (const Delta delta : {Delta::state, Delta::state_plus_gradient, Delta::momentum_only, Delta::first_moment,
                            Delta::weight_moving_average, Delta::update_moving_average})
    made.add(uses_delta(rule, stage, delta));  // a direction that is kept changes the step's operations
  made.add(rule.decay_in_delta);
  if (!rule.update_average_decay.empty()) made.add(rule.update_average_decay[stage.index()]);
  const bool feedback = rule.error_feedback != WeightRule::ErrorFeedback::none;
  made.add(static_cast<int>(rule.error_feedback)).add(feedback && rule.decay_in_feedback);
  const StageCorrections& own = rule.corrections;
  const int delay = own.discount_updates > 0 && !own.delay.empty() ? own.delay[stage.index()] : 0;
  made.add(delay).add(delay > 0 ? own.discount_updates : 0);
  made.add(own.beta1_rise.empty() ? 0.0 : own.beta1_rise[stage.index()]);
  const PipeMareCorrections& corrections = rule.pipemare;
  made.add(corrections.delay.size());
  if (corrections.delay.empty()) return;
  made.add(corrections.delay[stage.index()]).add(corrections.anneal_updates).add(corrections.moving_average_decay);
}

// Programs that are not run on symbols: all that they are made of.
Symbol of_instructions(const Program& program, const Plan& plan, const NumericsOptions& options) {
  HashBuilder made(Value::instructions, options.batched_weight_gradients, options.snapshots, program.microbatches,
                   program.updates, program.microbatches_per_update);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    made.add(plan.stages[s].layers)
        .add(program.graph.microbatches_per_op_of(StageId(s)))
        .add(plan.stages[s].passed_channels);
    for (const Rank rank : program.placement.stages[s]) made.add(rank.value);
    made.add(program.retained_versions[s]).add(program.microbatches_per_step[s]);
    add_rule(made, program.rule, StageId(s));
  }
  made.add(program.placement.replica_of);
  if (program.sequence_chunks > 1) made.add(program.sequence_chunks).add(plan.sequence_cut);
  if (program.sizes.differ()) made.add(program.sizes.samples());
  for (const Rank rank : program.placement.weight_gradient_ranks) made.add(rank.value);
  made.add(static_cast<int>(program.rule.backward))
      .add(static_cast<int>(program.rule.forward_delta))
      .add(static_cast<int>(program.rule.backward_delta))
      .add(static_cast<int>(program.policy.leftover))
      .add(static_cast<int>(program.sharding.gather))
      .add(static_cast<int>(program.sharding.reduce));
  for (const auto& rank : program.ranks) {
    made.add(rank.size());
    for (const Instruction& i : rank)
      made.add(static_cast<int>(i.opcode))
          .add(i.checkpoint)
          .add(i.horizon)
          .add(i.stage.value)
          .add(i.micro.value)
          .add(i.peer_stage.value)
          .add(i.channel)
          .add(i.version)
          .add(i.prediction);
  }
  return made.symbol();
}

// A stage as its layers are connected. Places: what the stage receives, then its layers' outputs.
struct StageLayers {
  std::vector<int> layers;
  StageInterface interface;
  std::vector<std::vector<std::size_t>> inputs;  // per layer: places
  std::vector<bool> learns, has_statistics;      // per layer
  std::vector<std::size_t> sends;                // places
  bool has_loss = false;
};

StageLayers stage_layers(const ModelGraph& model, const std::vector<int>& layers, const StageInterface& interface) {
  StageLayers stage{
      .layers = layers, .interface = interface, .inputs = {}, .learns = {}, .has_statistics = {}, .sends = {}};
  std::map<int, std::size_t> place_of;  // by producer
  for (const int producer : interface.receives) place_of.emplace(producer, place_of.size());
  for (const int l : layers) {
    const LayerSpec& layer = model.layers[l];
    auto& inputs = stage.inputs.emplace_back();
    for (const int producer : layer.inputs) inputs.push_back(place_of.at(producer));
    place_of.emplace(l, place_of.size());
    stage.learns.push_back(learns(layer));
    const auto* module = std::get_if<Module>(&layer.kind);
    stage.has_statistics.push_back(std::holds_alternative<BatchNorm>(layer.kind) ||
                                   (module && !module->buffers.empty()));
    stage.has_loss |= is_loss(layer.kind);
  }
  for (const int producer : interface.sends) stage.sends.push_back(place_of.at(producer));
  return stage;
}

class SymbolicRun {
 public:
  SymbolicRun(const Program& program, const ModelGraph& model, const Plan& plan, const NumericsOptions& options)
      : program_(program),
        options_(options),
        next_(program.ranks.size(), 0),
        arrived_(program.graph.size()),
        released_(program.ranks.size(), false),
        losses_(program.ranks.size(), 0),
        in_transit_(program.channels.size()) {
    const std::vector<int> stage_of = stage_of_layers(plan, model.layers.size());
    const auto all = interfaces(model, stage_of, static_cast<int>(plan.stages.size()));
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      stages_.push_back(stage_layers(model, plan.stages[s].layers, all[s]));
    for (std::size_t s = 0; s < stages_.size(); ++s)
      for (const Rank rank : program.placement.stages[s]) held_[{rank, StageId(s)}] = initial(s);
  }

  Symbol run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < next_.size(); ++r)
        while (next_[r] < program_.ranks[r].size() && execute(Rank(r), program_.ranks[r][next_[r]])) {
          ++next_[r];
          moved = true;
        }
    }
    return end();
  }

 private:
  struct Slot {
    Symbols received, outputs;                  // per interface.receives; per interface.sends
    Symbols output_gradients, input_gradients;  // per interface.sends; per interface.receives
    Symbols layer_outputs, weight_gradients;    // per layer
  };
  // A stage on one of its ranks.
  struct Held {
    std::vector<Symbols> versions;     // [version of the program][layer]
    std::vector<Symbols> predictions;  // [id][layer]
    Symbols gradients, statistics;     // per layer
    std::map<int, Slot> slots;         // per micro-batch
  };

  Held initial(std::size_t s) const {
    const StageLayers& stage = stages_[s];
    Held held;
    auto& weights = held.versions.emplace_back();
    for (const int layer : stage.layers) weights.push_back(HashBuilder(Value::initial, layer, 0).symbol());
    held.predictions.resize(program_.predictions[s]);
    held.gradients.assign(stage.layers.size(), 0);
    held.statistics.assign(stage.layers.size(), 0);
    return held;
  }

  Held& held(Rank rank, StageId stage) { return held_.at({rank, stage}); }
  const StageLayers& layers(StageId stage) const { return stages_[stage.index()]; }

  // False: the rank waits.
  bool execute(Rank rank, const Instruction& i) {
    if (is_send(i.opcode)) {
      in_transit_[i.channel].push_back(message(rank, i));
      return true;
    }
    if (is_receive(i.opcode)) {
      auto& channel = in_transit_[i.channel];
      if (channel.empty()) return false;
      receive(rank, i, channel.front());
      channel.pop_front();
      return true;
    }
    switch (i.opcode) {
      case Opcode::forward:
        forward(rank, i, false);
        losses(rank, i);
        hand_on(rank, i);
        break;
      case Opcode::recompute:
        forward(rank, i, true);
        break;
      case Opcode::backward:
        input_gradient(rank, i);
        weight_gradient(rank, i);
        break;
      case Opcode::input_gradient:
        input_gradient(rank, i);
        break;
      case Opcode::weight_gradient:
        weight_gradient(rank, i);
        break;
      case Opcode::reduce_gradients:
        return reduce(rank, i.stage);
      case Opcode::optimizer_step:
        step(rank, i);
        break;
      default:
        break;
    }
    return true;
  }

  // The weights that an op reads, per layer of its stage.
  Symbols read(Held& h, const Instruction& i) {
    const auto version_of = [&](std::int32_t version) {
      if (version >= 0) return h.versions.at(version);
      Symbols before;  // a version that an earlier run of the program has made
      for (const int layer : layers(i.stage).layers)
        before.push_back(HashBuilder(Value::initial, layer, version).symbol());
      return before;
    };
    if (i.prediction < 0) return version_of(i.version);
    Symbols& prediction = h.predictions[i.prediction];
    if (!prediction.empty()) return prediction;
    prediction = version_of(i.version);
    const WeightRule& rule = program_.rule;
    const bool of_forward = i.opcode == Opcode::forward || rule.backward == WeightRule::Backward::same_as_forward;
    const int update = i.version * program_.microbatches_per_step[i.stage.index()] / program_.microbatches_per_update;
    for (Symbol& weights : prediction)
      weights = HashBuilder(Value::prediction, weights, i.horizon, update,
                            static_cast<int>(of_forward ? rule.forward_delta : rule.backward_delta))
                    .symbol();
    return prediction;
  }

  void forward(Rank rank, const Instruction& i, bool again) {
    const StageLayers& stage = layers(i.stage);
    Held& h = held(rank, i.stage);
    Slot& slot = h.slots[i.micro.value];
    const auto& receives = stage.interface.receives;
    slot.received.resize(receives.size(), 0);
    for (std::size_t k = 0; k < receives.size(); ++k)
      if (receives[k] < 0) slot.received[k] = HashBuilder(Value::input, receives[k], i.micro.value).symbol();
    const Symbols weights = read(h, i);
    Symbols values = slot.received;
    slot.layer_outputs.clear();
    for (std::size_t l = 0; l < stage.layers.size(); ++l) {
      HashBuilder output(Value::output, stage.layers[l], stage.learns[l] ? weights[l] : 0);
      for (const std::size_t place : stage.inputs[l]) output.add(values[place]);
      if (stage.has_loss && l + 1 == stage.layers.size())
        output.add(HashBuilder(Value::target, i.micro.value).symbol());
      values.push_back(output.symbol());
      slot.layer_outputs.push_back(output.symbol());
      if (stage.has_statistics[l] && !again)
        h.statistics[l] = HashBuilder(Value::statistics, h.statistics[l], output.symbol()).symbol();
    }
    slot.outputs.clear();
    for (const std::size_t place : stage.sends) slot.outputs.push_back(values[place]);
  }

  void losses(Rank rank, const Instruction& i) {
    if (!layers(i.stage).has_loss) return;
    const int update = i.micro.value / program_.microbatches_per_update;
    if (update == program_.updates) return;  // the end of a run, which is dropped
    Symbol& sum = losses_[rank.index()];
    sum = HashBuilder(Value::loss, sum, update, microbatches_of(update, program_.microbatches_per_update),
                      held(rank, i.stage).slots[i.micro.value].layer_outputs.back())
              .symbol();
  }

  int microbatches_of(int index, int per) const { return std::min(per, program_.microbatches - index * per); }

  // To the stages on the same rank; other ranks get messages.
  void hand_on(Rank rank, const Instruction& i) {
    for (const StageId next : program_.graph.successors[i.stage.index()])
      if (program_.placement.rank_of(next, i.micro) == rank)
        put_activations(rank, next, i.micro, i.stage, activations(rank, i.stage, i.micro, next));
  }
  void hand_back(Rank rank, const Instruction& i) {
    for (const StageId before : program_.graph.predecessors[i.stage.index()])
      if (program_.placement.rank_of(before, i.micro) == rank)
        put_gradients(rank, before, i.micro, i.stage, gradients(rank, i.stage, i.micro, before));
  }

  Symbols activations(Rank rank, StageId stage, Micro micro, StageId to) {
    const Slot& slot = held(rank, stage).slots[micro.value];
    Symbols values;
    const auto& sends = layers(stage).interface.sends;
    for (std::size_t k = 0; k < sends.size(); ++k)
      if (std::ranges::count(layers(to).interface.receives, sends[k]) > 0) values.push_back(slot.outputs[k]);
    return values;
  }
  void put_activations(Rank rank, StageId stage, Micro micro, StageId from, const Symbols& values) {
    Slot& slot = held(rank, stage).slots[micro.value];
    const auto& receives = layers(stage).interface.receives;
    slot.received.resize(receives.size(), 0);
    std::size_t next = 0;
    for (const int producer : layers(from).interface.sends)
      if (const auto found = std::ranges::find(receives, producer); found != receives.end())
        slot.received[found - receives.begin()] = values.at(next++);
  }
  Symbols gradients(Rank rank, StageId stage, Micro micro, StageId to) {
    const Slot& slot = held(rank, stage).slots[micro.value];
    Symbols values;
    const auto& receives = layers(stage).interface.receives;
    for (const int producer : layers(to).interface.sends)
      if (const auto found = std::ranges::find(receives, producer); found != receives.end())
        values.push_back(slot.input_gradients.at(found - receives.begin()));
    return values;
  }
  void put_gradients(Rank rank, StageId stage, Micro micro, StageId from, const Symbols& values) {
    Slot& slot = held(rank, stage).slots[micro.value];
    const auto& sends = layers(stage).interface.sends;
    slot.output_gradients.resize(sends.size(), 0);
    std::size_t next = 0;
    for (std::size_t k = 0; k < sends.size(); ++k)
      if (std::ranges::count(layers(from).interface.receives, sends[k]) > 0)
        add_to(slot.output_gradients[k], values.at(next++));
  }

  Symbols message(Rank rank, const Instruction& i) {
    if (i.opcode == Opcode::send_activation) return activations(rank, i.stage, i.micro, i.peer_stage);
    if (i.opcode == Opcode::send_gradient) return gradients(rank, i.stage, i.micro, i.peer_stage);
    return {};  // that a rank has stepped
  }
  void receive(Rank rank, const Instruction& i, const Symbols& values) {
    if (i.opcode == Opcode::receive_activation) put_activations(rank, i.stage, i.micro, i.peer_stage, values);
    if (i.opcode == Opcode::receive_gradient) put_gradients(rank, i.stage, i.micro, i.peer_stage, values);
  }

  void input_gradient(Rank rank, const Instruction& i) {
    const StageLayers& stage = layers(i.stage);
    Held& h = held(rank, i.stage);
    Slot& slot = h.slots[i.micro.value];
    const Symbols weights = read(h, i);
    const std::size_t received = stage.interface.receives.size();
    Symbols sums(received + stage.layers.size(), 0);  // by place
    slot.output_gradients.resize(stage.sends.size(), 0);
    for (std::size_t k = 0; k < stage.sends.size(); ++k) sums[stage.sends[k]] = slot.output_gradients[k];
    slot.weight_gradients.assign(stage.layers.size(), 0);
    for (std::size_t l = stage.layers.size(); l-- > 0;) {
      Symbol gradient = sums[received + l];
      if (stage.has_loss && l + 1 == stage.layers.size())
        gradient = HashBuilder(Value::loss_gradient, program_.microbatches_per_update).symbol();
      if (gradient == 0) continue;
      const Symbol read_here = stage.learns[l] ? weights[l] : 0;
      for (std::size_t k = 0; k < stage.inputs[l].size(); ++k)
        add_to(sums[stage.inputs[l][k]],
               HashBuilder(Value::input_gradient, stage.layers[l], k, gradient, read_here, slot.layer_outputs[l])
                   .symbol());
      slot.weight_gradients[l] =
          HashBuilder(Value::weight_gradient, stage.layers[l], gradient, read_here, slot.layer_outputs[l]).symbol();
    }
    slot.input_gradients.assign(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(received));
    hand_back(rank, i);
  }

  void weight_gradient(Rank rank, const Instruction& i) {
    Held& h = held(rank, i.stage);
    const Slot& slot = h.slots[i.micro.value];
    for (std::size_t l = 0; l < h.gradients.size(); ++l)
      if (layers(i.stage).learns[l])
        h.gradients[l] = HashBuilder(Value::accumulated, h.gradients[l], slot.weight_gradients[l]).symbol();
  }

  // All-reduce: adds up in the order of the replicas, once all of them have come.
  bool reduce(Rank rank, StageId stage) {
    const auto& replicas = program_.placement.stages[stage.index()];
    if (released_[rank.index()]) {
      released_[rank.index()] = false;
      return true;
    }
    auto& arrived = arrived_[stage.index()];
    if (std::ranges::count(arrived, rank) == 0) arrived.push_back(rank);
    if (arrived.size() < replicas.size()) return false;
    Symbols sums;
    for (std::size_t l = 0; l < layers(stage).layers.size(); ++l) {
      HashBuilder sum(Value::reduced, replicas.size());
      for (const Rank replica : replicas) sum.add(held(replica, stage).gradients[l]);
      sums.push_back(sum.symbol());
    }
    for (const Rank replica : replicas) {
      held(replica, stage).gradients = sums;
      released_[replica.index()] = replica != rank;
    }
    arrived.clear();
    return true;
  }

  void step(Rank rank, const Instruction& i) {
    Held& h = held(rank, i.stage);
    const int per_step = program_.microbatches_per_step[i.stage.index()];
    Symbols next;
    for (std::size_t l = 0; l < h.gradients.size(); ++l) {
      HashBuilder weights(Value::step, h.versions.back()[l], h.gradients[l], i.micro.value, per_step,
                          program_.microbatches_per_update, microbatches_of(i.version - 1, per_step));
      add_rule(weights, program_.rule, i.stage);
      if (options_.snapshots) weights.add(h.statistics[l]);
      next.push_back(weights.symbol());
    }
    h.versions.push_back(std::move(next));
    h.gradients.assign(h.gradients.size(), 0);
  }

  Symbol end() const {
    std::map<int, Symbol> layers;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const Held& h = held_.at({program_.placement.stages[s].front(), StageId(s)});
      for (std::size_t l = 0; l < stages_[s].layers.size(); ++l) {
        HashBuilder made(Value::end, h.versions.back()[l], h.statistics[l], program_.retained_versions[s]);
        for (int k = 1; k <= program_.retained_versions[s]; ++k)
          if (const auto version = static_cast<std::ptrdiff_t>(h.versions.size()) - 1 - k; version >= 0)
            made.add(h.versions[version][l]);
        layers[stages_[s].layers[l]] = made.symbol();
      }
    }
    HashBuilder made(Value::end, program_.updates, program_.microbatches_per_update);
    if (program_.sizes.differ()) made.add(program_.sizes.samples());
    for (const auto& [layer, symbol] : layers) made.add(layer).add(symbol);
    for (const Symbol sum : losses_)
      if (sum != 0) made.add(sum);
    return made.symbol();
  }

  const Program& program_;
  NumericsOptions options_;
  std::vector<StageLayers> stages_;
  std::map<std::pair<Rank, StageId>, Held> held_;
  std::vector<std::size_t> next_;           // per rank: the instruction it has come to
  std::vector<std::vector<Rank>> arrived_;  // per stage: at its all-reduce
  std::vector<bool> released_;              // per rank: from an all-reduce
  Symbols losses_;                          // per rank
  std::vector<std::deque<Symbols>> in_transit_;
};

}  // namespace

std::uint64_t numerics(const Program& program, const ModelGraph& model, const Plan& plan,
                       const NumericsOptions& options) {
  bool on_symbols = !options.batched_weight_gradients && program.sequence_chunks == 1 && program.step_groups.empty() &&
                    program.graph.loans.empty();
  for (std::size_t s = 0; s < program.graph.size(); ++s)
    if (program.sharded(StageId(s)) || program.placement.has_weight_gradient_rank(StageId(s)) ||
        program.graph.microbatches_per_op_of(StageId(s)) > 1 || plan.stages[s].passed_channels > 0)
      on_symbols = false;
  if (!on_symbols) return of_instructions(program, plan, options);
  return SymbolicRun(program, model, plan, options).run();
}

}  // namespace sluice
