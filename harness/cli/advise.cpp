#include "harness/cli/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/case/profile_workload.h"
#include "harness/case/tensor_rules.h"
#include "harness/cli/case_flags.h"
#include "harness/program/staleness.h"
#include "harness/sim/compute_seconds.h"
#include "results/comparison_rows.h"
#include "results/model_error.h"

namespace sluice {

namespace {

using SteadyClock = std::chrono::steady_clock;

// Per rank, seconds of compute in the program's run.
std::vector<double> busy_seconds(const EvaluatedPlan& e) {
  const std::vector<StageCost> costs = stage_costs(e.p.plan, e.p.costs, e.p.cluster);
  std::vector<double> busy;
  for (const auto& rank : e.program.ranks) {
    double seconds = 0;
    for (const Instruction& i : rank) {
      if (!is_compute(i.opcode)) continue;
      const StageCost& stage = costs[i.stage.index()];
      seconds +=
          ComputeSeconds{stage.forward.value, stage.input_gradient.value, stage.weight_gradient.value, stage.pair_share}
              .of(i);
    }
    busy.push_back(seconds / std::max(1, e.program.updates));
  }
  return busy;
}

// ranks: that the system was given.
TimeSplit split_of(const EvaluatedPlan& e, int ranks) {
  const std::vector<double> busy = busy_seconds(e);
  double all = 0, most = 0;
  for (const double seconds : busy) all += seconds, most = std::max(most, seconds);
  const double mean = all / static_cast<double>(busy.size());
  TimeSplit split;
  split.computing = all / ranks;
  split.idle = mean - split.computing;
  split.uneven = most - mean;
  split.messages = exposed_communication(e) * e.update_seconds;
  split.waiting = std::max(0.0, e.update_seconds - split.messages - most);
  return split;
}

// What the rank that lacks most memory needs and has.
void fill_in_memory(Candidate& candidate, const EvaluatedPlan& e) {
  candidate.rejected = e.over;
  for (std::size_t r = 0; r < e.memory.size(); ++r) {
    const Bytes needed = e.memory[r].peak.total(), available = e.p.cluster.devices[e.p.ranks.devices[r].index()].memory;
    if (r == 0 || needed - available > candidate.needed - candidate.available)
      candidate.needed = needed, candidate.available = available;
  }
}

// Of the stages from the second on, where they are a chain of one stage per device (setting "stages").
std::vector<int> first_layers_of(const Plan& pipeline) {
  std::vector<int> first;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const PlanStage& stage = pipeline.stages[s];
    const bool follows = s == 0 || stage.layers.front() == pipeline.stages[s - 1].layers.back() + 1;
    const bool contiguous = stage.layers.back() - stage.layers.front() + 1 == count_of(stage.layers);
    if (!follows || !contiguous || stage.devices != std::vector{DeviceId(s)}) return {};
    if (s > 0) first.push_back(stage.layers.front());
  }
  return first;
}

bool recomputes(const EvaluatedPlan& e) {
  if (e.program.rule.recompute != WeightRule::Recompute::none) return true;
  return std::ranges::any_of(e.p.plan.stages, [&](const PlanStage& stage) {
    for (std::size_t i = 0; i < stage.layers.size(); ++i) {
      const LayerVariant* variant = variant_of(stage, i, e.p.costs);
      if (variant && variant->recompute) return true;
    }
    return stage.recompute;
  });
}

void fill_in(Candidate& candidate, ProfileStore& profiles) {
  try {
    const EvaluatedPlan e = evaluate_plan(resolve(candidate.entry), profiles);
    candidate.micro_batch = e.p.micro_batch;
    candidate.stages = count_of(e.p.plan.stages) / group_size(e.p);
    candidate.ranks_used = count_of(e.p.ranks.devices);
    candidate.updates = e.program.updates;
    candidate.peak = e.peak();
    candidate.cost_source = e.p.costs.source;
    const bool on_measured_cores = e.p.cluster.one_machine && e.p.costs.machine;  // where none overlap (simulate.h)
    candidate.gradient_buckets = on_measured_cores ? Bytes(0) : e.c.gradient_buckets;
    candidate.replicated =
        std::ranges::any_of(e.p.plan.stages, [](const PlanStage& stage) { return stage.devices.size() > 1; });
    candidate.recomputes = recomputes(e);
    candidate.first_layers = first_layers_of(e.p.pipeline);
    if (!e.over.empty()) {
      fill_in_memory(candidate, e);
      return;
    }
    candidate.update_seconds = e.update_seconds;
    candidate.samples_per_second = e.samples_per_second();
    candidate.rates = e.rates();
    candidate.bubble = e.simulation.bubble.bubble_ratio;
    candidate.split = split_of(e, candidate.count("ranks"));
    for (const RankMemory& rank : e.memory) candidate.versions = std::max(candidate.versions, rank.peak_versions);
    for (const int updates : staleness_of(e.program)) candidate.staleness = std::max(candidate.staleness, updates);
  } catch (const InputError& error) {
    candidate.rejected = error.what();
  }
}

// Every choice of one option changed from its default, and other numbers of stages on a rank.
std::vector<std::map<std::string, std::string>> sensible_options(const System& system) {
  std::vector<std::map<std::string, std::string>> result = {{}};
  for (const OptionSpec& spec : system.options) {
    for (const std::string& choice : spec.choices)
      if (choice != spec.default_value) result.push_back({{spec.name, choice}});
    if (spec.name != "chunks") continue;
    for (const char* chunks : {"2", "3", "4"})
      if (spec.default_value != chunks) result.push_back({{"chunks", chunks}});
  }
  return result;
}

// One pipeline first, then as many as there can be, and fewer.
std::vector<int> pipeline_counts(int ranks) {
  std::vector<int> result = {1};
  for (int d = ranks; d > 1; --d)
    if (ranks % d == 0) result.push_back(d);
  return result;
}

// Fills in the candidates in parallel, in their order, until the time is over.
class Scoring {
 public:
  Scoring(double seconds, ProfileStore& profiles)
      : begin_(SteadyClock::now()), seconds_(seconds), profiles_(profiles) {}

