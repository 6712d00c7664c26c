#include "harness/case/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/base/visible_text.h"
#include "harness/pipeline/rule_fault.h"
#include "harness/plan/make_plan.h"
#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/lowering.h"
#include "harness/program/message_order.h"
#include "harness/program/schedule_picture.h"
#include "harness/program/staleness.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"

namespace sluice {

namespace {

std::string text_of(const Options& options) {
  std::string text;
  for (const auto& [name, value] : options.values()) text += name + "=" + value + " ";
  return text;
}

// For systems that divide words: of contract_layers(), with a slice of the words in place of the loss for every rank,
// as long as the four layers of a stage.
CostGraph contract_slices(int ranks) {
  CostGraph graph = contract_layers(ranks);
  graph.layers.pop_back();
  for (int r = 0; r < ranks; ++r)
    graph.layers.push_back({"slice" + std::to_string(r),
                            {4 * ranks - 1},
                            Seconds(4e-3),
                            Seconds(4e-3),
                            Seconds(4e-3),
                            Seconds(0),
                            Bytes(0),
                            Bytes(0)});
  return graph;
}

// One problem: a number of ranks and of micro-batches under these options.
class Attempt {
 public:
  Attempt(const System& system, const Options& options, int ranks, int microbatches)
      : system_(system),
        options_(options),
        ranks_(ranks),
        microbatches_(microbatches),
        costs_(system.divides_words ? contract_slices(ranks) : contract_layers(ranks)),
        cluster_(latency_cluster(ranks, Seconds(0))) {}

  // Whether the program as lowered ends only where sends are buffered: the cycle of ranks; "": it ends in any case.
  const std::string& needs_buffered_sends() const { return needs_buffered_sends_; }

  // Throws the system's InputErrors.
  std::vector<ContractFault> faults() {
    const int devices = system_.one_process ? 1 : ranks_;
    Problem problem{costs_, cluster_, devices, 2L * microbatches_, microbatches_, {}};
    problem.simulate = [this](const PlannedPipeline& planned) { return simulated(planned.plan); };
    if (system_.divides_words)
      for (int l = 0; l < count_of(costs_.layers); ++l) problem.word_slices.push_back(std::max(-1, l - 4 * ranks_));
    const Plan plan = make_plan(system_, problem, options_).plan;
    const ScheduleProblem order = schedule_problem(plan);
    if (order.ranks > devices) add(fmt::format("its plan uses {} devices of {}", order.ranks, devices));
    check_chunks(order);
    check_replicas(plan);
    const Schedule schedule = system_.schedule(order, options_);
    if (schedule.whole_microbatches() != microbatches_ || schedule.sequence_chunks != order.sequence_chunks)
      add(fmt::format("its schedule is of {} micro-batches; begin with empty_schedule(problem)",
                      schedule.microbatches));
    for (const Violation& violation : check(schedule, order.graph, order.placement)) add(violation.text);
    if (has_pairs(schedule) && !(system_.pairs && system_.pairs(options_)))
      add("its schedule has overlapped pairs, .pairs says that it has none");
    if (!faults_.empty()) {
      faults_.front().drawing = drawing_until_fault(schedule, order.graph);
      return std::move(faults_);
    }
    const WeightRule rule = system_.weights(order, options_);
    if (const std::string fault = rule_fault(system_, rule); !fault.empty()) {
      add(fault);
      return std::move(faults_);
    }
    const Offload offload = system_.offload ? system_.offload(order, schedule, options_) : Offload{};
    const Program program = lower(schedule, order.graph, order.placement, rule, {}, {}, offload);
    for (const Violation& violation : check(program)) add(violation.text);
    if (!faults_.empty()) return std::move(faults_);
    check_messages_of(program);
    if (!faults_.empty()) return std::move(faults_);
    compare_with_theory(plan, program, schedule, system_.theory(order, options_));
    if (!faults_.empty()) faults_.front().drawing = drawing_until_fault(schedule, order.graph);
    return std::move(faults_);
  }

 private:
  void add(const std::string& text) { faults_.push_back({"", text}); }

