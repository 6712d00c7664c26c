#include "harness/train/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/base/passing_folder.h"
#include "harness/base/read_text.h"
#include "harness/case/make_program.h"
#include "harness/case/predict_update.h"
#include "harness/exec/window_reports.h"
#include "harness/sim/simulate.h"
#include "harness/train/oracle.h"

namespace sluice {

using Steady = std::chrono::steady_clock;

static double since(Steady::time_point start) { return std::chrono::duration<double>(Steady::now() - start).count(); }

Adapter::Adapter(const RunCase& c, const Prepared& prepared, std::int64_t updates) : case_(c), prepared_(prepared) {
  const System& system = *prepared.system;
  active_ = system.adapt && c.device != DeviceKind::cuda && c.evaluation != EvaluationMode::snapshot &&
            !prepared.inference && prepared.ranks.devices.size() > 1;
  if (system.prescribed) prescribed_ = system.prescribed(problem(), prepared.options);
  if (!active_ && !prescribed_.empty())
    throw InputError("moves", "layers move only between several ranks on CPUs that train and drain for evaluations",
                     "leave moves out");
  if (!prescribed_.empty() && prescribed_.rbegin()->first >= updates && c.purpose != Purpose::tune)
    throw InputError("moves",
                     "update " + std::to_string(prescribed_.rbegin()->first) + " is not before the end of the run, " +
                         std::to_string(updates) + " updates",
                     "leave it out, or lengthen the run");
  if (!active_) return;
  window_ = system.window(prepared.options);
  plans_ = {prepared.plan};
}

bool Adapter::resume(const RecordedAdaptation& before, std::int64_t updates) {
  updates_done_ = updates;
  for (const RecordedAdaptation::Window& window : before.windows)
    windows_.push_back({.plan = static_cast<std::size_t>(window.plan),
                        .updates = window_,
                        .compute = window.seconds,
                        .transfers = {}});
  changes_ = before.changes;
  for (const RecordedAdaptation::Change& change : changes_) {
    Plan plan = prepared_.plan;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].layers = change.stages.at(s);
    adopt(plan);
  }
  return !changes_.empty();
}

void Adapter::adopt(const Plan& plan) {
  adopt_pipeline(prepared_, plan);
  plans_.push_back(prepared_.plan);
}

std::optional<std::int64_t> Adapter::decide(const std::vector<double>& compute, std::int64_t begun, double now) {
  windows_.push_back({.plan = plans_.size() - 1, .updates = window_, .compute = compute, .transfers = {}});
  const Observations seen{plans_, windows_, updates_left_ - begun};
  next_ = prepared_.system->adapt(seen, problem(), prepared_.options);
  if (!next_) return std::nullopt;
  decided_ = now;
  return begun + next_->after_updates;
}

// What the executor does while it runs, from a trace: the windows of every rank end with its backwards, and the first
// rank asks after its step.
std::optional<std::int64_t> Adapter::decide_by_simulation(const Program& program, double start) {
  if (!can_report(program)) return std::nullopt;
  const Trace trace = simulate(program, costs_of(prepared_), prepared_.cluster, prepared_.ranks.devices,
                               {.interference = &prepared_.interference, .start = start})
                          .trace;
  const std::size_t ranks = trace.ranks.size();
  std::vector<std::vector<double>> seconds(ranks);  // per rank and window
  for (std::size_t r = 0; r < ranks; ++r) {
    double sum = 0;
    for (const TraceEvent& e : trace.ranks[r]) {
      if (!is_compute(e.instruction.opcode)) continue;
      sum += e.end - e.start;
      if (e.instruction.opcode != Opcode::backward) continue;
      if ((e.instruction.micro.value + 1) % (window_ * program.microbatches_per_update) != 0) continue;
      seconds[r].push_back(sum);
      sum = 0;
    }
  }
  std::int64_t begun = 0;
  for (const TraceEvent& e : trace.ranks.front()) {
    const std::int64_t update = e.instruction.micro.value;
    if (e.instruction.opcode == Opcode::forward) begun = std::max(begun, update / program.microbatches_per_update + 1);
    if (e.instruction.opcode != Opcode::optimizer_step || (update + 1) % window_ != 0 || begun >= program.updates)
      continue;
    std::vector<double> compute;
    for (const auto& of_rank : seconds) compute.push_back(of_rank.at(update / window_));
    const std::optional<std::int64_t> end = decide(compute, begun, start + e.end);
    if (end && std::max(*end, begun + 1) < program.updates) return std::max(*end, begun + 1);
    next_.reset();
  }
  return std::nullopt;
}

