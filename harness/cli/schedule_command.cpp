#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/cli/commands.h"
#include "harness/core/error.h"
#include "harness/core/system.h"
#include "harness/sim/simulate.h"

namespace sluice {

namespace {

struct OpCosts {
  double forward, input_gradient, weight_gradient, latency;
};

OpCosts parse_costs(const std::string& text) {
  OpCosts c{0, 0, 0, 0};
  int used = 0;
  const int fields = std::sscanf(text.c_str(), "%lf/%lf/%lf%n", &c.forward, &c.input_gradient,
                                 &c.weight_gradient, &used);
  bool ok = fields == 3;
  if (ok && text[static_cast<std::size_t>(used)] == '+') {
    int more = 0;
    ok = std::sscanf(text.c_str() + used + 1, "%lf%n", &c.latency, &more) == 1;
    used += 1 + more;
  }
  for (const double v : {c.forward, c.input_gradient, c.weight_gradient, c.latency})
    ok = ok && std::isfinite(v) && v >= 0;
  if (!ok || static_cast<std::size_t>(used) != text.size() ||
      c.forward + c.input_gradient + c.weight_gradient <= 0)
    throw InputError("--costs", "'" + text + "' is not F/I/W[+latency]",
                     "write 1/1/1 or 10/12/8+1");
  return c;
}

int positive(const std::string& flag, int value, int most) {
  if (value < 1 || value > most)
    throw InputError(flag, std::to_string(value) + " is out of range",
                     "give 1 to " + std::to_string(most));
  return value;
}

// A chain of ranks * chunks equal layers, so that the system's own planner places them.
CostGraph uniform_chain(int layers, const OpCosts& c) {
  CostGraph graph{.model = "uniform chain",
                  .source = "given",
                  .device = "unit",
                  .micro_batch = 1,
                  .layers = {}};
  for (int i = 0; i < layers; ++i)
    graph.layers.push_back({.name = "stage " + std::to_string(i),
                            .inputs = {i - 1},
                            .forward = Seconds(c.forward),
                            .input_gradient = Seconds(c.input_gradient),
                            .weight_gradient = Seconds(c.weight_gradient),
                            .update = Seconds(0),
                            .parameters = Bytes(0),
                            .output = Bytes(0)});
  return graph;
}

nlohmann::json number(double v) {
  return v == std::round(v) ? nlohmann::json(static_cast<std::int64_t>(v)) : nlohmann::json(v);
}

// One row a rank, one column a unit of time; an op fills the columns it runs in.
void draw_grid(const Trace& trace, double makespan) {
  double shortest = makespan;
  for (const auto& rank : trace.ranks)
    for (const TraceEvent& e : rank)
      if (e.instruction.what <= Do::weight_gradient && e.end > e.start)
        shortest = std::min(shortest, e.end - e.start);
  const int width = 5;  // characters of the shortest op
  const double scale = width / shortest;
  if (makespan * scale > 2000)
    throw InputError("--text",
                     "the grid would be " + std::to_string(static_cast<long>(makespan * scale)) +
                         " characters wide",
                     "use fewer micro-batches");
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    std::string row(static_cast<std::size_t>(std::lround(makespan * scale)), '.');
    for (const TraceEvent& e : trace.ranks[r]) {
      if (e.instruction.what > Do::weight_gradient) continue;
      const auto from = static_cast<std::size_t>(std::lround(e.start * scale)),
                 to = static_cast<std::size_t>(std::lround(e.end * scale));
      std::string cell = to_text(e.instruction);
      cell.resize(std::max<std::size_t>(to - from, 1) - 1, ' ');
      row.replace(from, to - from, cell + "|");
    }
    fmt::print("rank {:<3} {}\n", r, row);
  }
}

void write_trace(const std::string& file, const Trace& trace) {
  nlohmann::json events = nlohmann::json::array();
  for (std::size_t r = 0; r < trace.ranks.size(); ++r)
    for (const TraceEvent& e : trace.ranks[r])
      events.push_back({{"name", to_text(e.instruction)},
                        {"ph", "X"},
                        {"pid", 0},
                        {"tid", r},
                        {"ts", e.start * 1e6},
                        {"dur", (e.end - e.start) * 1e6}});
  std::ofstream out(file);
  out << nlohmann::json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() << "\n";
  out.flush();
  if (!out) throw InputError("--trace", "'" + file + "' cannot be written");
}

}  // namespace

