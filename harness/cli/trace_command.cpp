#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/base/json.h"
#include "harness/base/output_file.h"
#include "harness/base/visible_text.h"
#include "harness/cli/commands.h"
#include "harness/cli/schedule_figures.h"
#include "harness/model/cost_graph.h"
#include "harness/program/trace_figures.h"

namespace sluice {

namespace {

constexpr const char* kTracedOrder = "as traced";

// Of the virtual clock, at the costs of the trace.
struct SimulatedOrders {
  std::vector<OrderOfOps> orders;
  std::vector<ScheduleFigures> figures;
  std::vector<std::string> rejected;
  std::optional<std::size_t> traced;  // the order of the trace itself
};

// The costs of a model in `stages` stages of equal shares of its layers. The layers of a traced stage are taken to be
// alike, so that half of a traced stage takes half of its time.
OpCosts costs_in_stages(const TraceFigures& f, std::size_t stages) {
  OpCosts costs{.stages = std::vector<OpCosts::OfStage>(stages, {0, 0, 0}), .latency = f.latency};
  const double traced = static_cast<double>(f.stages.size()), n = static_cast<double>(stages);
  for (std::size_t s = 0; s < stages; ++s)
    for (std::size_t t = s * f.stages.size() / stages; t * stages < (s + 1) * f.stages.size(); ++t) {
      const double from = std::max(static_cast<double>(s) * traced / n, static_cast<double>(t));
      const double to = std::min(static_cast<double>(s + 1) * traced / n, static_cast<double>(t + 1));
      costs.stages[s].forward += (to - from) * f.stages[t].forward;
      costs.stages[s].input_gradient += (to - from) * f.stages[t].input_gradient;
      costs.stages[s].weight_gradient += (to - from) * f.stages[t].weight_gradient;
    }
  return costs;
}

void add_order(SimulatedOrders& all, OrderOfOps order) {
  all.figures.push_back(figures_of(order, {}));
  all.orders.push_back(std::move(order));
}

void add_traced_order(SimulatedOrders& all, const TracedRun& run, const TraceFigures& f) {
  try {
    OrderFromTable table = read_pytorch_table(table_of(run), kTracedOrder);
    if (!table.faults.empty()) throw InputError(kTracedOrder, table.faults.front().text);
    add_order(
        all, order_from_table(std::move(table), kTracedOrder, {}, costs_in_stages(f, f.stages.size()), CostsOf::stage));
    all.traced = all.orders.size() - 1;
  } catch (const InputError& e) {
    all.rejected.emplace_back(e.what());
  }
}

// A system with options, as they are given.
struct Candidate {
  const System* system = nullptr;
  std::map<std::string, std::string> options;
};

std::vector<Candidate> candidates_of(const TraceArguments& a) {
  const auto given = given_options(a.set);
  std::vector<const System*> systems =
      systems_named(a.system.empty() ? "gpipe,1f1b,interleaved_1f1b,zero_bubble" : a.system);
  reject_undeclared(systems, given);
  std::vector<Candidate> result;
  for (const System* system : systems) result.push_back({system, options_of(*system, given)});
  if (a.system.empty() && !given.contains("variant")) result.push_back({systems.back(), {{"variant", "v"}}});
  return result;
}

// Why the costs say nothing of orders on a chain of as many stages as ranks; empty: they do.
std::string no_other_orders(const TracedRun& run, const TraceFigures& f) {
  if (f.stages.size() < f.ranks.size())
    return fmt::format("{} stages on {} ranks are replicated: other orders are simulated for one pipeline",
                       f.stages.size(), f.ranks.size());
  const auto is_next = [](const std::pair<int, int>& edge) { return edge.second == edge.first + 1; };
  return std::ranges::all_of(run.edges, is_next) ? ""
                                                 : "the stages are no chain, and other orders are simulated on one";
}

SimulatedOrders simulate_orders(const TracedRun& run, const TraceFigures& f, const std::vector<Candidate>& candidates) {
  SimulatedOrders all;
  if (std::string reason = no_other_orders(run, f); !reason.empty()) {
    all.rejected.push_back(std::move(reason));
    return all;
  }
  add_traced_order(all, run, f);
  const int ranks = count_of(f.ranks);
  for (const auto& [system, given] : candidates) {
    try {
      const Options options = resolve_options(system->options, given, "--set");
      const auto in_stages = [&](std::size_t stages) {
        return order_of(*system, options, ranks, f.microbatches, {}, costs_in_stages(f, stages), CostsOf::stage);
      };
      OrderOfOps order = in_stages(static_cast<std::size_t>(ranks * stages_per_rank(*system, options)));
      add_order(all, std::move(order));
    } catch (const InputError& e) {
      all.rejected.emplace_back(e.what());
    }
  }
  return all;
}

// "0.001/0.001/0.001,0.002/0.002/0.002+1e-05"
std::string costs_text(const TraceFigures& f) {
  std::string text;
  for (const TracedStage& s : f.stages)
    text +=
        fmt::format("{}{:.4g}/{:.4g}/{:.4g}", text.empty() ? "" : ",", s.forward, s.input_gradient, s.weight_gradient);
  return f.latency > 0 ? text + fmt::format("+{:.4g}", f.latency) : text;
}

CostGraph cost_graph_of(const TraceFigures& f, bool on_gpu) {
  CostGraph graph{.model = "traced", .source = "trace", .device = on_gpu ? "traced GPU" : "traced CPU", .layers = {}};
  for (const TracedStage& s : f.stages) {
    LayerCost layer{.name = fmt::format("stage {}", s.stage), .inputs = {s.stage - 1}};
    layer.forward = Seconds(s.forward);
    layer.input_gradient = Seconds(s.input_gradient);
    layer.weight_gradient = Seconds(s.weight_gradient);
    graph.layers.push_back(std::move(layer));
  }
  return graph;
}

bool is_cost_graph(const std::string& text) {
  const Json json = Json::parse_if_json(text).value_or(Json());
  const Json* schema = json.find("schema");
  return schema && *schema == Json("sluice/cost_graph/1");
}

// The index of the fastest order other than the traced one.
std::optional<std::size_t> fastest_other(const SimulatedOrders& all) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < all.orders.size(); ++i)
    if (i != all.traced && (!best || all.figures[i].seconds_per_microbatch < all.figures[*best].seconds_per_microbatch))
      best = i;
  return best;
}