  std::vector<Candidate> run(std::vector<Candidate> candidates) {
    std::atomic<std::size_t> next{0};
    std::vector<char> done(candidates.size(), 0);
    const auto work = [&] {
      for (std::size_t i = next++; i < candidates.size(); i = next++) {
        if (std::chrono::duration<double>(SteadyClock::now() - begin_).count() > seconds_) return;
        fill_in(candidates[i], profiles_);
        done[i] = 1;
      }
    };
    std::vector<std::jthread> threads;
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    for (std::size_t t = 1; t < std::min(cores, candidates.size()); ++t) threads.emplace_back(work);
    work();
    threads.clear();  // joins them
    std::vector<Candidate> finished;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (done[i]) {
        tried_.insert(candidates[i].system->name);
        finished.push_back(std::move(candidates[i]));
      } else {
        cut_short_.insert(candidates[i].system->name);
      }
    }
    return finished;
  }

  // The systems of which some candidate was not begun: of which none was, or others were.
  std::vector<std::string> cut_short(bool in_part) const {
    std::vector<std::string> result;
    for (const std::string& name : cut_short_)
      if (tried_.contains(name) == in_part) result.push_back(name);
    return result;
  }

 private:
  SteadyClock::time_point begin_;
  double seconds_;
  ProfileStore& profiles_;
  std::set<std::string> tried_, cut_short_;
};

// Micro-batches per update to try: as given; of a published profile, those of its size; else the workload's first, and
// powers of two times the ranks that divide the batch.
std::vector<int> microbatch_counts(const AdviceRequest& request, int ranks, std::int64_t batch, int usual) {
  if (!request.microbatches.empty()) return request.microbatches;
  std::set<int> counts;
  if (usual > 0 && batch % usual == 0) counts.insert(usual);
  for (std::int64_t m = ranks; m <= std::min<std::int64_t>(8L * ranks, batch); m *= 2)
    if (batch % m == 0) counts.insert(static_cast<int>(m));
  if (counts.empty()) counts.insert(1);
  std::vector<int> result(counts.begin(), counts.end());
  const auto own = std::ranges::find(result, usual);
  if (own != result.end()) std::rotate(result.begin(), own, own + 1);
  return result;
}

// Tensor-parallel degrees to try: as given; else the powers of two that divide the ranks and the workload's layers.
std::vector<int> tensor_degrees(const AdviceRequest& request, const RunCase& c, const Workload& workload) {
  std::vector<int> degrees;
  for (const int degree : request.tensor.empty() ? std::vector<int>{1, 2, 4, 8} : request.tensor) {
    RunCase shared = c;
    shared.tensor = degree;
    try {
      if (degree > 1) check_groups(shared, workload, "--tensor");
      degrees.push_back(degree);
    } catch (const InputError&) {
      if (!request.tensor.empty()) throw;
    }
  }
  return degrees;
}

// What the candidates of a request have in common, and the values to try, the most promising first.
struct Grid {
  Entry entry;  // with ranks and batch
  int ranks = 1;
  std::vector<int> counts, tensors;
  bool is_profile = false;
};

