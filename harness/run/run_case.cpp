// One run from its plan to its record, read top to bottom; a little longer than most files for
// that.
#include "harness/run/run_case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>

#include "harness/base/error.h"
#include "harness/case/engine.h"
#include "harness/case/prepare.h"
#include "harness/sim/communication.h"
#include "harness/train/feed.h"
#include "results/compare.h"
#include "results/store.h"
#include "workloads/data/order.h"

namespace sluice {

namespace {

MemorySplit split_of(const PeakMemory& m) {
  return {.total = m.total(),
          .weights = m.weights,
          .versions = m.versions,
          .gradients = m.gradients,
          .optimizer = m.optimizer,
          .activations = m.activations,
          .buffers = m.buffers};
}

MemorySplit split_of(const MemoryPoint& m) {
  return {.total = m.total().value,
          .weights = m.weights.value,
          .versions = m.versions.value,
          .gradients = m.gradients.value,
          .optimizer = m.optimizer.value,
          .activations = m.activations.value,
          .buffers = 0};
}

std::vector<TimelineOp> timeline_of(const Trace& trace, std::size_t most_ops_a_rank) {
  std::vector<TimelineOp> ops;
  double first = 1e300;
  for (const auto* lists : {&trace.ranks, &trace.collectives})
    for (const auto& rank : *lists)
      if (!rank.empty()) first = std::min(first, rank.front().start);
  const auto add = [&](std::size_t r, const std::string& text, double start, double end) {
    ops.push_back({static_cast<int>(r), text, start - first, end - first});
  };
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    std::size_t compute = 0;
    double shown_until = 1e300;
    const std::vector<TraceEvent>& events = trace.ranks[r];
    for (std::size_t k = 0; k < events.size(); ++k) {
      const TraceEvent& e = events[k];
      const Opcode opcode = e.instruction.opcode;
      if (is_compute(opcode) && ++compute > most_ops_a_rank) {
        shown_until = e.start;
        break;
      }
      if (e.instruction.overlapped && k + 1 < events.size()) {  // one step of the rank
        const TraceEvent& second = events[++k];
        ++compute;
        add(r, "(" + to_text(e.instruction) + ";" + to_text(second.instruction) + ")", e.start, second.end);
        continue;
      }
      add(r,
          opcode == Opcode::optimizer_step     ? "step"
          : opcode == Opcode::reduce_gradients ? "reduce"
                                               : to_text(e.instruction),
          e.start, e.end);
    }
    if (r >= trace.collectives.size()) continue;
    for (const TraceEvent& e : trace.collectives[r])
      if (e.start < shown_until) add(r, to_text(e.instruction), e.start, e.end);
  }
  return ops;
}

nlohmann::json theory_json(const Theory& t) {
  nlohmann::json json = {
      {"in_flight", t.in_flight}, {"weight_versions", t.weight_versions}, {"staleness", t.staleness}};
  json["bubble"] = t.bubble_ratio ? nlohmann::json(*t.bubble_ratio) : nlohmann::json(nullptr);
  return json;
}

// Per kind, bytes of every rank.
nlohmann::json sent_json(const std::vector<SentBytes>& ranks) {
  nlohmann::json json = {{"messages", nlohmann::json::array()},
                         {"gathers", nlohmann::json::array()},
                         {"reductions", nlohmann::json::array()}};
  for (const SentBytes& sent : ranks) {
    json["messages"].push_back(std::llround(sent.messages));
    json["gathers"].push_back(std::llround(sent.gathers));
    json["reductions"].push_back(std::llround(sent.reductions));
  }
  return json;
}

class CaseRun {
 public:
  CaseRun(const RunCase& c, const RunHooks& hooks) : case_(c), hooks_(hooks) {}

