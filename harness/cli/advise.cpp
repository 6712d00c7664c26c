#include "harness/cli/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/case/profile_workload.h"
#include "harness/case/tensor_rules.h"
#include "harness/cli/case_flags.h"
#include "harness/program/staleness.h"

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
      if (i.opcode == Opcode::forward || i.opcode == Opcode::recompute) seconds += stage.forward.value;
      if (i.opcode == Opcode::backward || i.opcode == Opcode::input_gradient) seconds += stage.input_gradient.value;
      if (makes_weight_gradient(i.opcode)) seconds += stage.weight_gradient.value;
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
  TimeSplit split;
  split.computing = all / ranks;
  split.uneven = most - split.computing;
  split.messages = exposed_communication(e) * e.update_seconds;
  split.waiting = std::max(0.0, e.update_seconds - split.messages - most);
  return split;
}

void fill_in(Candidate& candidate) {
  if (candidate.system->inference_only) {
    candidate.refused = "plans inference, and has no order for training";
    return;
  }
  try {
    const EvaluatedPlan e = evaluate_plan(resolve(candidate.entry));
    candidate.micro_batch = e.p.micro_batch;
    candidate.stages = count_of(e.p.plan.stages) / group_size(e.p);
    candidate.ranks_used = count_of(e.p.ranks.devices);
    candidate.updates = e.program.updates;
    candidate.peak = e.peak();
    if (!e.over.empty()) {
      candidate.refused = e.over;
      return;
    }
    candidate.update_seconds = e.update_seconds;
    candidate.samples_per_second = e.samples_per_second();
    candidate.bubble = e.simulation.bubble.bubble_ratio;
    candidate.split = split_of(e, candidate.count("ranks"));
    for (const RankMemory& rank : e.memory) candidate.versions = std::max(candidate.versions, rank.peak_versions);
    for (const int updates : staleness_of(e.program)) candidate.staleness = std::max(candidate.staleness, updates);
  } catch (const InputError& error) {
    candidate.refused = error.what();
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

std::vector<int> divisors(int n) {
  std::vector<int> result;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) result.push_back(d);
  return result;
}

// Fills in the candidates in parallel, in their order; those that are not begun when the time is over go to `untried`.
class Scoring {
 public:
  explicit Scoring(double seconds) : begin_(SteadyClock::now()), seconds_(seconds) {}

  std::vector<Candidate> run(std::vector<Candidate> candidates) {
    std::atomic<std::size_t> next{0};
    std::vector<char> done(candidates.size(), 0);
    const auto work = [&] {
      for (std::size_t i = next++; i < candidates.size(); i = next++) {
        if (std::chrono::duration<double>(SteadyClock::now() - begin_).count() > seconds_) return;
        fill_in(candidates[i]);
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
        finished.push_back(std::move(candidates[i]));
      } else {
        untried_.insert(candidates[i].system->name);
      }
    }
    return finished;
  }

  const std::set<std::string>& untried() const { return untried_; }

 private:
  SteadyClock::time_point begin_;
  double seconds_;
  std::set<std::string> untried_;
};

// Micro-batches per update to try: as given; of a published profile, those of its size; else the workload's, and powers
// of two times the ranks that divide the batch.
std::vector<int> microbatch_counts(const AdviceRequest& request, int ranks, std::int64_t batch, int usual) {
  if (!request.microbatches.empty()) return request.microbatches;
  std::set<int> counts;
  if (usual > 0 && batch % usual == 0) counts.insert(usual);
  for (std::int64_t m = ranks; m <= std::min<std::int64_t>(8L * ranks, batch); m *= 2)
    if (batch % m == 0) counts.insert(static_cast<int>(m));
  if (counts.empty()) counts.insert(1);
  return {counts.begin(), counts.end()};
}

// Degrees of shared layers to try: as given; else the usual ones that divide the ranks and the workload's layers.
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

// A system on all ranks of the request: in pipelines, of groups that share layers, with counts of micro-batches.
class Candidates {
 public:
  // entry: with ranks and batch.
  Candidates(const Entry& entry, const std::vector<int>& counts, bool is_profile)
      : entry_(entry), ranks_(entry.values["ranks"].get<int>()), counts_(counts), is_profile_(is_profile) {}

  void add(const System& system, int pipelines, int tensor) {
    if (!takes(system, pipelines, tensor)) return;
    const bool counted = system.synchronous || system.accumulates;
    if (!counted) {  // a whole batch at a time, whatever the count; of a profile one micro-batch
      all_.push_back(candidate(system, pipelines, tensor));
      if (is_profile_) all_.back().entry.values.erase("batch");
      return;
    }
    for (const int count : counts_) {
      if (count % pipelines != 0) continue;
      all_.push_back(candidate(system, pipelines, tensor));
      all_.back().entry.values["microbatches"] = count;
    }
  }
  std::vector<Candidate> take() { return std::move(all_); }

 private:
  bool takes(const System& system, int pipelines, int tensor) const {
    const bool pipelined = system.synchronous && !system.data_parallel && !system.one_process;
    if (ranks_ % (pipelines * tensor) != 0) return false;
    if (pipelines > 1 && (!pipelined || ranks_ / (pipelines * tensor) < (tensor > 1 ? 1 : 2))) return false;
    return tensor == 1 || (system.synchronous && !system.one_process && !system.inference_only);
  }

  // Without a count of micro-batches.
  Candidate candidate(const System& system, int pipelines, int tensor) const {
    Candidate candidate{.system = &system, .entry = entry_};
    candidate.entry.values["system"] = system.name;
    if (pipelines > 1) candidate.entry.values["data_parallel"] = pipelines;
    if (tensor > 1) candidate.entry.values["tensor"] = tensor;
    return candidate;
  }

  const Entry& entry_;
  int ranks_;
  const std::vector<int>& counts_;
  bool is_profile_;
  std::vector<Candidate> all_;
};

// tensors: degrees of shared layers, whole layers first, should the time not be enough.
std::vector<Candidate> with_default_options(const AdviceRequest& request, Candidates candidates,
                                            const std::vector<int>& pipelines, const std::vector<int>& tensors) {
  for (const int tensor : tensors)
    for (const System* system : request.systems)
      for (const int count : pipelines) candidates.add(*system, count, tensor);
  return candidates.take();
}

// The options of a system are tried where its default does best, and once where it does not fit. tried: the best first.
std::vector<Candidate> with_other_options(const AdviceRequest& request, const std::vector<Candidate>& tried) {
  constexpr int places = 2;
  std::vector<Candidate> result;
  for (const System* system : request.systems) {
    int taken = 0;
    for (const Candidate& best : tried) {
      if (best.system != system || taken == places) continue;
      ++taken;
      for (const auto& options : sensible_options(*system)) {
        if (options.empty()) continue;
        result.push_back({.system = system, .entry = best.entry});
        result.back().entry.values["options"] = options;
      }
    }
  }
  return result;
}

}  // namespace

