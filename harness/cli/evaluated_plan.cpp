#include "harness/cli/evaluated_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "harness/base/error.h"
#include "harness/base/quantities.h"
#include "harness/base/visible_text.h"
#include "harness/case/model_work.h"
#include "harness/case/precision_rules.h"
#include "harness/case/predict_memory.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/profile_workload.h"
#include "harness/case/settings.h"
#include "harness/cli/chrome_trace.h"
#include "harness/cli/timeline_page.h"
#include "harness/model/pipeline_layout.h"
#include "harness/pipeline/tensor_members.h"
#include "harness/plan/stage_picture.h"
#include "harness/program/pytorch_table.h"

namespace sluice {

EvaluatedPlan evaluate_plan(const RunCase& c, ProfileStore& profiles) {
  EvaluatedPlan e{.c = c, .p = prepare(c, profiles)};
  e.program = program_of_updates(e.p);
  e.update_seconds = simulated_update(e.p, e.program).value;
  e.simulation = simulate(e.program, costs_of(e.p), e.p.cluster, e.p.ranks.devices, {.trace = false});
  e.memory = predicted_memory(e.p, e.program, c.optimizer);
  e.over = over_memory(e.p, e.memory);
  return e;
}

// "--stages: ..." for "stages: ...".
static InputError named_by_flag(const InputError& error) {
  const std::string text = error.what(), key = text.substr(0, text.find(": "));
  const auto setting = std::ranges::find(settings(), key, &Setting::key);
  if (key.size() == text.size() || setting == settings().end() || !setting->has_flag || system_called(key))
    return error;
  return {flag_of(*setting), text.substr(key.size() + 2)};
}

EvaluatedPlan fitting_plan(const RunCase& c, ProfileStore& profiles) {
  EvaluatedPlan e = [&] {
    try {
      return evaluate_plan(c, profiles);
    } catch (const InputError& error) {
      throw named_by_flag(error);
    }
  }();
  if (!e.over.empty())
    throw InputError("plan", e.over, "use more devices, smaller micro-batches or a cluster with more memory");
  return e;
}

static std::string title_of(const EvaluatedPlan& e) {
  return fmt::format("{}, {} on {}", e.p.system->title, e.c.workload, e.c.cluster);
}

static std::vector<std::string> rank_names(const EvaluatedPlan& e) {
  std::vector<std::string> names;
  for (std::size_t r = 0; r < e.p.ranks.devices.size(); ++r)
    names.push_back(fmt::format("rank {}: {}", r, e.p.cluster.devices[e.p.ranks.devices[r].index()].name));
  return names;
}

static Simulation traced(const EvaluatedPlan& e, const Costs& costs) {
  return simulate(e.program, costs, e.p.cluster, e.p.ranks.devices, {.trace = true});
}

std::string page_text(const EvaluatedPlan& e) {
  const std::string what = e.program.updates > 1 ? fmt::format("{} updates from the start", e.program.updates)
                                                 : std::string("one update from the start");
  return timeline_page(
      {.title = title_of(e),
       .about = fmt::format("{} samples per update; costs: {}", microbatches_text(e.p), e.p.costs.source),
       .what = what,
       .ranks = rank_names(e)},
      traced(e, costs_of(e.p)).trace);
}

std::string trace_text(const EvaluatedPlan& e) {
  const Costs costs = costs_of(e.p);
  const Simulation simulation = traced(e, costs);
  return chrome_trace({.title = title_of(e),
                       .program = e.program,
                       .trace = simulation.trace,
                       .ranks = rank_names(e),
                       .memory = memory(e.program, stage_memory(e.p, e.c.optimizer, e.program.rule), true)});
}

void print_warnings_of_profile(const RunCase& c) {
  if (const ProfileWorkload* profile = profile_workload(c.workload, c.costs))
    for (const std::string& warning : profile->warnings)
      fmt::print(stderr, "note: {}: {}\n", visible(c.workload), visible(warning));
}

Bytes EvaluatedPlan::peak() const {
  Bytes most(0);
  for (const RankMemory& rank : memory) most = std::max(most, rank.peak.total());
  return most;
}

std::optional<ModelRates> EvaluatedPlan::rates() const {
  const std::optional<ModelWork> work = model_work(c, p);
  return work ? std::optional(model_rates(*work, samples_per_second())) : std::nullopt;
}

RateColumns::RateColumns(const std::optional<ModelRates>& like)
    : tokens_(like && like->tokens_per_second), utilisation_(like && like->mfu) {}

std::string RateColumns::heading() const {
  return (tokens_ ? fmt::format(" {:>10}", "tokens/s") : "") +
         (utilisation_ ? fmt::format(" {:>11} {:>6}", "TFLOP/s/dev", "MFU") : "");
}

std::string RateColumns::cells(const std::optional<ModelRates>& rates) const {
  std::string text;
  if (tokens_) text += fmt::format(" {:>10.4g}", rates.value().tokens_per_second.value());
  if (utilisation_)
    text += fmt::format(" {:>11.3g} {:>5.1f}%", rates.value().tflops_per_device, 100 * rates.value().mfu.value());
  return text;
}

double exposed_communication(const EvaluatedPlan& plan) {
  Prepared free = plan.p;
  each_link(free.cluster, [](Link& link) {
    link.bandwidth = std::numeric_limits<double>::infinity();
    link.latency = Seconds(0);
  });
  return std::max(0.0, 1 - simulated_update(free, plan.program).value / plan.update_seconds);
}

Schedule schedule_of(const Program& program) {
  Schedule schedule = empty_schedule(static_cast<int>(program.ranks.size()), program.microbatches);
  schedule.sequence_chunks = program.sequence_chunks;
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    for (const Instruction& i : program.ranks[r]) {
      if (!is_scheduled(i.opcode)) continue;
      const OpKind kind = i.opcode == Opcode::forward          ? OpKind::forward
                          : i.opcode == Opcode::backward       ? OpKind::backward
                          : i.opcode == Opcode::input_gradient ? OpKind::input_gradient
                                                               : OpKind::weight_gradient;
      schedule.ranks[r].push_back({kind, i.stage, i.micro, i.overlapped});
    }
  return schedule;
}

PlanDescription description(const EvaluatedPlan& e) {
  return describe_plan(shared_plan(e.p.plan, group_size(e.p)), planned_costs(e.p), e.c.system,
                       Seconds(e.update_seconds));
}

// The program in which a tensor-parallel group is one rank.
static Program program_of_groups(const Prepared& p) {
  Prepared groups = p;
  groups.costs = p.member_costs;
  groups.tensor = nullptr;
  adopt_pipeline(groups, {p.pipeline, p.order});
  return program_of_updates(groups);
}

Schedule table_schedule(const EvaluatedPlan& plan) {
  return schedule_of(plan.p.tensor ? program_of_groups(plan.p) : plan.program);
}

std::string plan_table(const EvaluatedPlan& plan) {
  if (plan.p.tensor)
    fmt::print(stderr, "note: a rank of the table is a tensor-parallel group of {} devices\n", plan.p.tensor->degree);
  const Program program = plan.p.tensor ? program_of_groups(plan.p) : plan.program;
  const PyTorchTable table = pytorch_table(schedule_of(program), program, plan.c.system);
  for (const std::string& lost : table.lost) fmt::print(stderr, "note: not in the table: {}\n", lost);
  return table.csv;
}

constexpr std::size_t kLongestName = 24;  // of a layer, in a table: profiles name them by all their settings

// A line a stage: the seconds of F, I and W for the samples of one op, and the most that its first device holds.
static void print_stages(const Prepared& p, const Plan& plan, const std::vector<RankMemory>& memory) {
  const std::vector<StageCost> costs = stage_costs(p.plan, p.costs, p.cluster);
  const auto members = static_cast<std::size_t>(group_size(p));  // a stage of each: equal
  std::vector<std::string> devices, layers;
  std::size_t device_width = 7, layer_width = 6;
  for (const PlanStage& stage : plan.stages) {
    const auto name = [&](int l) { return shortened(visible(planned_costs(p).layers[l].name), kLongestName); };
    devices.push_back(device_list(stage.devices));
    layers.push_back(stage.layers.size() == 1 ? name(stage.layers.front())
                                              : name(stage.layers.front()) + " .. " + name(stage.layers.back()));
    device_width = std::max(device_width, devices.back().size());
    layer_width = std::max(layer_width, letters(layers.back()));
  }
  fmt::print("{:>5}  {:>{}}  {:<{}}  {:>7} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9}\n", "stage", "devices", device_width,
             "layers", layer_width, "samples", "F", "I", "W", "parameters", "in flight", "peak");
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlanStage& stage = plan.stages[s];
    const StageCost& cost = costs[s * members];
    const RankMemory& held = memory[p.ranks.placement.stages[s * members].front().index()];
    fmt::print("{:>5}  {:>{}}  {:<{}}  {:>7} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9}{}{}\n", s, devices[s], device_width,
               layers[s], layer_width, stage.microbatches_per_op * p.micro_batch, to_text(cost.forward),
               to_text(cost.input_gradient), to_text(cost.weight_gradient), to_text(cost.parameters + cost.frozen),
               held.peak_in_flight, to_text(held.peak.total()),
               stage.tensor > 1 ? fmt::format("  groups of {}", stage.tensor) : "",
               stage.recompute ? "  recomputes" : "");
  }
}