  Record run() {
    record_ = record_of(case_);
    if (job() && case_.ranks > job()->size()) {
      record_.outcome = "unsupported";
      record_.reason =
          std::to_string(case_.ranks) + " ranks need as many processes; the job has " + std::to_string(job()->size());
      return std::move(record_);
    }
    try {
      try {
        prepare_in_job();
        if (job() && !processes_) return std::move(record_);  // the case runs on others only
        if (case_.pin == "core") pin();
        if (case_.leftover == "partial") prepared_.leftover = RunPolicy::Leftover::partial;
      } catch (const InputError& e) {
        // The case itself was found sound when it was read: it is the system that refuses.
        record_.outcome = "unsupported";
        record_.reason = e.what();
        return std::move(record_);
      }
      agree_on_error(processes(), [&] { describe_plan(); });
      compare_programs();
      if (record_.outcome == "ok") train();
    } catch (const RunStopped& stopped) {
      if (stopped.kind == RunStopped::Kind::cancelled) throw Cancelled{};
      record_.outcome = stopped.kind == RunStopped::Kind::timed_out ? "timed_out" : "failed";
      record_.reason = stopped.what();
      if (stopped.rank) record_.failed_rank = stopped.rank->value;
    }
    return std::move(record_);
  }

 private:
  bool on_wall() const { return case_.clock == "wall"; }
  bool synchronous() const { return prepared_.system->synchronous; }

  ProcessGroup* job() const { return runs_as_processes(case_) ? hooks_.job : nullptr; }
  ProcessGroup* processes() const { return processes_.get(); }
  bool leads() const { return !processes_ || processes_->rank() == 0; }

  // In a job the first process plans, and measures for it if need be; the others then plan by the
  // same costs. The case's ranks are the first so many processes.
  void prepare_in_job() {
    if (!job()) {
      prepared_ = prepare(case_);
      return;
    }
    std::string word;
    if (job()->rank() == 0) {
      nlohmann::json json;
      try {
        prepared_ = prepare(case_);
        json = {{"costs", measured_costs()}, {"ranks", prepared_.ranks.devices.size()}};
      } catch (const InputError& e) {
        json = {{"refused", e.what()}};
      }
      word = json.dump();
    }
    const nlohmann::json json = nlohmann::json::parse(job()->broadcast(word, 0));
    if (json.contains("refused")) throw InputError("", json.at("refused").get<std::string>());
    processes_ = job()->first(json.at("ranks").get<int>());
    if (!processes_) return;
    agree_on_error(processes(), [&] {
      if (leads()) return;
      adopt_measured_costs(json.at("costs"));
      prepared_ = prepare(case_);
    });
  }

  void pin() {
    pinning_ = pin_to_cores(static_cast<int>(prepared_.ranks.devices.size()), processes());
    record_.environment["pinning"] = {{"library", hwloc_library()}, {"cpus", pinning_->cpus()}};
  }

  // All have planned by themselves: the result must be the same.
  void compare_programs() const {
    if (!processes_) return;
    std::string text = record_.outcome;
    for (const auto& rank : program_.ranks)
      for (const Instruction& i : rank) text += "\n" + to_text(i);
    const std::vector<std::string> all = processes_->all_gather(digest(nlohmann::json(text)));
    for (std::size_t r = 0; r < all.size(); ++r)
      if (all[r] != all[0])
        throw RunStopped(
            RunStopped::Kind::failed, Rank(r),
            "process " + std::to_string(r) + " plans another program than process 0: another build, or other files");
  }