Advice advise(const AdviceRequest& request) {
  // What is wrong with the request is said before anything is tried. Any system of several ranks reads it alike.
  Entry any = request.entry;
  any.values["system"] = "gpipe";
  const RunCase c = resolve(any);
  const Workload& workload = find_workload_or_profile(c.workload, c.costs, "--workload");
  const bool is_profile = is_profile_workload(workload);
  const std::vector<int> counts = is_profile ? std::vector<int>{c.microbatches}
                                             : microbatch_counts(request, c.ranks, c.batch, workload.microbatches);
  for (const int count : counts) {
    any.values["microbatches"] = count;
    resolve(any);
  }
  Entry entry = request.entry;
  entry.values["ranks"] = c.ranks;
  entry.values["batch"] = c.batch;
  Scoring scoring(request.seconds);
  Advice advice;
  advice.candidates = scoring.run(with_default_options(request, Candidates(entry, counts, is_profile),
                                                       divisors(c.ranks), tensor_degrees(request, c, workload)));
  const auto order = [&] {
    std::ranges::stable_sort(advice.candidates, std::greater(), &Candidate::samples_per_second);
  };
  order();
  for (Candidate& candidate : scoring.run(with_other_options(request, advice.candidates)))
    advice.candidates.push_back(std::move(candidate));
  order();
  advice.untried = {scoring.untried().begin(), scoring.untried().end()};
  return advice;
}

std::string options_text(const Candidate& candidate) {
  std::string text;
  for (const auto& [name, value] : candidate.entry.values.value("options", std::map<std::string, std::string>()))
    text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

std::string why_slower(const Candidate& loser, const Candidate& winner) {
  if (!loser.fits()) return loser.refused;
  struct Part {
    const char* what;
    double TimeSplit::*seconds;
  };
  static const Part parts[] = {{"computes", &TimeSplit::computing},
                               {"its slowest rank computes longer than the others", &TimeSplit::uneven},
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
  const auto share = [&](const Candidate& c) { return 100 * (c.split.*(most->seconds)) / c.split.update(); };
  if (most == parts) {
    const double ratio = loser.split.computing * ours / (winner.split.computing * theirs);
    const bool idle = loser.ranks_used < loser.count("ranks");
    return fmt::format("{} {:.2f} x as long for the same samples{}",
                       idle ? fmt::format("uses {} ranks,", loser.ranks_used) + " computes" : "computes", ratio,
                       loser.micro_batch < winner.micro_batch ? ", in smaller micro-batches" : "");
  }
  return fmt::format("{} {:.0f} % of its time ({:.0f} %)", most->what, share(loser), share(winner));
}

std::string plan_line(const Candidate& candidate) {
  return "sluice plan " + flags_text(candidate.entry.values, [](const Setting& s) { return s.of_plan; });
}

std::string run_line(const Candidate& candidate) {
  constexpr int least_steps = 12;  // the first ones are warm-up
  Json values = candidate.entry.values;
  values["steps"] = std::max(least_steps, candidate.updates);
  return "sluice run " + flags_text(values, [](const Setting&) { return true; });
}

}  // namespace sluice
