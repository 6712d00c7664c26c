#include "harness/run/describe_case.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/base/source_folder.h"
#include "harness/case/calibrated.h"
#include "harness/case/costs.h"
#include "harness/case/make_theory.h"
#include "harness/case/model_work.h"
#include "harness/case/precision_rules.h"
#include "harness/case/predict_update.h"
#include "harness/case/profile_workload.h"
#include "harness/case/settings.h"
#include "harness/model/expert_spread.h"
#include "harness/pipeline/tensor_members.h"
#include "harness/program/staleness.h"
#include "harness/run/environment.h"
#include "harness/sim/communication.h"
#include "harness/train/memory_split.h"

namespace sluice {

// "analytic", "profile", or the calibrations.
static std::string cost_source(const RunCase& c, const Workload& workload) {
  if (is_profile_workload(workload) || is_cost_file(c.costs)) return kMeasuredCosts;
  if (!is_calibrated(c.costs)) return c.costs;
  return calibrated_cost_source(c.costs, workload.model,
                                load_cluster(c.cluster, source_folder() + "/workloads/clusters"), storage_of(c));
}

static WorkloadFacts workload_facts(const RunCase& c, const Workload& workload) {
  WorkloadFacts facts{.title = workload.title,
                      .metric = workload.metric,
                      .metric_direction = choice_named<MetricDirection>(workload.metric_direction).value(),
                      .dataset = workload.dataset,
                      .source = workload.source,
                      .parameters = parameter_count(workload.model),
                      .epochs = c.epochs,
                      .steps = c.steps,
                      .single_device_value = workload.single_device_value};
  // The target holds for the number of epochs it was measured with.
  if (c.epochs > 0) facts.target = workload.target;
  return facts;
}

Record record_of(const RunCase& c) {
  Record record;
  record.digest = digest_of(c);
  record.system = c.system;
  record.options = c.options;
  for (const auto& [name, value] : record_options(c)) record.options[name] = value;
  record.optimizer = c.optimizer;
  record.workload = c.workload;
  const Workload& workload = find_workload_or_profile(c.workload, c.costs, "workload");
  record.workload_facts = workload_facts(c, workload);
  record.cluster = c.cluster;
  record.clock = c.clock;
  record.transport = choice_name(c.transport);
  record.device = choice_name(c.device);
  record.ranks = c.ranks;
  record.batch = c.batch;
  record.microbatches = c.microbatches;
  record.seed = c.seed;
  record.purpose = c.purpose;
  record.samples_per_step = c.batch;
  record.cost_source = cost_source(c, workload) + counted_in(c);
  record.environment = describe_environment();
  return record;
}

// Which profile the costs are of, and its age when the case was run.
static Environment::Profile profile_of(const MachineCosts& machine) {
  return {.machine = machine.machine,
          .build = machine.build,
          .made = machine.made,
          .neighbours = machine.neighbours,
          .age_seconds = profile_age(machine)};
}

void describe_plan(const RunCase& c, const Prepared& p, Record& record) {
  record.planning_seconds = p.planning_seconds;
  // The devices that a planner leaves idle were given to it all the same.
  if (p.system->one_process) record.ranks = 1;
  if (c.clock != Clock::wall) record.device = p.cluster.devices.front().name;
  if (p.costs.machine) record.environment.profile = profile_of(*p.costs.machine);
  // More than the case's where a profile's batch is that of every replica.
  record.samples_per_step = samples_per_update(p);
  const int degree = p.tensor ? p.tensor->degree : 1;
  record.plan =
      describe_plan(shared_plan(p.plan, degree), p.tensor ? p.member_costs : p.costs, p.system->name, std::nullopt);
  record.microbatches = p.microbatches_per_update;
  record.work = model_work(c, p);
}

static SentByRanks sent_by_ranks(const std::vector<SentBytes>& ranks) {
  SentByRanks sent;
  for (const SentBytes& rank : ranks) {
    sent.messages.push_back(std::llround(rank.messages));
    sent.gathers.push_back(std::llround(rank.gathers));
    sent.reductions.push_back(std::llround(rank.reductions));
  }
  return sent;
}

// What the members of a group send for the sums inside their ops: rings, as of other reductions.
static void add_tensor_sums(const Prepared& p, const Program& program, std::vector<SentBytes>& sent) {
  const std::vector<TensorSums> sums =
      tensor_sums(program, *divided_model(p), p.plan, p.micro_batch, p.storage.activation.value);
  const int degree = divided_model(p)->degree;
  const double ring = 2.0 * (degree - 1) / degree / std::max(program.updates, 1);
  for (std::size_t r = 0; r < sums.size(); ++r) sent[r].reductions += ring * static_cast<double>(sums[r].bytes);
}

// What replicas send to one another in the all-to-alls inside their ops.
static void add_expert_exchanges(const Prepared& p, const Program& program, std::vector<SentBytes>& sent) {
  const std::vector<TensorSums> exchanges =
      expert_exchanges(program, *p.spread, p.plan, p.micro_batch, p.storage.activation.value);
  const double replicas = replicas_of_experts(*p.spread), others = (replicas - 1) / replicas;
  for (std::size_t r = 0; r < sent.size(); ++r)
    sent[r].messages += others * static_cast<double>(exchanges[r].bytes) / std::max(program.updates, 1);
}

void describe_program(const RunCase& c, const Prepared& p, const Program& program, int microbatches,
                      const std::vector<RankMemory>& memory, Record& record) {
  record.theory = make_theory(p, microbatches);
  Observed& observed = record.observed;
  observed = {};
  observed.in_flight.emplace();
  observed.weight_versions.emplace();
  for (const RankMemory& rank : memory) {
    record.predicted_peak_bytes.push_back(split_of(rank.peak));
    observed.in_flight->push_back(rank.peak_in_flight);
    observed.weight_versions->push_back(rank.peak_versions);
  }
  observed.staleness = staleness_of(program);
  if (c.weight_gradient == WeightGradients::automatic)
    observed.weight_gradient =
        choice_name(p.batched_weight_gradients ? WeightGradients::batched : WeightGradients::per_microbatch);
  std::vector<SentBytes> sent = sent_bytes(program, costs_of(p));
  if (divided_model(p)) add_tensor_sums(p, program, sent);
  if (p.spread) add_expert_exchanges(p, program, sent);
  observed.sent_bytes = sent_by_ranks(sent);
  if (!p.interference.empty()) observed.interference = recorded(p.interference);
  if (c.clock != Clock::wall) record.peak_bytes = std::exchange(record.predicted_peak_bytes, {});
}

}  // namespace sluice