int schedule_command(const ScheduleArguments& a) {
  const System& system = find_system(a.system, "--system");
  const Options options = resolve_options(system.options, parse_settings(a.set), "--set");
  positive("--ranks", a.ranks, 100'000);
  positive("--microbatches", a.microbatches, 10'000'000);
  positive("--chunks", a.chunks, 1000);
  const OpCosts costs = parse_costs(a.costs);
  const CostGraph graph = uniform_chain(a.ranks * a.chunks, costs);
  const Cluster cluster = latency_cluster(a.ranks, Seconds(costs.latency));
  const Plan plan =
      system.plan({graph, cluster, a.ranks, a.microbatches, a.microbatches, {}}, options);
  const RankMap ranks = ranks_of(plan);
  if (a.chunks > 1 &&
      plan.stages.size() !=
          static_cast<std::size_t>(a.ranks) * static_cast<std::size_t>(a.chunks) &&
      !system.one_process)
    throw InputError("--chunks", system.name + " places one stage on a rank", "leave --chunks out");
  const StageGraph stages = stage_graph(plan, graph);
  const ScheduleProblem problem{stages, ranks.placement, static_cast<int>(ranks.devices.size()),
                                a.microbatches, plan.order};
  const Schedule schedule = system.schedule(problem, options);
  const Program program = lower(schedule, stages, ranks.placement, system.weights(options));
  const Simulation s = simulate(program, costs_of(plan, graph, cluster), cluster, ranks.devices);
  const std::vector<RankPeak> peak = peaks(schedule);
  if (!a.trace.empty()) write_trace(a.trace, s.trace);
  if (a.json) {
    nlohmann::json ops = nlohmann::json::object(), idle = nlohmann::json::array(),
                   in_flight = nlohmann::json::array(), until_w = nlohmann::json::array();
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
      nlohmann::json list = nlohmann::json::array();
      for (const Op& op : schedule.ranks[r]) list.push_back(to_text(op));
      ops[std::to_string(r)] = list;
      idle.push_back(number(s.bubble.idle[r]));
      in_flight.push_back(peak[r].in_flight);
      until_w.push_back(peak[r].until_weight_gradient);
    }
    const nlohmann::json document = {{"system", system.name},
                                     {"options", options.values()},
                                     {"ranks", schedule.ranks.size()},
                                     {"microbatches", a.microbatches},
                                     {"chunks", a.chunks},
                                     {"costs",
                                      {{"F", number(costs.forward)},
                                       {"I", number(costs.input_gradient)},
                                       {"W", number(costs.weight_gradient)},
                                       {"latency", number(costs.latency)}}},
                                     {"ops", ops},
                                     {"makespan", number(s.bubble.makespan)},
                                     {"idle", idle},
                                     {"bubble_ratio", s.bubble.bubble_ratio},
                                     {"span_bubble", s.bubble.span_bubble},
                                     {"peak", in_flight},
                                     {"peak_until_W", until_w}};
    fmt::print("{}\n", document.dump(2));
    return 0;
  }
  if (a.text) {
    draw_grid(s.trace, s.bubble.makespan);
  } else {
    fmt::print("{}", to_text(schedule));
  }
  fmt::print("makespan {:g}, bubble ratio {:.4f}, span bubble {:.4f}\n", s.bubble.makespan,
             s.bubble.bubble_ratio, s.bubble.span_bubble);
  const Theory theory = system.theory(problem, options);
  if (theory.bubble_ratio)
    fmt::print("the paper's bubble ratio, without latency: {:.4f}\n", *theory.bubble_ratio);
  for (std::size_t r = 0; r < peak.size() && r < 64; ++r)
    fmt::print("rank {:<3} idle {:g}, peak {} in flight\n", r, s.bubble.idle[r], peak[r].in_flight);
  return 0;
}

}  // namespace sluice