// Throws InputError for what is wrong with the request itself, whatever the system. Any system of several ranks reads
// it alike.
Grid grid_of(const AdviceRequest& request) {
  Entry any = request.entry;
  any.values["system"] = "gpipe";
  const RunCase c = resolve(any);
  const Workload& workload = find_workload_or_profile(c.workload, c.costs, "--workload");
  Grid grid{.entry = request.entry, .ranks = c.ranks, .is_profile = is_profile_workload(workload)};
  grid.entry.values["ranks"] = c.ranks;
  grid.entry.values["batch"] = c.batch;
  grid.counts = grid.is_profile ? std::vector<int>{c.microbatches}
                                : microbatch_counts(request, c.ranks, c.batch, workload.microbatches);
  for (const int count : grid.counts) {
    any.values["microbatches"] = count;
    resolve(any);
  }
  grid.tensors = tensor_degrees(request, c, workload);
  return grid;
}

bool takes(const System& system, int ranks, int pipelines, int tensor) {
  const bool pipelined = system.synchronous && !system.data_parallel && !system.one_process;
  if (system.inference_only || ranks % (pipelines * tensor) != 0) return false;
  if (pipelines > 1 && (!pipelined || ranks / (pipelines * tensor) < (tensor > 1 ? 1 : 2))) return false;
  return tensor == 1 || (system.synchronous && !system.one_process);
}

// Of the asynchronous systems that do not accumulate gradients; a profile's batch is one micro-batch already.
void add_updates_after_every_micro_batch(std::vector<Candidate>& all, const Grid& grid,
                                         const std::vector<const System*>& systems) {
  if (grid.is_profile) return;
  for (const int count : grid.counts)
    for (const System* system : systems) {
      if (system->synchronous || system->accumulates || system->inference_only) continue;
      Candidate candidate{.system = system, .entry = grid.entry};
      candidate.entry.values["system"] = system->name;
      candidate.entry.values["microbatches"] = count;
      candidate.entry.values["update"] = choice_name(UpdateAfter::micro_batch);
      all.push_back(std::move(candidate));
    }
}

// count: micro-batches per batch.
void add_candidate(std::vector<Candidate>& all, const Grid& grid, const System& system, int count, int pipelines,
                   int tensor) {
  if (!takes(system, grid.ranks, pipelines, tensor)) return;
  const bool counted = system.synchronous || system.accumulates;
  if (counted && count % pipelines != 0) return;
  // A whole batch at a time, whatever the count; of a profile one micro-batch.
  if (!counted && count != grid.counts.front()) return;
  Candidate candidate{.system = &system, .entry = grid.entry};
  Json& values = candidate.entry.values;
  values["system"] = system.name;
  if (pipelines > 1) values["data_parallel"] = pipelines;
  if (tensor > 1) values["tensor"] = tensor;
  if (counted) values["microbatches"] = count;
  if (!counted && grid.is_profile) values.erase("batch");
  all.push_back(std::move(candidate));
}

// The options of a system are tried where its default does best, and once where it does not fit. tried: the best first,
// and so are the results.
std::vector<Candidate> with_other_options(const std::vector<Candidate>& tried) {
  constexpr int places = 2;
  std::vector<Candidate> result;
  std::map<const System*, int> taken;
  for (const Candidate& best : tried) {
    if (++taken[best.system] > places) continue;
    for (const auto& options : sensible_options(*best.system)) {
      if (options.empty()) continue;
      result.push_back({.system = best.system, .entry = best.entry});
      result.back().entry.values["options"] = options;
    }
  }
  return result;
}

// The fewer, the simpler: 0 one device, 1 whole replicas, 2 the same as a planner's plan.
int mechanisms(const Candidate& c) {
  const bool whole = c.stages == 1 && c.count("tensor") == 1;
  if (whole && c.ranks_used == 1) return 0;
  if (!whole || c.system->sharding) return 3;
  return c.system->data_parallel ? 1 : 2;
}

bool tied(const Candidate& a, const Candidate& b) {
  return within_model_error(a.samples_per_second, b.samples_per_second, model_error(a.cost_source));
}

}  // namespace

std::vector<Candidate> first_candidates(const AdviceRequest& request) {
  const Grid grid = grid_of(request);
  std::vector<Candidate> all;
  for (const int tensor : grid.tensors) {
    for (const int count : grid.counts)
      for (const int pipelines : pipeline_counts(grid.ranks))
        for (const System* system : request.systems) add_candidate(all, grid, *system, count, pipelines, tensor);
    if (tensor == grid.tensors.front()) add_updates_after_every_micro_batch(all, grid, request.systems);
  }
  return all;
}