SegmentResult Adapter::run(const Segment& segment, std::unique_ptr<Session>& session, const RunRequest& request,
                           ProcessGroup* processes, const Restart& restart) {
  const bool on_wall = case_.clock == sluice::Clock::wall;
  SegmentResult all;
  const Steady::time_point run_began = Steady::now();
  updates_left_ = segment.updates;
  const std::size_t samples =
      request.order.size() / static_cast<std::size_t>(std::max<std::int64_t>(1, segment.updates));
  for (std::int64_t done = 0; done < segment.updates;) {
    if (const auto due = prescribed_.find(updates_done_); due != prescribed_.end()) {
      next_ = due->second;
      decided_ = segment.start + all.seconds;
      all.seconds += carry_out(session, processes, restart, decided_);
    }
    std::int64_t updates = segment.updates - done;
    if (const auto later = prescribed_.upper_bound(updates_done_); later != prescribed_.end())
      updates = std::min(updates, later->first - updates_done_);
    const double start = segment.start + all.seconds;
    const auto program_of = [&](std::int64_t n) {
      return make_program(prepared_, static_cast<int>(n) * prepared_.microbatches_per_update, segment.epoch);
    };
    Program program = program_of(updates);
    RunRequest part = request;
    part.iterations = 1;
    Disturbance from_here;  // the episodes are those of the training's seconds, not of the part's
    if (request.disturbance) {
      from_here = *request.disturbance;
      from_here.start = start;
      part.disturbance = &from_here;
    }
    if (request.timeout) part.timeout = Seconds(std::max(request.timeout->value - since(run_began), 1e-3));
    const Steady::time_point began = Steady::now();
    WindowOptions windows{.updates = window_, .decide = [&](const std::vector<double>& compute, std::int64_t begun) {
                            return decide(compute, begun, start + since(began));
                          }};
    if (!prescribed_.empty()) {
      // The system is not asked.
    } else if (on_wall) {
      part.windows = &windows;
    } else if (const std::optional<std::int64_t> end = decide_by_simulation(program, start)) {
      updates = *end;
      program = program_of(updates);
    }
    part.order.assign(
        request.order.begin() + static_cast<std::ptrdiff_t>(samples * static_cast<std::size_t>(done)),
        request.order.begin() + static_cast<std::ptrdiff_t>(samples * static_cast<std::size_t>(done + updates)));
    if (request.progress) part.progress = [&request, done](std::int64_t n) { request.progress(done + n); };
    SegmentResult result = run_segment(case_, prepared_, program, session.get(), part, start, segment.traced);
    if (on_wall) {
      updates = result.ended.value_or(updates);
      if (!result.ended) next_.reset();  // too late for this segment
    }
    for (const double end : result.update_end) all.update_end.push_back(all.seconds + end);
    all.losses.insert(all.losses.end(), result.losses.begin(), result.losses.end());
    all.trace = std::move(result.trace);
    all.seconds += result.seconds;
    if (result.diverged) {
      all.diverged = done + *result.diverged;
      return all;
    }
    done += updates;
    updates_done_ += updates;
    updates_left_ -= updates;
    agree(processes);
    if (next_ && done < segment.updates)
      all.seconds += carry_out(session, processes, restart, segment.start + all.seconds);
    next_.reset();
  }
  return all;
}

// The first process decides; the others learn it when the pipe is empty.
void Adapter::agree(ProcessGroup* processes) {
  if (!processes) return;
  Json message;
  if (next_) {
    Json stages = Json::array();
    for (const PlanStage& stage : next_->plan.stages) stages.push_back(stage.layers);
    message = {{"stages", stages}, {"restart", next_->restart}};
  }
  message = Json::parse(processes->broadcast(message.dump(), 0));
  if (message.is_null() || next_) return;
  next_.emplace().plan = prepared_.plan;
  for (std::size_t s = 0; s < next_->plan.stages.size(); ++s)
    next_->plan.stages[s].layers = message.at("stages").at(s).get<std::vector<int>>();
  next_->restart = message.at("restart").get<bool>();
}

// An empty folder that no other run has, the same in all processes of this one. Collective. Throws RunError.
static std::string new_folder_of_run(ProcessGroup* processes) {
  std::string name = (std::filesystem::temp_directory_path() / "sluice-restart-XXXXXX").string();
  agree_on_error(processes, [&] {
    if ((!processes || processes->rank() == 0) && !::mkdtemp(name.data()))
      throw RunError(name + ": cannot be made: " + errno_text(errno));
  });
  return processes ? processes->broadcast(name, 0) : name;
}

// A layer that lost something on its way is a defect, and would train on as if nothing had happened.
static void require_same_layers(const std::vector<std::uint64_t>& before, const std::vector<std::uint64_t>& after,
                                const CostGraph& costs, bool restart) {
  for (std::size_t l = 0; l < before.size(); ++l)
    if (after.at(l) != before[l])
      throw std::logic_error(
          fmt::format("layer '{}' has other weights, optimizer state or statistics after {} than before",
                      costs.layers.at(l).name, restart ? "a restart" : "layers moved"));
}