std::string layout_of(const EvaluatedPlan& e) {
  std::vector<int> first;
  int next = 0;
  for (const PlanStage& stage : e.p.pipeline.stages) {
    if (stage.layers.empty() || stage.layers.front() != next) return "";  // no chain
    if (next > 0) first.push_back(next);
    for (const int layer : stage.layers)
      if (layer != next++) return "";
  }
  return first.empty() || is_profile_workload(*e.p.workload) ? "" : layout_of_stages(first, e.p.workload->model);
}

std::size_t devices_of(const Plan& plan) {
  std::set<DeviceId> devices;
  for (const PlanStage& stage : plan.stages) devices.insert(stage.devices.begin(), stage.devices.end());
  return devices.size();
}

void print_plan(const EvaluatedPlan& e) {
  const Prepared& p = e.p;
  const Plan plan = shared_plan(p.plan, group_size(p));
  const StageGraph graph = p.tensor ? stage_graph(plan, p.member_costs) : p.graph;
  fmt::print("{} on {}: {} stage{}, {} deep, on {} of {} devices{}, {} samples per update, costs: {}{}\n",
             p.system->title, visible(p.cluster.name), plan.stages.size(), plan.stages.size() == 1 ? "" : "s",
             depth(graph), devices_of(p.plan), p.cluster.devices.size(),
             p.tensor ? fmt::format(" in tensor-parallel groups of {}", p.tensor->degree) : "", microbatches_text(p),
             visible(p.costs.source), counted_in(e.c));
  print_stages(p, plan, e.memory);
  fmt::print("\n{}\n", visible_lines(stage_picture(plan, graph)));
  if (const std::string layout = layout_of(e); !layout.empty()) fmt::print("layout (Megatron-LM): {}\n", layout);
  if (!p.plan.sequence_cut.empty())
    fmt::print("sequences are cut into {} chunks, at {}; in flight are chunks\n", p.plan.sequence.count,
               fmt::join(p.plan.sequence_cut, ", "));
  const SearchReport& search = p.plan.search;
  const std::optional<ModelRates> rates = e.rates();
  const std::string in_tokens_and_flops = rates ? to_text(*rates) : "";
  fmt::print("planner's objective ({}): {}; simulated: {} per update, {:.4g} samples/s, {}{}bubble {:.1f} %\n",
             search.objective_name, to_text(Seconds(search.objective)), to_text(Seconds(e.update_seconds)),
             e.samples_per_second(), in_tokens_and_flops, in_tokens_and_flops.empty() ? "" : ", ",
             100 * e.simulation.bubble.bubble_ratio);
  fmt::print("states visited: {}; search: {}{}\n", search.states, to_text(Seconds(search.seconds)),
             search.complete ? "" : " (cut short)");
}

}  // namespace sluice