  // Plan, theory, memory; sets the outcome where the case cannot run.
  void describe_plan() {
    const Prepared& p = prepared_;
    record_.planning_seconds = p.planning_seconds;
    // The devices that a planner leaves idle were given to it all the same.
    if (case_.system == kReferenceSystem) record_.ranks = 1;
    if (!on_wall()) record_.device = p.cluster.devices.front().name;
    record_.plan = plan_json(p.plan, p.costs, p.system->name, std::nullopt);
    record_.microbatches = p.microbatches_per_update;
    load_data();
    const int units = segments_.empty() ? case_.microbatches : unit_count(0, segments_.front());
    try {
      refuse_optimizer(rule_of(p, units));
      if (snapshots() && rule_differs_by_epoch(units))
        throw InputError(
            "evaluation",
            "snapshot runs all epochs at once, and " + case_.system + " runs its first ones in another way",
            "use drain");
      program_ = make_program(p, units);
    } catch (const InputError& e) {
      record_.outcome = "unsupported";
      record_.reason = e.what();
      return;
    }
    record_.theory = theory_json(make_theory(p, units));
    const std::vector<RankMemory> memory = sluice::memory(program_, stage_memory(p, case_.optimizer, program_.rule));
    nlohmann::json in_flight = nlohmann::json::array(), versions = nlohmann::json::array();
    for (const RankMemory& m : memory) {
      record_.predicted_peak_bytes.push_back(split_of(m.peak));
      in_flight.push_back(m.peak_in_flight);
      versions.push_back(m.peak_versions);
    }
    record_.observed = {{"in_flight", in_flight},
                        {"weight_versions", versions},
                        {"sent_bytes", sent_json(sent_bytes(program_, costs_of(p.plan, p.costs, p.cluster)))}};
    if (const std::string over = over_memory(p, memory); !over.empty()) {
      record_.outcome = "out_of_memory";
      record_.reason = over;
    }
    if (!on_wall()) record_.peak_bytes = record_.predicted_peak_bytes;
  }

  bool rule_differs_by_epoch(int units) const {
    const WeightRule first = rule_of(prepared_, units, 0), last = rule_of(prepared_, units, case_.epochs - 1);
    return first.pipemare.delay != last.pipemare.delay;
  }

  void refuse_optimizer(const WeightRule& rule) const {
    const OptimizerSpec& o = case_.optimizer;
    if (rule.momentum_sgd_only && (o.kind != OptimizerSpec::Kind::sgd || o.momentum == 0))
      throw InputError("optimizer", case_.system + " predicts by momentum SGD's rule only",
                       "use sgd with momentum, or leave out strict");
  }

  // Cuts the run into drained segments, an evaluation after each. Sizes in updates.
  void load_data() {
    if (case_.epochs > 0) {
      data_ = data_of(prepared_.workload->dataset, prepared_.workload->model);
      updates_per_epoch_ = data_->train.samples / case_.batch;
      if (updates_per_epoch_ < case_.evaluations_per_epoch)
        throw InputError("batch",
                         "an epoch of " + std::to_string(data_->train.samples) + " samples has " +
                             std::to_string(updates_per_epoch_) + " updates of " + std::to_string(case_.batch) +
                             " samples, fewer than its evaluations",
                         "use a smaller batch");
      if (case_.leftover == "partial")
        leftover_ = static_cast<int>(data_->train.samples % case_.batch / prepared_.micro_batch);
      if (leftover_ > 0) ++updates_per_epoch_;
      record_.updates_per_epoch = updates_per_epoch_;
      for (int e = 0; e < case_.epochs; ++e)
        for (int k = 0; k < case_.evaluations_per_epoch; ++k)
          segments_.push_back(updates_per_epoch_ * (k + 1) / case_.evaluations_per_epoch -
                              updates_per_epoch_ * k / case_.evaluations_per_epoch);
    } else {
      if (prepared_.workload->dataset != "synthetic" && case_.train)
        data_ = data_of(prepared_.workload->dataset, prepared_.workload->model);
      segments_ = {case_.steps};
    }
    total_updates_ = std::accumulate(segments_.begin(), segments_.end(), std::int64_t{0});
  }

  // Micro-batches of the program that runs `updates` updates from the beginning of `segment` on:
  // one update's, or a whole drained run's.
  int unit_count(std::size_t segment, std::int64_t updates) const {
    if (synchronous()) return case_.microbatches;
    const int per_update = prepared_.microbatches_per_update;
    const int missing = leftover_ > 0 && ends_epoch(segment) ? per_update - leftover_ : 0;
    return static_cast<int>(updates) * per_update - missing;
  }

  bool ends_epoch(std::size_t segment) const {
    const auto per_epoch = static_cast<std::size_t>(case_.evaluations_per_epoch);
    return case_.epochs > 0 && segment % per_epoch + 1 == per_epoch;
  }