static void fastest_first(std::vector<Candidate>& candidates) {
  std::ranges::stable_sort(candidates, std::greater(), &Candidate::samples_per_second);
}

// Sets the stages of the candidates to those of the tried pipelines on which 1F1B is fastest, and leaves out what has
// another number of pipelines or tensor-parallel degree. Returns what they are. Throws InputError where no system
// has such a plan.
static std::string take_same_plan(const std::vector<Candidate>& tried, Scoring& scoring,
                                  std::vector<Candidate>& candidates) {
  using Cut = std::tuple<int, int, std::vector<int>>;  // pipelines, tensor-parallel degree, first layers
  const auto cut_of = [](const Candidate& c) {
    return Cut(c.count("data_parallel"), c.count("tensor"), c.first_layers);
  };
  std::map<Cut, std::set<std::string>> systems;  // that have such a plan by themselves
  std::set<std::pair<Cut, int>> asked;           // and micro-batches
  std::vector<Candidate> by_1f1b;
  for (const Candidate& c : tried) {
    if (c.first_layers.empty() || !c.fits()) continue;
    systems[cut_of(c)].insert(c.system->name);
    if (!c.system->synchronous || !asked.emplace(cut_of(c), c.count("microbatches")).second) continue;
    by_1f1b.push_back({.system = &find_system("one_f_one_b", "advise"), .entry = c.entry});
    Json& values = by_1f1b.back().entry.values;
    values.erase("options");
    values["system"] = "one_f_one_b";
    values["stages"] = fmt::format("{}", fmt::join(c.first_layers, ","));
  }
  by_1f1b = scoring.run(std::move(by_1f1b));
  fastest_first(by_1f1b);
  if (by_1f1b.empty() || !by_1f1b.front().fits())
    throw InputError("--same-plan", "no pipeline with one stage on each device was found that 1F1B has memory for",
                     "give more --seconds or more systems, or leave --same-plan out");
  const Candidate& best = by_1f1b.front();
  const auto [pipelines, tensor, first_layers] = cut_of(best);
  const auto has_stages = [](const Candidate& c) { return !c.system->one_process && !c.system->data_parallel; };
  std::erase_if(candidates, [&](const Candidate& c) {
    return has_stages(c) && (c.count("data_parallel") != pipelines || c.count("tensor") != tensor);
  });
  for (Candidate& c : candidates)
    if (has_stages(c)) c.entry.values["stages"] = best.entry.values["stages"];
  return fmt::format("{} of {} stages, which begin with layers 0,{}: the cut of {}",
                     pipelines == 1 ? "one pipeline" : fmt::format("{} pipelines", pipelines), first_layers.size() + 1,
                     fmt::join(first_layers, ","), fmt::join(systems[cut_of(best)], ", "));
}

Advice advise(const AdviceRequest& request, ProfileStore& profiles) {
  Scoring scoring(request.seconds, profiles);
  Advice advice;
  std::vector<Candidate> candidates = first_candidates(request);
  if (request.same_plan) {
    Scoring search(request.seconds / 2, profiles);
    advice.plan = take_same_plan(search.run(candidates), scoring, candidates);
    if (!search.cut_short(false).empty() || !search.cut_short(true).empty())
      advice.plan += fmt::format("; not all were searched in {:g} s", request.seconds / 2);
  }
  advice.candidates = scoring.run(std::move(candidates));
  const auto order = [&] { fastest_first(advice.candidates); };
  order();
  for (Candidate& candidate : scoring.run(with_other_options(advice.candidates)))
    advice.candidates.push_back(std::move(candidate));
  order();
  advice.untried = scoring.cut_short(false);
  advice.searched_in_part = scoring.cut_short(true);
  return advice;
}

AdviceKind Candidate::kind() const {
  if (system->synchronous) return AdviceKind::synchronous;
  return entry.values.value("update", "") == choice_name(UpdateAfter::micro_batch) ? AdviceKind::after_every_micro_batch
                                                                                   : AdviceKind::after_the_batch;
}

std::vector<AdviceRow> rows_of(const Advice& advice, AdviceKind kind) {
  std::vector<AdviceRow> rows;
  std::vector<double> rates;
  for (const Candidate& c : advice.candidates) {
    if (!c.fits() || c.kind() != kind) continue;
    if (std::ranges::any_of(rows, [&](const AdviceRow& row) { return row.best->system == c.system; })) continue;
    rows.push_back({.best = &c});
    rates.push_back(c.samples_per_second);
  }
  if (rows.empty()) return rows;
  const std::vector<int> places = shared_places(rates, model_error(rows.front().best->cost_source));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].place = places[i];
    rows[i].shared = std::ranges::count(places, places[i]) > 1;
  }
  const auto first_place =
      std::ranges::subrange(rows.begin(), std::ranges::upper_bound(rows, 1, {}, &AdviceRow::place));
  const auto simplest =
      std::ranges::min_element(first_place, {}, [](const AdviceRow& row) { return mechanisms(*row.best); });
  std::rotate(rows.begin(), simplest, simplest + 1);
  return rows;
}