double Adapter::carry_out(std::unique_ptr<Session>& session, ProcessGroup* processes, const Restart& restart,
                          double now) {
  if (!next_) throw std::logic_error("no other plan is decided on");
  const auto& next = *next_;
  const Plan from = prepared_.plan;
  const bool on_wall = case_.clock == sluice::Clock::wall;
  const MovedLayers moved = next.restart ? restarted_layers(prepared_, case_.optimizer, next.plan)
                                         : moved_layers(prepared_, case_.optimizer, from, next.plan);
  adopt(next.plan);
  std::vector<std::uint64_t> layers_before;
  if (session) layers_before = session->layer_digests();
  const Steady::time_point began = Steady::now();
  if (session && next.restart && on_wall) {
    const PassingFolder folder(new_folder_of_run(processes));
    const std::string file = (folder.path / "state").string();
    session->save(file);
    restart(prepared_, file);
  } else if (session) {
    session->repartition(prepared_.plan);
  }
  RecordedAdaptation::Change& change = changes_.emplace_back(
      RecordedAdaptation::Change{.update = updates_done_,
                                 .decided_seconds = decided_,
                                 .stopped_seconds = now,
                                 .seconds = on_wall ? since(began) : moved.seconds + next.pause.value,
                                 .bytes = moved.bytes,
                                 .restart = next.restart});
  if (session) require_same_layers(layers_before, session->layer_digests(), prepared_.costs, next.restart);
  for (const PlanStage& stage : prepared_.plan.stages) change.stages.push_back(stage.layers);
  next_.reset();
  return change.seconds;
}

void Adapter::describe(Record& record) const {
  if (!active_) return;
  RecordedAdaptation& adaptation = record.observed.adaptation.emplace();
  adaptation.window_updates = window_;
  for (const ObservedWindow& window : windows_)
    adaptation.windows.push_back({.plan = static_cast<int>(window.plan), .seconds = window.compute});
  adaptation.changes = changes_;
  adaptation.moves = moves_of(changes_);
  for (const RecordedAdaptation::Change& c : changes_) {
    adaptation.moved_bytes += c.bytes;
    adaptation.moving_seconds += c.seconds;
  }
  // When each change of a device was answered: from the change of its speed to the decision, and to the move's end.
  std::vector<double> moments;
  for (const DeviceId device : prepared_.ranks.devices) {
    const PiecewiseSpeed speed = prepared_.interference.device_speed(device);
    for (const auto& change : speed.changes()) moments.push_back(change.from);
  }
  std::ranges::sort(moments);
  for (std::size_t m = 0; m < moments.size(); ++m) {
    const double until = m + 1 < moments.size() ? moments[m + 1] : std::numeric_limits<double>::infinity();
    for (const RecordedAdaptation::Change& c : changes_) {
      if (c.decided_seconds < moments[m] || c.decided_seconds >= until) continue;
      adaptation.answered.push_back({.at_seconds = moments[m],
                                     .seconds_to_detect = c.decided_seconds - moments[m],
                                     .seconds_to_recover = c.stopped_seconds + c.seconds - moments[m]});
      break;
    }
  }
}

std::optional<double> Adapter::seconds_of_oracle() const {
  if (!active_ || case_.clock != sluice::Clock::virtual_clock) return std::nullopt;
  return oracle_seconds(case_, prepared_, plans_, updates_done_);
}

namespace {

double state_bytes(const Prepared& p, const OptimizerSpec& optimizer, int layer) {
  const LayerCost& cost = p.costs.layers[layer];
  return static_cast<double>((cost.parameters + cost.trained() * optimizer.state_tensors()).value);
}

double seconds_between(const Cluster& cluster, DeviceId a, DeviceId b, double bytes) {
  double slowest = 0, latency = 0;
  for (const Hop& hop : path(cluster, a, b)) {
    const Link& link = hop.link;
    slowest = std::max(slowest, 1 / link.bandwidth);
    latency += link.latency.value;
  }
  return latency + bytes * slowest;
}

}  // namespace

MovedLayers moved_layers(const Prepared& p, const OptimizerSpec& optimizer, const Plan& from, const Plan& to) {
  std::vector<DeviceId> before(p.costs.layers.size());
  for (const PlanStage& stage : from.stages)
    for (const int l : stage.layers) before[l] = stage.devices.front();
  std::map<std::pair<DeviceId, DeviceId>, double> over;
  MovedLayers moved;
  for (const PlanStage& stage : to.stages)
    for (const int l : stage.layers) {
      const DeviceId old = before[l];
      if (old == stage.devices.front()) continue;
      const double bytes = state_bytes(p, optimizer, l);
      over[{old, stage.devices.front()}] += bytes;
      moved.bytes += bytes;
    }
  for (const auto& [ends, bytes] : over)
    moved.seconds = std::max(moved.seconds, seconds_between(p.cluster, ends.first, ends.second, bytes));
  return moved;
}

MovedLayers restarted_layers(const Prepared& p, const OptimizerSpec& optimizer, const Plan& to) {
  MovedLayers moved;
  const DeviceId first = to.stages.front().devices.front();
  for (const PlanStage& stage : to.stages) {
    double bytes = 0;
    for (const int l : stage.layers) bytes += state_bytes(p, optimizer, l);
    moved.bytes += 2 * bytes;
    if (stage.devices.front() != first)
      moved.seconds += 2 * seconds_between(p.cluster, first, stage.devices.front(), bytes);
  }
  return moved;
}

}  // namespace sluice