  // Segments that run without draining: one after the other, or all at once and snapshots between.
  struct UndrainedSegment {
    std::size_t first_segment = 0;
    std::vector<std::int64_t> marks;  // ends of its segments, in updates from its start
  };
  std::vector<UndrainedSegment> undrained_segments() const {
    std::vector<UndrainedSegment> result;
    for (std::size_t k = 0; k < segments_.size(); ++k) {
      if (result.empty() || !snapshots()) result.push_back({k, {}});
      auto& marks = result.back().marks;
      marks.push_back((marks.empty() ? 0 : marks.back()) + segments_[k]);
    }
    return result;
  }
  bool snapshots() const { return case_.evaluation == "snapshot" && case_.epochs > 0; }

  int epoch_of(std::size_t segment) const {
    return case_.epochs == 0 ? 0 : static_cast<int>(segment) / case_.evaluations_per_epoch;
  }

  // The samples of a undrained segment in order. Every epoch drops the incomplete batch at its end, or what
  // of it fills no micro-batch.
  std::vector<std::int64_t> samples_of(const UndrainedSegment& segment) const {
    std::vector<std::int64_t> order;
    if (!data_) return order;
    if (case_.epochs == 0) return repeated_order(segment.marks.back() * case_.batch);
    const auto per_epoch = static_cast<std::size_t>(case_.evaluations_per_epoch);
    for (std::size_t i = 0; i < segment.marks.size(); ++i) {
      const std::size_t k = segment.first_segment + i;
      const auto epoch = epoch_order(data_->train.samples, case_.seed, epoch_of(k));
      std::int64_t before = 0;
      for (std::size_t j = k - k % per_epoch; j < k; ++j) before += segments_[j];
      const auto begin = epoch.begin() + before * case_.batch;
      const std::int64_t missing = leftover_ > 0 && ends_epoch(k) ? case_.batch - leftover_ * prepared_.micro_batch : 0;
      order.insert(order.end(), begin, begin + segments_[k] * case_.batch - missing);
    }
    return order;
  }

  void train() {
    if (case_.train) start_session();
    record_.warmup_steps = static_cast<int>(std::min<std::int64_t>(5, segments_.front() / 2));
    const std::vector<UndrainedSegment> all = undrained_segments();
    double seconds = 0;
    std::int64_t done = 0;
    for (std::size_t k = restore_checkpoint(done, seconds); k < all.size(); ++k) {
      const std::int64_t updates = all[k].marks.back();
      program_ = make_program(prepared_, unit_count(all[k].first_segment, updates), epoch_of(all[k].first_segment));
      const bool last = k + 1 == all.size();
      seconds += run_undrained_segment(all[k], done, seconds, last);
      if (record_.outcome == "diverged") break;
      done += updates;
      const bool evaluated = case_.purpose == "tune" ? validated() && (last || case_.epochs > 0) : case_.epochs > 0;
      if (evaluated && session_ && !evaluate(all[k].marks.size(), done)) break;
      if (!last) save_checkpoint(k + 1, done, seconds);
    }
    if (on_wall()) {
      for (const PeakMemory& m : session_->peak_memory()) record_.peak_bytes.push_back(split_of(m));
    }
    delete_checkpoint();
  }

  // Candidates of a search are judged on the validation part, never on the test part; where the
  // data has none, by their training loss.
  bool validated() const { return data_ && data_->validation.samples > 0; }

  // Fills in the last `points` points of the curve; false if the weights are spoilt.
  bool evaluate(std::size_t points, std::int64_t done) {
    for (std::size_t i = 0; i < points; ++i) {
      const Evaluation e = snapshots() ? session_->evaluate_snapshot(i) : session_->evaluate();
      CurvePoint& point = record_.curve[record_.curve.size() - points + i];
      point.extra = e.extra;
      point.metric = prepared_.workload->metric == "loss" ? e.loss : e.accuracy;
      // The last updates may have spoilt the weights without a forward of theirs to show it.
      if (!std::isfinite(e.loss)) {
        diverged_at(point.step, "the test loss after it is not finite");
        record_.curve.resize(record_.curve.size() - points + i + 1);
        return false;
      }
    }
    report(done, "");
    return true;
  }