std::string label_of(const OrderOfOps& order) {
  const std::string options = chosen_options(order);
  return order.name + (options.empty() ? "" : " " + options);
}

Json document_of(const TraceFigures& f, const TracedRun& run, const SimulatedOrders& all) {
  Json ranks = Json::array(), stages = Json::array(), orders = Json::array();
  for (std::size_t r = 0; r < f.ranks.size(); ++r) {
    const TracedRankFigures& rank = f.ranks[r];
    ranks.push_back({{"rank", rank.rank},
                     {"file", run.ranks[r].file},
                     {"stages", rank.stages},
                     {"busy", rank.busy},
                     {"idle", rank.idle},
                     {"exposed_communication", rank.exposed}});
  }
  for (const TracedStage& s : f.stages)
    stages.push_back({{"F", s.forward}, {"I", s.input_gradient}, {"W", s.weight_gradient}});
  for (std::size_t i = 0; i < all.orders.size(); ++i) {
    const ScheduleFigures& of = all.figures[i];
    orders.push_back({{"system", all.orders[i].name},
                      {"options", all.orders[i].options.values()},
                      {"stages", all.orders[i].graph.size()},
                      {"makespan", of.simulation.bubble.makespan},
                      {"bubble_ratio", of.simulation.bubble.bubble_ratio},
                      {"seconds_per_microbatch", of.seconds_per_microbatch},
                      {"activations", of.activations}});
  }
  return {{"updates", f.updates},
          {"microbatches", f.microbatches},
          {"times_of", run.on_gpu ? "gpu" : "cpu"},
          {"makespan", f.makespan},
          {"period", f.period},
          {"bubble_ratio", f.bubble_ratio},
          {"span_bubble", f.span_bubble},
          {"steady_bubble", f.steady_bubble},
          {"exposed_communication", f.exposed_share},
          {"imbalance", f.imbalance},
          {"costs", {{"stages", stages}, {"latency", f.latency}}},
          {"ranks", ranks},
          {"orders", orders},
          {"notes", f.notes},
          {"rejected", all.rejected}};
}