std::string shared_first_place(const std::vector<AdviceRow>& rows) {
  std::vector<std::string> first;
  for (const AdviceRow& row : rows)
    if (row.place == 1) first.push_back(title_of(row.best->system->name, ""));
  if (first.size() < 2) return "";
  const std::string shown = first.front(), last = first.back();
  first.pop_back();
  static constexpr const char* kReplicas = "the simplest: data parallelism without a pipeline";
  static constexpr const char* kinds[] = {"the simplest: one device", kReplicas, kReplicas,
                                          "the fastest, since none is one device or plain data parallelism"};
  return fmt::format("{} and {} share the first place; the plan below is that of {}, {}", fmt::join(first, ", "), last,
                     shown, kinds[mechanisms(*rows.front().best)]);
}

std::string plan_kind(const Candidate& c) {
  if (c.stages != 1 || c.system->one_process || c.system->data_parallel) return "";
  const int tensor = c.count("tensor");
  if (c.ranks_used == 1) return "its plan is one device";
  if (c.ranks_used == tensor) return "its plan is tensor parallelism";
  return tensor > 1 ? "its plan is data and tensor parallelism" : "its plan is data parallelism";
}

std::string out_of_time(const Advice& advice, double seconds) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  for (const auto& [names, how] :
       {std::pair(&advice.untried, "not searched"), std::pair(&advice.searched_in_part, "searched in part")}) {
    if (names->empty()) continue;
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", names->size(),
                        names->size() == 1 ? "system" : "systems", how);
    if (names == &advice.untried || names->size() <= kNamed) text += fmt::format(" ({})", fmt::join(*names, ", "));
  }
  return text.empty() ? "" : fmt::format("out of time after {:g} s (--seconds): {}\n", seconds, text);
}

std::string options_text(const Candidate& candidate) {
  std::string text;
  for (const auto& [name, value] : candidate.entry.values.value("options", std::map<std::string, std::string>()))
    text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

std::string why_slower(const Candidate& loser, const Candidate& winner) {
  if (!loser.fits()) return loser.rejected;
  if (tied(loser, winner)) return "tie";
  struct Part {
    const char* what;
    double TimeSplit::*seconds;
  };
  static const Part parts[] = {{"computes", &TimeSplit::computing},
                               {"leaves devices idle", &TimeSplit::idle},
                               {"uneven stages cost", &TimeSplit::uneven},
                               {"waits for other ranks", &TimeSplit::waiting},
                               {"messages take", &TimeSplit::messages}};
  // Per sample, since asynchronous systems may take other batches.
  const double ours = 1 / (loser.samples_per_second * loser.split.update());
  const double theirs = 1 / (winner.samples_per_second * winner.split.update());
  const Part* most = nullptr;
  double largest = 0;
  for (const Part& part : parts) {
    const double more = loser.split.*part.seconds * ours - winner.split.*part.seconds * theirs;
    if (!most || more > largest) most = &part, largest = more;
  }
  if (most->seconds == &TimeSplit::idle)
    return fmt::format("uses {} of {} devices", loser.ranks_used, loser.count("ranks"));
  const auto share = [&](const Candidate& c) {
    return std::max(0.0, 100 * (c.split.*(most->seconds)) / c.split.update());
  };
  if (most == parts) {
    const double ratio = loser.split.computing * ours / (winner.split.computing * theirs);
    return fmt::format("computes {:.2f} x as long for the same samples{}", ratio,
                       loser.micro_batch < winner.micro_batch ? ", in smaller micro-batches" : "");
  }
  return fmt::format("{} {:.0f} % of its time ({:.0f} %)", most->what, share(loser), share(winner));
}

std::string plan_line(const Candidate& candidate) {
  return "sluice plan " + flags_text(candidate.entry.values, [](const Setting& s) { return s.of_plan; });
}

std::string run_line(const Candidate& candidate) {
  constexpr int min_steps = 12;  // the first ones are warm-up
  Json values = candidate.entry.values;
  values["steps"] = std::max(min_steps, candidate.updates);
  return "sluice run " + flags_text(values, [](const Setting&) { return true; });
}

}  // namespace sluice