  // Checkpoints: the session's file, and beside it the record so far, which names it. The record's
  // file is replaced last, so that what it names is always whole.
  std::string checkpoint_stem() const { return hooks_.checkpoints + "/" + record_.digest; }

  void save_checkpoint(std::size_t next, std::int64_t done, double seconds) const {
    if (hooks_.checkpoints.empty() || !session_) return;
    if (leads()) std::filesystem::create_directories(hooks_.checkpoints);
    const std::string state = checkpoint_stem() + "." + std::to_string(next) + ".state";
    session_->save(state);
    agree_on_error(processes(), [&] {
      if (leads()) put_record_away(next, done, seconds, state);
    });
  }

  void put_record_away(std::size_t next, std::int64_t done, double seconds, const std::string& state) const {
    const std::string file = checkpoint_stem() + ".json";
    {
      std::ofstream out(file + ".part");
      out << nlohmann::json{{"record", to_json(record_)},
                            {"state", state},
                            {"next", next},
                            {"updates", done},
                            {"seconds", seconds}}
                 .dump()
          << "\n";
      if (!out.flush()) throw InputError(file, "cannot be written");
    }
    std::filesystem::rename(file + ".part", file);
    std::filesystem::remove(checkpoint_stem() + "." + std::to_string(next - 1) + ".state");
  }

  // The undrained segment to begin with.
  std::size_t restore_checkpoint(std::int64_t& done, double& seconds) {
    const std::string file = checkpoint_stem() + ".json";
    if (hooks_.checkpoints.empty() || !session_) return 0;
    nlohmann::json json;
    agree_on_error(processes(), [&] {
      if (leads() && std::filesystem::exists(file)) json = parse_json_file(file);
    });
    if (processes()) json = nlohmann::json::parse(processes()->broadcast(json.dump(), 0));
    if (json.is_null()) return 0;
    JsonReader reader(json, file);
    Record record = record_from_json(reader.raw("record"), file);
    const auto next = static_cast<std::size_t>(reader.integer("next", 1));
    session_->load(reader.text("state"));
    done = reader.integer("updates", 1);
    seconds = reader.number("seconds");
    record.environment = record_.environment;  // of the machine that ends it
    record_ = std::move(record);
    return next;
  }

  void delete_checkpoint() const {
    if (hooks_.checkpoints.empty() || !leads() || !std::filesystem::exists(hooks_.checkpoints)) return;
    const std::string stem = record_.digest + ".";
    for (const auto& entry : std::filesystem::directory_iterator(hooks_.checkpoints))
      if (entry.path().filename().string().starts_with(stem)) std::filesystem::remove(entry.path());
  }

  // update: counted from 1 over the whole run.
  void diverged_at(std::int64_t update, const std::string& how) {
    record_.outcome = "diverged";
    record_.diverged_at = update;
    record_.reason = "at update " + std::to_string(update) + ": " + how;
  }

  std::vector<std::int64_t> repeated_order(std::int64_t samples) const {
    std::vector<std::int64_t> order;
    for (int epoch = 0; static_cast<std::int64_t>(order.size()) < samples; ++epoch) {
      const auto more = epoch_order(data_->train.samples, case_.seed, epoch);
      order.insert(order.end(), more.begin(), more.end());
    }
    return order;
  }

  void start_session() {
    SessionSpec spec;
    spec.model = prepared_.workload->model;
    spec.plan = prepared_.plan;
    spec.optimizer = case_.optimizer;
    spec.seed = case_.seed;
    spec.micro_batch = prepared_.micro_batch;
    spec.batched_weight_gradients = case_.weight_gradient == "batched";
    if (on_wall()) spec.device = case_.device, spec.transport = case_.transport;
    spec.rule = program_.rule;
    spec.processes = processes();
    spec.sharding = program_.sharding;
    spec.fail_rank = case_.fail_rank;
    spec.fail_update = case_.fail_update;
    if (data_) {
      spec.feed = feed_of(data_, case_.purpose == "tune" && validated() ? HeldOut::validation : HeldOut::test);
    } else {
      spec.synthetic_batch = case_.batch;
    }
    session_ = engine::session(spec);
    session_->reset_peak_memory();
  }