void print_answers(const TraceFigures& f, const SimulatedOrders& all) {
  fmt::print(
      "bubble {:.2f} % of the time of {} ranks (span {:.2f} %, steady state {}), {:.4g} s an update of {} "
      "micro-batches\n",
      100 * f.bubble_ratio, f.ranks.size(), 100 * f.span_bubble,
      f.steady_bubble ? fmt::format("{:.2f} %", 100 * *f.steady_bubble) : "none", f.makespan, f.microbatches);
  fmt::print("exposed communication {:.2f} %, a message {:.4g} s\n", 100 * f.exposed_share, f.latency);
  const auto slowest = std::ranges::max_element(f.stages, {}, &TracedStage::total);
  fmt::print("imbalance {:.3g}: stage {} takes that many times the mean of the stages\n", f.imbalance, slowest->stage);
  fmt::print("costs --costs {}\n", costs_text(f));
  const std::optional<std::size_t> best = fastest_other(all);
  if (!best) return;
  const auto update = [&](std::size_t i) { return all.figures[i].seconds_per_microbatch * f.microbatches; };
  const std::string traced =
      all.traced ? fmt::format("; the traced order {:.4g} s at the same costs", update(*all.traced)) : "";
  fmt::print("fastest other order {}: {:.4g} s an update on the virtual clock{}\n", label_of(all.orders[*best]),
             update(*best), traced);
}

void print_tables(const TraceFigures& f, const TracedRun& run, const SimulatedOrders& all) {
  fmt::print("\n{:>4}  {:>8} {:>10} {:>10} {:>7} {:>8}\n", "rank", "stages", "busy", "idle", "bubble", "exposed");
  const auto share = [&](double seconds) { return f.makespan > 0 ? 100 * seconds / f.makespan : 0; };
  for (const TracedRankFigures& r : f.ranks)
    fmt::print("{:>4}  {:>8} {:>10.4g} {:>10.4g} {:>6.2f}% {:>7.2f}%\n", r.rank, fmt::join(r.stages, ","), r.busy,
               r.idle, share(r.idle), share(r.exposed));
  fmt::print("\n{:>5} {:>10} {:>10} {:>10} {:>10}\n", "stage", "F", "I", "W", "in all");
  for (const TracedStage& s : f.stages)
    fmt::print("{:>5} {:>10.4g} {:>10.4g} {:>10.4g} {:>10.4g}\n", s.stage, s.forward, s.input_gradient,
               s.weight_gradient, s.total());
  fmt::print("\n{}", all.orders.empty() ? "" : schedule_comparison(all.orders, all.figures));
  for (const std::string& reason : all.rejected) fmt::print("no schedule: {}\n", visible(reason));
  fmt::print("seconds of {}; ranks: means of {} update{}; stages: of one micro-batch; orders: virtual clock\n",
             run.on_gpu ? "kernels on the GPU" : "ranges on the CPU", f.updates, f.updates == 1 ? "" : "s");
  if (f.period) fmt::print("an update begins every {:.4g} s\n", *f.period);
  for (const std::string& note : f.notes) fmt::print("note: {}\n", visible(note));
}

}  // namespace

int trace_command(const TraceArguments& a) {
  std::optional<OutputFile> out;
  if (!a.out.empty()) out.emplace(a.out, "a file of costs", is_cost_graph);
  const std::vector<Candidate> candidates = candidates_of(a);
  const TracedRun run = read_traces(a.files, {a.forward, a.backward, a.input_gradient, a.weight_gradient});
  const TraceFigures f = figures_of(run);
  const SimulatedOrders all = simulate_orders(run, f, candidates);
  if (out) {
    const CostGraph graph = cost_graph_of(f, run.on_gpu);
    check_bounds(graph, a.out);
    out->write(to_json(graph).dump(2) + "\n");
  }
  if (a.json) {
    fmt::print("{}\n", document_of(f, run, all).dump(2));
    return 0;
  }
  print_answers(f, all);
  print_tables(f, run, all);
  return 0;
}

}  // namespace sluice
