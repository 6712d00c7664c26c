#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/cli/commands.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/program/schedule_picture.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"

namespace sluice {

namespace {

struct OpCosts {
  double forward, input_gradient, weight_gradient, latency;
};

OpCosts parse_costs(const std::string& text) {
  OpCosts c{0, 0, 0, 0};
  int used = 0;
  const int fields =
      std::sscanf(text.c_str(), "%lf/%lf/%lf%n", &c.forward, &c.input_gradient, &c.weight_gradient, &used);
  bool ok = fields == 3;
  if (ok && text[static_cast<std::size_t>(used)] == '+') {
    int more = 0;
    ok = std::sscanf(text.c_str() + used + 1, "%lf%n", &c.latency, &more) == 1;
    used += 1 + more;
  }
  for (const double v : {c.forward, c.input_gradient, c.weight_gradient, c.latency})
    ok = ok && std::isfinite(v) && v >= 0;
  if (!ok || static_cast<std::size_t>(used) != text.size() || c.forward + c.input_gradient + c.weight_gradient <= 0)
    throw InputError("--costs", "'" + text + "' is not F/I/W[+latency]", "write 1/1/1 or 10/12/8+1");
  return c;
}

int positive(const std::string& flag, int value, int most) {
  if (value < 1 || value > most)
    throw InputError(flag, std::to_string(value) + " is out of range", "give 1 to " + std::to_string(most));
  return value;
}

nlohmann::json number(double v) {
  return v == std::round(v) ? nlohmann::json(static_cast<std::int64_t>(v)) : nlohmann::json(v);
}

// Chrome's format: a row of ops a rank, and what it holds, in micro-batches of one stage. Gathers
// and reductions, which cost nothing here, are marks where they stand.
void write_trace(const std::string& file, const Trace& trace, const Placement& placement,
                 const std::vector<RankCollectives>& collectives) {
  nlohmann::json events = nlohmann::json::array();
  // Those of op `op`, from `next` on, which are in the order of the ops.
  const auto mark = [&](const char* what, const std::vector<Collective>& all, std::size_t& next, std::size_t op,
                        std::size_t rank, double when) {
    for (; next < all.size() && all[next].op == op; ++next)
      events.push_back({{"name", fmt::format("{} {}", what, all[next].stage.value)},
                        {"ph", "i"},
                        {"s", "t"},
                        {"pid", 0},
                        {"tid", rank},
                        {"ts", when * 1e6}});
  };
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    const std::string name = "rank " + std::to_string(r);
    events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 0}, {"tid", r}, {"args", {{"name", name}}}});
    int until_input_gradient = 0, until_weight_gradient = 0;
    std::size_t op = 0;  // of the schedule's list, which has no recomputations and steps
    std::size_t gather = 0, reduction = 0;
    for (std::size_t k = 0; k < trace.ranks[r].size(); ++k) {
      const TraceEvent& e = trace.ranks[r][k];
      if (is_scheduled(e.instruction.opcode)) {
        mark("gather", collectives[r].gathers, gather, op, r, e.start);
        mark("reduce", collectives[r].reductions, reduction, op, r, e.end);
        ++op;
      }
      events.push_back({{"name", to_text(e.instruction)},
                        {"ph", "X"},
                        {"pid", 0},
                        {"tid", r},
                        {"ts", e.start * 1e6},
                        {"dur", (e.end - e.start) * 1e6}});
      if (e.instruction.overlapped)
        events.back()["args"] = {{"overlapped with", to_text(trace.ranks[r].at(k + 1).instruction)}};
      const Opcode opcode = e.instruction.opcode;
      if (!is_scheduled(opcode)) continue;
      until_input_gradient += opcode == Opcode::forward;
      until_input_gradient -= opcode == Opcode::backward || opcode == Opcode::input_gradient;
      // Where W runs on another rank, what it reads is there from I on.
      const bool is_here = !placement.has_weight_gradient_rank(e.instruction.stage);
      until_weight_gradient += is_here && opcode == Opcode::input_gradient;
      until_weight_gradient -= is_here && opcode == Opcode::weight_gradient;
      // A forward makes its activations while it runs, the others let go of theirs at their end.
      events.push_back(
          {{"name", name + " holds"},
           {"ph", "C"},
           {"pid", 0},
           {"ts", (opcode == Opcode::forward ? e.start : e.end) * 1e6},
           {"args",
            {{"for the input gradient", until_input_gradient}, {"for the weight gradient", until_weight_gradient}}}});
    }
  }
  std::ofstream out(file);
  out << nlohmann::json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() << "\n";
  out.flush();
  if (!out) throw InputError("--trace", "'" + file + "' cannot be written");
}

}  // namespace

// The system's options; --chunks is the option of that name, where there is one.
static Options options_of(const System& system, const ScheduleArguments& a) {
  auto given = given_options(a.set);
  const bool declared = std::ranges::count(system.options, "chunks", &OptionSpec::name) > 0;
  if (a.chunks) positive("--chunks", *a.chunks, 1000);
  if (a.chunks && declared) {
    const auto [set, fresh] = given.try_emplace("chunks", std::to_string(*a.chunks));
    if (set->second != std::to_string(*a.chunks))
      throw InputError("--chunks", "is " + std::to_string(*a.chunks) + ", but chunks=" + set->second + " is set",
                       "give one of them");
  }
  const Options options = resolve_options(system.options, given, "--set");
  const int chunks = stages_per_rank(system, options);
  if (a.chunks && *a.chunks != chunks)
    throw InputError(
        "--chunks",
        system.name + " places " + std::to_string(chunks) + (chunks == 1 ? " stage" : " stages") + " on a rank",
        "leave --chunks out");
  positive("chunks", chunks, 1000);
  return options;
}