  void check_messages_of(const Program& program) {
    const Program ordered = in_rendezvous_order(program);
    for (const Violation& violation : check(ordered)) add("messages in rendezvous order: " + violation.text);
    for (const Violation& violation : check_messages(ordered, SendEnd::rendezvous))
      add("messages in rendezvous order: " + violation.text);
    for (const Violation& violation : check_messages(program, SendEnd::rendezvous))
      needs_buffered_sends_ = violation.text;
  }

  ScheduleProblem schedule_problem(const Plan& plan) const {
    const RankMap map = ranks_of(plan);
    ScheduleProblem problem{
        stage_graph(plan, costs_), map.placement, count_of(map.devices), microbatches_, {}, Seconds(0), per_update()};
    problem.sequence_chunks = plan.sequence.count;
    return problem;
  }

  // Systems that accumulate: the smallest number that divides and is no less than the ranks.
  int per_update() const {
    if (!system_.accumulates) return 1;
    int m = std::min(ranks_, microbatches_);
    while (microbatches_ % m != 0) ++m;
    return m;
  }

  Seconds simulated(const Plan& plan) const {
    const ScheduleProblem order = schedule_problem(plan);
    const Program program =
        lower(system_.schedule(order, options_), order.graph, order.placement, system_.weights(order, options_));
    return Seconds(
        simulate(program, costs_of(plan, costs_, cluster_), cluster_, ranks_of(plan).devices, {.trace = false}).end);
  }

  // What .replicates says of the plan: cases of systems that never replicate have no buckets of gradients.
  void check_replicas(const Plan& plan) {
    if ((!system_.plan && !system_.candidates) || system_.inference_only || system_.data_parallel) return;
    if (system_.replicates && system_.replicates(options_)) return;
    for (const PlanStage& stage : plan.stages)
      if (count_of(stage.devices) > stage.tensor)
        return add("its plan puts a stage on several devices, .replicates says that it never does");
  }

  // The stages that .chunks says are on every rank are those of the plan.
  void check_chunks(const ScheduleProblem& order) {
    if (!system_.plan && !system_.candidates) return;  // otherwise the plan is made of .chunks
    std::vector<int> held(static_cast<std::size_t>(order.ranks), 0);
    bool alone = true;
    for (const auto& ranks : order.placement.stages) {
      alone = alone && ranks.size() == 1;
      for (const Rank rank : ranks) ++held[rank.index()];
    }
    const int said = stages_per_rank(system_, options_);
    const bool even = std::ranges::count(held, held.front()) == static_cast<std::ptrdiff_t>(held.size());
    if (alone && ((system_.chunks && (!even || held.front() != said)) || (!system_.chunks && even && held.front() > 1)))
      add(fmt::format("its plan puts {} on a rank, .chunks says {}",
                      fmt::join(std::set(held.begin(), held.end()), " or "),
                      system_.chunks ? std::to_string(said) : "nothing, which means 1"));
  }

  void compare_with_theory(const Plan& plan, const Program& program, const Schedule& schedule, const Theory& theory) {
    const Costs times = costs_of(plan, costs_, cluster_);
    // A plan of uneven stages is no case of a formula for even ones.
    const bool even = std::ranges::all_of(times.stages, [&](const StageCost& stage) {
      return std::abs((stage.forward - times.stages[0].forward).value) < 1e-12;
    });
    const Simulation simulation = simulate(program, times, cluster_, ranks_of(plan).devices);
    if (theory.bubble_ratio && even && std::abs(simulation.bubble.bubble_ratio - *theory.bubble_ratio) > 1e-9)
      add(fmt::format("theory.bubble_ratio is {:.6f}, the virtual clock shows {:.6f}", *theory.bubble_ratio,
                      simulation.bubble.bubble_ratio));
    const std::vector<RankPeak> peak = peaks(schedule);
    const std::vector<RankMemory> held = memory(program, std::vector<StageMemory>(program.graph.size()));
    const std::vector<int> staleness = staleness_of(program);
    const auto compare = [&](const char* what, const std::vector<int>& promised, auto observed) {
      if (promised.empty()) return;
      if (promised.size() != program.rank_count()) {
        add(fmt::format("theory.{} has {} values for {} ranks", what, promised.size(), program.rank_count()));
        return;
      }
      for (std::size_t r = 0; r < promised.size(); ++r)
        if (observed(r) != promised[r])
          add(fmt::format("theory.{} of rank {} is {}, its order shows {}", what, r, promised[r], observed(r)));
    };
    compare("in_flight", theory.in_flight, [&](std::size_t r) { return peak[r].in_flight; });
    compare("weight_versions", theory.weight_versions, [&](std::size_t r) { return held[r].peak_versions; });
    compare("staleness", theory.staleness, [&](std::size_t r) { return staleness[r]; });
  }

