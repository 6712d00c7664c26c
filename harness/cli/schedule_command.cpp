#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/cli/chrome_trace.h"
#include "harness/cli/commands.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/program/schedule_picture.h"
#include "harness/sim/latency_cluster.h"
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

// Seconds of an update when others come before and after it, without and with a barrier between updates.
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
    const Program with_barrier =
        lower(schedule, problem.graph, problem.placement, program.rule, program.sharding, {.step_barrier = true});
    repeated.barrier = simulate(with_barrier, {problem.costs, {}}, cluster, uniform.devices, {.trace = false}).end;
  }
  const std::vector<RankPeak> peak = peaks(schedule);
  const Theory theory = system.theory(problem, options);
  if (!theory.note.empty()) fmt::print(stderr, "sluice: {}: {}\n", system.name, theory.note);
  const std::vector<RankCollectives> collective =
      collectives(schedule, system.sharding ? system.sharding(problem, options) : Sharding{});
  if (!a.trace.empty()) write_chrome_trace(a.trace, s.trace, problem.placement, collective);
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
    fmt::print("{}", draw_schedule(s.trace));
  } else {
    fmt::print("{}", to_text(schedule));
  }
  fmt::print("makespan {:g}, bubble ratio {:.4f}, span bubble {:.4f}\n", s.bubble.makespan, s.bubble.bubble_ratio,
             s.bubble.span_bubble);
  if (system.synchronous)
    fmt::print("one update after another: {:g} each with step=free, {:g} with step=barrier\n", repeated.free,
               repeated.barrier);
  if (theory.bubble_ratio) fmt::print("by formula at F = I = W, without latency: {:.4f}\n", *theory.bubble_ratio);
  // With recomputation most micro-batches that are in flight hold a stage's input only.
  const std::vector<RankMemory> whole =
      memory(program, std::vector<StageMemory>(problem.graph.size(), {.stash = Bytes(1), .weight_stash = Bytes(1)}));
  for (std::size_t r = 0; r < peak.size() && r < 64; ++r) {
    fmt::print("rank {:<3} idle {:g}, peak {} in flight", r, s.bubble.idle[r], peak[r].in_flight);
    // (Where W runs on another rank, the micro-batches that wait for it are there.)
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