// Seconds of an update when others come before and after it, without and with a barrier between.
struct Repeated {
  double free = 0, barrier = 0;
};

int schedule_command(const ScheduleArguments& a) {
  const System& system = find_system(a.system, "--system");
  positive("--ranks", a.ranks, 4096);
  positive("--microbatches", a.microbatches, 10'000'000);
  const Options options = options_of(system, a);
  const OpCosts costs = parse_costs(a.costs);
  const int chunks = stages_per_rank(system, options);
  if (a.ranks * chunks > 65'536)
    throw InputError("--ranks", std::to_string(a.ranks * chunks) + " stages are too many", "use at most 65536");
  const std::int64_t most = 20'000'000, ops = 3LL * a.microbatches * a.ranks * (system.one_process ? 1 : chunks);
  if (ops > most)
    throw InputError("--microbatches", "the schedule would have " + std::to_string(ops) + " ops",
                     "use fewer: " + std::to_string(most) + " ops are possible");
  const int microbatches = a.microbatches * (system.data_parallel ? a.ranks : 1);
  const Cluster cluster = latency_cluster(a.ranks, Seconds(costs.latency));
  const StageCost stage{Seconds(costs.forward), Seconds(costs.input_gradient), Seconds(costs.weight_gradient),
                        Seconds(0), Bytes(0)};
  const UniformChain uniform =
      uniform_chain(system, options, cluster, a.ranks, microbatches, stage, Seconds(costs.latency));
  const ScheduleProblem& problem = uniform.problem;
  const Schedule schedule = system.schedule(problem, options);
  const Program program = checked(lower(schedule, problem.graph, problem.placement, system.weights(problem, options)));
  const Simulation s = simulate(program, {problem.costs, {}}, cluster, uniform.devices,
                                {.iterations = system.synchronous && !a.json ? 3 : 1});
  Repeated repeated;
  if (system.synchronous && !a.json) {
    repeated.free = s.update_end[2] - s.update_end[1];
    WeightRule rule = system.weights(problem, options);
    rule.step_barrier = true;
    repeated.barrier = simulate(lower(schedule, problem.graph, problem.placement, rule), {problem.costs, {}}, cluster,
                                uniform.devices, {.trace = false})
                           .end;
  }
  const std::vector<RankPeak> peak = peaks(schedule);
  const Theory theory = system.theory(problem, options);
  if (!theory.note.empty()) fmt::print(stderr, "sluice: {}: {}\n", system.name, theory.note);
  const std::vector<RankCollectives> collective =
      collectives(schedule, system.sharding ? system.sharding(problem, options) : Sharding{});
  if (!a.trace.empty()) write_trace(a.trace, s.trace, problem.placement, collective);
  if (a.json) {
    nlohmann::json lists = nlohmann::json::object(), idle = nlohmann::json::array(),
                   in_flight = nlohmann::json::array(), until_w = nlohmann::json::array();
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
      lists[std::to_string(r)] = step_texts(schedule.ranks[r]);
      idle.push_back(number(s.bubble.idle[r]));
      in_flight.push_back(peak[r].in_flight);
      until_w.push_back(peak[r].until_weight_gradient);
    }
    const nlohmann::json document = {{"system", system.name},
                                     {"options", options.values()},
                                     {"ranks", schedule.ranks.size()},
                                     {"microbatches", a.microbatches},
                                     {"chunks", chunks},
                                     {"costs",
                                      {{"F", number(costs.forward)},
                                       {"I", number(costs.input_gradient)},
                                       {"W", number(costs.weight_gradient)},
                                       {"latency", number(costs.latency)}}},
                                     {"ops", lists},
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
    fmt::print("{}", draw_grid(s.trace));
  } else {
    fmt::print("{}", to_text(schedule));
  }
  fmt::print("makespan {:g}, bubble ratio {:.4f}, span bubble {:.4f}\n", s.bubble.makespan, s.bubble.bubble_ratio,
             s.bubble.span_bubble);
  if (system.synchronous)
    fmt::print("one update after another: {:g} each with step=free, {:g} with step=barrier\n", repeated.free,
               repeated.barrier);
  if (theory.bubble_ratio) fmt::print("by formula at F = I = W, without latency: {:.4f}\n", *theory.bubble_ratio);
  // With recomputation most that are in flight are a stage's input only.
  const std::vector<RankMemory> whole =
      memory(program, std::vector<StageMemory>(problem.graph.size(), {.stash = Bytes(1), .weight_stash = Bytes(1)}));
  for (std::size_t r = 0; r < peak.size() && r < 64; ++r) {
    fmt::print("rank {:<3} idle {:g}, peak {} in flight", r, s.bubble.idle[r], peak[r].in_flight);
    // (Where W runs on another rank, what waits for it does so there.)
    if (peak[r].until_weight_gradient != peak[r].in_flight && problem.placement.weight_gradient_ranks.empty())
      fmt::print(", {} with those that wait for W", peak[r].until_weight_gradient);
    if (program.rule.recompute != WeightRule::Recompute::none)
      fmt::print(", {} of them whole", whole[r].peak.activations.value);
    if (system.sharding)
      fmt::print(", {} gathers, {} reductions", collective[r].gathers.size(), collective[r].reductions.size());
    fmt::print("\n");
  }
  return 0;
}

}  // namespace sluice