  // Returns the undrained segment's seconds on the case's clock.
  double run_undrained_segment(const UndrainedSegment& segment, std::int64_t done, double seconds_before, bool last) {
    const std::int64_t updates = segment.marks.back();
    RunResult result;
    if (session_) {
      RunRequest request;
      request.order = samples_of(segment);
      request.iterations = synchronous() ? static_cast<int>(updates) : 1;
      if (snapshots()) request.snapshots = segment.marks;
      if (case_.rate_schedule.kind != "constant")
        request.learning_rate = [this](std::int64_t update) {
          return case_.optimizer.learning_rate * case_.rate_schedule.at(update, updates_per_epoch_, total_updates_);
        };
      if (last && on_wall()) request.traced_iteration = request.iterations / 2;
      if (case_.timeout_seconds > 0) {
        const double left = case_.timeout_seconds - seconds_before;
        request.timeout = Seconds(std::max(left, 1e-3));
      }
      request.cancel = hooks_.cancel;
      request.pinning = pinning_.get();
      request.progress = [&](std::int64_t in_segment) { report(done + in_segment, ""); };
      result = session_->run(program_, request);
    }
    std::vector<double> update_end = result.execution.update_end;
    double seconds = result.execution.seconds;
    Trace trace = std::move(result.execution.trace);
    if (!on_wall()) {
      const Simulation simulation = simulate(
          program_, costs_of(prepared_.plan, prepared_.costs, prepared_.cluster), prepared_.cluster,
          prepared_.ranks.devices, {.iterations = synchronous() ? static_cast<int>(updates) : 1, .trace = last});
      update_end = simulation.update_end;
      seconds = simulation.end;
      trace = simulation.trace;
    }
    if (result.execution.diverged) {
      keep_until_divergence(result, update_end, done, seconds_before, seconds);
      return seconds;
    }
    for (std::size_t u = 0; u < update_end.size(); ++u)
      record_.step_seconds.push_back(update_end[u] - (u == 0 ? 0.0 : update_end[u - 1]));
    if (last) note_timeline(trace);
    if (case_.epochs > 0) {
      std::int64_t from = 0;
      for (const std::int64_t mark : segment.marks) {
        const auto begin = result.losses.begin() + (result.losses.empty() ? 0 : from);
        const auto end = result.losses.begin() + (result.losses.empty() ? 0 : mark);
        const double loss =
            result.losses.empty() ? 0 : std::accumulate(begin, end, 0.0) / static_cast<double>(mark - from);
        // At its end the pipe is drained; in mid-run the last rank has just made the update.
        const double at = mark == updates ? seconds : update_end[static_cast<std::size_t>(mark) - 1];
        record_.curve.push_back({.step = done + mark, .seconds = seconds_before + at, .loss = loss, .metric = {}});
        from = mark;
      }
    } else {
      for (std::size_t u = 0; u < result.losses.size(); ++u)
        record_.curve.push_back({.step = done + static_cast<std::int64_t>(u) + 1,
                                 .seconds = seconds_before + update_end[u],
                                 .loss = result.losses[u],
                                 .metric = {}});
    }
    return seconds;
  }