  const System& system_;
  const Options& options_;
  int ranks_, microbatches_;
  CostGraph costs_;
  Cluster cluster_;
  std::vector<ContractFault> faults_;
  std::string needs_buffered_sends_;
};

void check_what_it_says(const System& system, ContractReport& report) {
  const auto add = [&](const std::string& text) { report.faults.push_back({"", text}); };
  if (!is_plain_name(system.name))
    add("'" + system.name + "' is no name: use lower-case letters, digits and _, a letter first");
  if (system.title.empty()) add("it has no .title");
  if (system.citation.empty()) add("it has no .citation");
  const Provenance& from = system.written_from;
  const bool ours_in_part = std::ranges::count(from.parts, WrittenFrom::ours, &Provenance::Part::from) > 0;
  if (ours_in_part && from.ours.empty())
    add(".written_from has parts that are ours, but its sentence that says what is ours is empty");
  if (!ours_in_part && from.system != WrittenFrom::ours && !from.ours.empty())
    add(".written_from has a sentence that says what is ours, but none of its parts is ours");
  if (!system.schedule) add("it has no .schedule");
  for (const OptionSpec& spec : system.options) {
    if (spec.help.empty()) add("option '" + spec.name + "' has no help text");
    try {
      resolve_options(system.options, {{spec.name, spec.default_value}}, system.name);
    } catch (const InputError& e) {
      add("the default of option '" + spec.name + "' is no value that a user could give: " + e.what());
    }
  }
  std::set<std::string> names = {system.name};
  for (const std::string& alias : system.aliases)
    if (!names.insert(alias).second) add("alias '" + alias + "' is there twice");
  for (const System* other : all_systems()) {
    if (other == &system) continue;
    for (const std::string& name : names)
      if (other->name == name || std::ranges::count(other->aliases, name) > 0)
        add("'" + name + "' is a name of " + other->name + ", too");
  }
}

}  // namespace

CostGraph contract_layers(int ranks) {
  CostGraph graph{.model = "uniform", .source = "contract", .device = "d", .micro_batch = 2, .layers = {}};
  for (int i = 0; i < 4 * ranks; ++i)
    graph.layers.push_back({"layer" + std::to_string(i),
                            {i - 1},
                            Seconds(1e-3),
                            Seconds(1e-3),
                            Seconds(1e-3),
                            Seconds(0),
                            Bytes(0),
                            Bytes(0)});
  LayerCost loss{.name = "loss", .inputs = {4 * ranks - 1}};
  loss.fused = true;
  graph.layers.push_back(loss);
  return graph;
}

std::vector<Options> contract_choices(const System& system) {
  std::vector<std::map<std::string, std::string>> given = {{}};
  for (const OptionSpec& spec : system.options) {
    std::vector<std::map<std::string, std::string>> longer;
    const std::vector<std::string> stages = {"1", "2", "4"};
    for (const std::string& choice : spec.name == "chunks" ? stages : spec.choices)
      for (auto values : given) {
        values[spec.name] = choice;
        longer.push_back(values);
      }
    if (!longer.empty()) given = longer;
  }
  std::vector<Options> result;
  std::set<std::map<std::string, std::string>> known;  // options without their partner are equal
  for (const auto& values : given) {
    Options options = resolve_options(system.options, values, system.name);
    if (known.insert(options.values()).second) result.push_back(std::move(options));
  }
  return result;
}

ContractReport check_contract(const System& system, const ContractOptions& limits) {
  ContractReport report;
  check_what_it_says(system, report);
  if (!system.schedule) return report;
  for (const Options& options : contract_choices(system)) {
    int taken = 0;
    const std::size_t before = report.faults.size();
    for (int ranks = 1; ranks <= limits.max_ranks; ++ranks)
      for (int microbatches = 1; microbatches <= limits.max_microbatches; ++microbatches) {
        if (report.faults.size() - before >= limits.max_faults) break;
        const std::string problem = text_of(options) + fmt::format("ranks={} microbatches={}", ranks, microbatches);
        if (limits.progress) limits.progress(problem);
        try {
          Attempt attempt(system, options, ranks, microbatches);
          for (ContractFault& fault : attempt.faults()) {
            fault.problem = problem;
            report.faults.push_back(std::move(fault));
          }
          if (!attempt.needs_buffered_sends().empty() && report.needs_buffered_sends.empty())
            report.needs_buffered_sends = problem + ": " + attempt.needs_buffered_sends();
          ++taken;
        } catch (const InputError& e) {
          ++report.rejected;
          if (std::string(e.what()).empty()) report.faults.push_back({problem, "it rejects without a text"});
          report.rejections.try_emplace(e.what(), problem);
        } catch (const std::exception& e) {
          report.faults.push_back({problem, std::string("it throws: ") + e.what()});
        }
      }
    report.taken += taken;
    if (taken < 6 && report.faults.size() == before)
      report.faults.push_back({text_of(options), fmt::format("takes {} of {} problems only", taken,
                                                             limits.max_ranks * limits.max_microbatches)});
  }
  if (system.theory == theory_of_a_flush)
    report.notes.push_back(
        "theory is left out: nothing is held against the paper's bubble ratio and activations in flight");
  return report;
}

std::string drawing_until_fault(const Schedule& schedule, const StageGraph& graph) {
  struct Done {
    double forward = -1, backward = -1;  // when it ended; negative: not yet
  };
  std::map<std::pair<int, int>, Done> done;  // of a stage's own op
  const std::size_t ranks = schedule.ranks.size();
  std::vector<std::size_t> next(ranks, 0);
  std::vector<double> now(ranks, 0);
  Trace trace{.ranks = std::vector<std::vector<TraceEvent>>(ranks), .sequence_chunks = schedule.sequence_chunks};
  const auto exists = [&](const Op& op) { return op.stage.value >= 0 && op.stage.index() < graph.size(); };
  // When the op may begin; negative: it waits.
  const auto ready = [&](const Op& op) -> double {
    if (!exists(op)) return 0;
    const Done& own = done[{op.stage.value, op.micro.value}];
    if (op.kind == OpKind::weight_gradient) return own.backward;
    const bool forward = op.kind == OpKind::forward;
    double at = forward ? 0 : own.forward;
    const auto& neighbours = forward ? graph.predecessors[op.stage.index()] : graph.successors[op.stage.index()];
    for (const StageId other : neighbours) {
      const MicroRange range = neighbour_ops(graph, op.stage, op.micro, other);
      for (int micro = range.first; micro < range.last; ++micro) {
        const Done& theirs = done[{other.value, micro}];
        const double end = forward ? theirs.forward : theirs.backward;
        if (end < 0) return -1;
        at = at < 0 ? at : std::max(at, end);
      }
    }
    return at;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < ranks; ++r)
      while (next[r] < schedule.ranks[r].size()) {
        const Op& op = schedule.ranks[r][next[r]];
        const double at = ready(op);
        if (at < 0) break;
        const double begin = std::max(at, now[r]), end = begin + (op.kind == OpKind::backward ? 2 : 1);
        Instruction instruction;
        instruction.opcode = opcode_of(op.kind);
        instruction.stage = op.stage;
        instruction.micro = op.micro;
        trace.ranks[r].push_back({instruction, begin, end});
        Done& own = done[{op.stage.value, op.micro.value}];
        if (op.kind == OpKind::forward) own.forward = end;
        if (op.kind == OpKind::backward || op.kind == OpKind::input_gradient) own.backward = end;
        now[r] = end;
        ++next[r];
        moved = true;
      }
  }
  std::string text;
  const bool any = std::ranges::any_of(trace.ranks, [](const auto& events) { return !events.empty(); });
  try {
    if (any) text = draw_schedule(trace);
  } catch (const InputError&) {  // too wide
  }
  for (std::size_t r = 0; r < ranks; ++r)
    if (next[r] < schedule.ranks[r].size())
      text +=
          fmt::format("rank {} stops before {}\n", r, to_text(schedule.ranks[r][next[r]], schedule.sequence_chunks));
  return text;
}

}  // namespace sluice
