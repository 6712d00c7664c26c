#include "results/contradictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "harness/pipeline/plan.h"

namespace sluice {

namespace {

bool ran(const Record& r) { return r.outcome == RecordOutcome::ok || r.outcome == RecordOutcome::diverged; }

// A finding about the fields that its check names; "": they agree.
using Finding = std::string;

Finding only_ok_has_no_reason(const Record& r) {
  if ((r.outcome == RecordOutcome::ok) == r.reason.empty()) return "";
  if (r.reason.empty()) return fmt::format("a run that is {} has no reason", choice_name(r.outcome));
  return "a run that is ok has a reason for not being so";
}

Finding only_diverged_runs_diverged_at_an_update(const Record& r) {
  if (!r.diverged_at) return "";
  if (r.outcome != RecordOutcome::diverged)
    return fmt::format("a run that is {} diverged at update {}", choice_name(r.outcome), *r.diverged_at);
  return *r.diverged_at == 0 ? "updates are counted from 1" : "";
}

Finding results_have_no_failed_rank(const Record& r) {
  if (!r.failed_rank || !ran(r)) return "";
  return fmt::format("rank {} failed in a run that is {}", *r.failed_rank, choice_name(r.outcome));
}

// Nothing takes no time on a real machine. A simulated step may: a published profile may have layers without costs.
Finding steps_take_time(const Record& r) {
  if (!ran(r) && r.outcome != RecordOutcome::timed_out) return "";
  for (std::size_t k = 0; k < r.step_seconds.size(); ++k) {
    const double s = r.step_seconds[k];
    if (!std::isfinite(s) || s < 0 || (s == 0 && r.clock == Clock::wall))
      return fmt::format("step {} of a run that is {} took {} s", k, choice_name(r.outcome), s);
  }
  return "";
}

Finding warmup_is_a_part_of_the_steps(const Record& r) {
  if (r.outcome != RecordOutcome::ok || static_cast<std::size_t>(r.warmup_steps) <= r.step_seconds.size()) return "";
  return fmt::format("{} of {} steps are warm-up", r.warmup_steps, r.step_seconds.size());
}

// Of a step whose micro-batches have the samples of a list: the plan is for the largest.
Finding sizes_disagree(const Record& r, const std::string& list) {
  const std::optional<Json> json = Json::parse_if_json(list);
  std::vector<std::int64_t> sizes;
  if (json && json->is_array())
    for (const Json& size : *json) sizes.push_back(size.is_number_integer() ? size.get<std::int64_t>() : 0);
  const auto sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const bool agree = std::ssize(sizes) == r.microbatches && sum == r.samples_per_step && !sizes.empty() &&
                     std::ranges::max(sizes) == r.plan->micro_batch;
  return agree ? ""
               : fmt::format("{} samples in {} micro-batches of {}, at most {}", r.samples_per_step, r.microbatches,
                             list, r.plan->micro_batch);
}

Finding a_step_has_the_plans_micro_batches(const Record& r) {
  if (!r.plan) return "";
  const std::int64_t microbatches = std::max(r.microbatches, 1);
  if (const auto sizes = r.options.find("microbatch_sizes"); sizes != r.options.end())
    return sizes_disagree(r, sizes->second);
  if (r.samples_per_step % microbatches == 0 && r.samples_per_step / microbatches == r.plan->micro_batch) return "";
  return fmt::format("{} samples in {} micro-batches of {}", r.samples_per_step, r.microbatches, r.plan->micro_batch);
}

// A published profile's batch is that of each replica of a stage (case/prepare.cpp, divide_among_replicas).
Finding a_step_is_a_batch_of_every_replica(const Record& r) {
  std::int64_t replicas = 1;
  if (r.plan)
    for (const PlanDescription::Stage& stage : r.plan->stages)
      replicas = std::min(std::lcm(replicas, std::max<std::int64_t>(std::ssize(stage.devices), 1)), kMaxSamples);
  const bool whole = r.batch == 0 ? r.samples_per_step == 0 : r.samples_per_step % r.batch == 0;
  if (whole && (r.batch == 0 || r.samples_per_step / r.batch <= replicas)) return "";
  return fmt::format("{} samples in a step of batches of {}", r.samples_per_step, r.batch);
}

// The default planner gives every rank a stage; others may leave devices idle.
Finding the_plan_is_for_the_ranks(const Record& r) {
  if (!r.plan) return "";
  std::set<int> used;
  for (const PlanDescription::Stage& stage : r.plan->stages) {
    used.insert(stage.devices.begin(), stage.devices.end());
    if (stage.weight_gradient_device) used.insert(*stage.weight_gradient_device);
  }
  const auto count = static_cast<int>(used.size());
  const bool all = r.plan->objective_name == SearchReport{}.objective_name;
  if (count <= r.ranks && (count == r.ranks || !all)) return "";
  return fmt::format("the plan is for {} devices, the run had {} ranks", count, r.ranks);
}

// Every list with a value for each rank that the plan uses.
Finding lists_have_a_value_for_every_rank(const Record& r) {
  std::vector<std::pair<std::string, std::size_t>> lists = {{"ranks", 0}};
  const auto add = [&](const std::string& name, const auto& values) {
    if (!values.empty()) lists.emplace_back(name, values.size());
  };
  const auto add_if_any = [&](const std::string& name, const auto& values) {
    if (values) add(name, *values);
  };
  if (r.theory) {
    add("theory/in_flight", r.theory->in_flight);
    add("theory/weight_versions", r.theory->weight_versions);
    add("theory/staleness", r.theory->staleness);
  }
  add_if_any("observed/in_flight", r.observed.in_flight);
  add_if_any("observed/weight_versions", r.observed.weight_versions);
  add_if_any("observed/staleness", r.observed.staleness);
  if (r.observed.sent_bytes) {
    add("observed/sent_bytes/messages", r.observed.sent_bytes->messages);
    add("observed/sent_bytes/gathers", r.observed.sent_bytes->gathers);
    add("observed/sent_bytes/reductions", r.observed.sent_bytes->reductions);
  }
  // The repository's records keep the fullest rank only (reference.h).
  if (r.peak_bytes.size() > 1) add("peak_bytes", r.peak_bytes);
  if (r.predicted_peak_bytes.size() > 1) add("predicted_peak_bytes", r.predicted_peak_bytes);
  for (std::size_t k = 1; k < lists.size(); ++k) {
    const auto& [name, size] = lists[k];
    if (size > static_cast<std::size_t>(r.ranks))
      return fmt::format("{} has {} values for {} ranks", name, size, r.ranks);
    if (size != lists[1].second)
      return fmt::format("{} has {} values, {} has {}", lists[1].first, lists[1].second, name, size);
  }
  return "";
}

Finding kinds_add_up(const char* name, const std::vector<MemorySplit>& ranks) {
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    const MemorySplit& m = ranks[k];
    double sum = 0;  // of 64-bit numbers from a file, which may not fit into one
    for (const std::int64_t kind : {m.weights, m.versions, m.gradients, m.optimizer, m.activations, m.buffers})
      sum += static_cast<double>(kind);
    if (sum != static_cast<double>(m.total))
      return fmt::format("{}/{} is {} bytes in total, its kinds add up to {:.0f}", name, k, m.total, sum);
  }
  return "";
}

Finding measured_kinds_add_up(const Record& r) { return kinds_add_up("peak_bytes", r.peak_bytes); }
Finding predicted_kinds_add_up(const Record& r) { return kinds_add_up("predicted_peak_bytes", r.predicted_peak_bytes); }

Finding accuracy_is_a_share(const Record& r) {
  if (!r.workload_facts || r.workload_facts->metric != "accuracy") return "";
  const auto is_share = [](const std::optional<double>& value) { return !value || (*value >= 0 && *value <= 1); };
  if (!is_share(r.workload_facts->target)) return fmt::format("a target accuracy of {}", *r.workload_facts->target);
  if (!is_share(r.workload_facts->single_device_value))
    return fmt::format("an accuracy of {} on a single device", *r.workload_facts->single_device_value);
  for (std::size_t k = 0; k < r.curve.size(); ++k)
    if (!is_share(r.curve[k].metric)) return fmt::format("an accuracy of {} at point {}", *r.curve[k].metric, k);
  return "";
}

Finding a_curve_goes_on(const Record& r) {
  for (std::size_t k = 0; k < r.curve.size(); ++k) {
    const CurvePoint& point = r.curve[k];
    if (!std::isfinite(point.seconds) || point.seconds < 0)
      return fmt::format("point {} is at {} seconds", k, point.seconds);
    if (k > 0 && (point.step <= r.curve[k - 1].step || point.seconds < r.curve[k - 1].seconds))
      return fmt::format("point {} (step {}, {} s) is not after the one before it (step {}, {} s)", k, point.step,
                         point.seconds, r.curve[k - 1].step, r.curve[k - 1].seconds);
  }
  return "";
}

Finding a_timeline_is_of_the_ranks(const Record& r) {
  for (std::size_t k = 0; k < r.timeline.size(); ++k) {
    const TimelineOp& op = r.timeline[k];
    const int rank = std::max(op.rank, op.to.value_or(0));
    if (rank >= r.ranks) return fmt::format("op {} is of rank {}, the run had {} ranks", k, rank, r.ranks);
  }
  return "";
}

Finding ops_end_after_they_start(const Record& r) {
  for (std::size_t k = 0; k < r.timeline.size(); ++k)
    if (!(r.timeline[k].end >= r.timeline[k].start))
      return fmt::format("op {} lasts from {} to {}", k, r.timeline[k].start, r.timeline[k].end);
  return "";
}

Finding a_bubble_is_a_share(const Record& r) {
  constexpr double rounding = 1e-9;
  for (const auto& share : {r.observed.bubble_ratio, r.observed.span_bubble})
    if (share && !(*share >= -rounding && *share <= 1 + rounding))
      return fmt::format("ranks that are idle for {} of their time", *share);
  return "";
}

Finding a_run_is_of_epochs_or_steps(const Record& r) {
  if (!r.workload_facts || r.workload_facts->epochs == 0 || r.workload_facts->steps == 0) return "";
  return fmt::format("{} epochs and {} steps", r.workload_facts->epochs, r.workload_facts->steps);
}

Finding the_virtual_clock_has_no_transport(const Record& r) {
  if (r.clock != Clock::virtual_clock || r.transport == "none" || r.transport.empty()) return "";
  return "a simulated run over '" + visible(r.transport) + "'";
}

// Each names its fields, as JSON pointers, and what it finds.
struct Check {
  const char* fields;
  Finding (*find)(const Record&);
};
constexpr Check kChecks[] = {
    {"/outcome and /reason", only_ok_has_no_reason},
    {"/outcome and /diverged_at", only_diverged_runs_diverged_at_an_update},
    {"/outcome and /failed_rank", results_have_no_failed_rank},
    {"/outcome and /step_seconds", steps_take_time},
    {"/warmup_steps and /step_seconds", warmup_is_a_part_of_the_steps},
    {"/samples_per_step and /plan/micro_batch", a_step_has_the_plans_micro_batches},
    {"/samples_per_step and /batch", a_step_is_a_batch_of_every_replica},
    {"/ranks and /plan/stages", the_plan_is_for_the_ranks},
    {"/ranks and lists of ranks", lists_have_a_value_for_every_rank},
    {"/peak_bytes and its kinds", measured_kinds_add_up},
    {"/predicted_peak_bytes and its kinds", predicted_kinds_add_up},
    {"/workload_facts/metric and its values", accuracy_is_a_share},
    {"/curve/step and /curve/seconds", a_curve_goes_on},
    {"/ranks and /timeline", a_timeline_is_of_the_ranks},
    {"/timeline/start and /timeline/end", ops_end_after_they_start},
    {"/observed/bubble_ratio and /observed/span_bubble", a_bubble_is_a_share},
    {"/workload_facts/epochs and /workload_facts/steps", a_run_is_of_epochs_or_steps},
    {"/clock and /transport", the_virtual_clock_has_no_transport},
};

}  // namespace

void reject_contradictions(const Record& record, const std::string& where) {
  for (const Check& check : kChecks)
    if (const Finding found = check.find(record); !found.empty())
      throw InputError(where, std::string(check.fields) + " contradict each other: " + found,
                       "remove the line, or run the case again");
}

}  // namespace sluice