  // A run whose loss stopped being a number keeps what it did until then: every loss of its last,
  // unfinished segment is a point of the curve, the last one the loss that is not finite.
  void keep_until_divergence(const RunResult& result, std::vector<double> update_end, std::int64_t done,
                             double seconds_before, double seconds) {
    const std::int64_t update = *result.execution.diverged;
    diverged_at(done + update + 1, "the training loss is not finite");
    if (update_end.size() > result.losses.size()) update_end.resize(result.losses.size());
    for (std::size_t u = 0; u < update_end.size(); ++u)
      record_.step_seconds.push_back(update_end[u] - (u == 0 ? 0.0 : update_end[u - 1]));
    // Of an asynchronous run the last losses come before their updates have reached every stage.
    const auto seconds_of = [&](std::size_t u) {
      if (u < update_end.size()) return seconds_before + update_end[u];
      if (on_wall()) return seconds_before + seconds;
      return seconds_before + (update_end.empty() ? 0.0 : update_end.back());
    };
    for (std::size_t u = 0; u < result.losses.size(); ++u)
      record_.curve.push_back({.step = done + static_cast<std::int64_t>(u) + 1,
                               .seconds = seconds_of(u),
                               .loss = result.losses[u],
                               .metric = {}});
    record_.curve.push_back({.step = done + update + 1,
                             .seconds = seconds_of(result.losses.size()),
                             .loss = std::numeric_limits<double>::quiet_NaN(),
                             .metric = {}});
  }

  void note_timeline(const Trace& trace) {
    const Bubbles b = bubbles(trace);
    record_.observed["bubble_ratio"] = b.bubble_ratio;
    record_.observed["span_bubble"] = b.span_bubble;
    const std::size_t most = synchronous() ? std::size_t{4096} : 6 * prepared_.ranks.devices.size();
    record_.timeline = timeline_of(trace, most);
  }

  void report(std::int64_t updates, const std::string& note) const {
    if (hooks_.progress) hooks_.progress(static_cast<double>(updates) / static_cast<double>(total_updates_), note);
  }

  const RunCase& case_;
  const RunHooks& hooks_;
  Record record_;
  Prepared prepared_;
  std::unique_ptr<ProcessGroup> processes_;  // the case's ranks, in a job
  std::unique_ptr<Pinning> pinning_;
  Program program_;
  std::shared_ptr<const DataSplit> data_;
  std::unique_ptr<Session> session_;
  std::vector<std::int64_t> segments_;
  std::int64_t total_updates_ = 1, updates_per_epoch_ = 0;
  int leftover_ = 0;  // micro-batches of the partial update that ends an epoch; 0: none
};

}  // namespace

Record record_of(const RunCase& c) {
  Record record;
  const Workload& workload = find_workload(c.workload);
  record.digest = digest(to_json(c));
  record.system = c.system;
  record.options = c.options;
  record.options["weight_gradient"] = c.weight_gradient;
  record.options["optimizer"] = to_json(c.optimizer);
  if (c.data_parallel > 1) {
    record.options["data_parallel"] = std::to_string(c.data_parallel);
    record.options["layout"] = c.layout;
  }
  if (c.sharding != "system") record.options["sharding"] = c.sharding;
  if (c.step != "free") record.options["step"] = c.step;
  if (c.pin != "none") record.options["pin"] = c.pin;
  record.workload = c.workload;
  record.workload_facts = {
      {"title", workload.title},     {"metric", workload.metric}, {"metric_direction", workload.metric_direction},
      {"dataset", workload.dataset}, {"source", workload.source}, {"parameters", parameter_count(workload.model)},
      {"epochs", c.epochs},          {"steps", c.steps}};
  // The target holds for the number of epochs it was measured with.
  if (workload.target && c.epochs > 0) record.workload_facts["target"] = *workload.target;
  if (workload.single_device_value) record.workload_facts["single_device_value"] = *workload.single_device_value;
  record.cluster = c.cluster;
  record.clock = c.clock;
  record.transport = c.transport;
  record.device = c.device;
  record.ranks = c.ranks;
  record.batch = c.batch;
  record.microbatches = c.microbatches;
  record.seed = c.seed;
  record.purpose = c.purpose;
  record.samples_per_step = c.batch;
  record.cost_source = c.costs == "analytic" || c.costs == "profile" ? c.costs : "profile";
  record.environment = describe_environment();
  return record;
}

Record run_case(const RunCase& c, const RunHooks& hooks) { return CaseRun(c, hooks).run(); }

}  // namespace sluice
