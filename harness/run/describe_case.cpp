#include "harness/run/describe_case.h"

#include <cmath>

#include "harness/case/costs.h"
#include "harness/case/optimizer_settings.h"
#include "harness/case/settings.h"
#include "harness/run/environment.h"
#include "harness/sim/communication.h"
#include "harness/train/memory_split.h"
#include "results/store.h"

namespace sluice {

static nlohmann::json workload_facts(const RunCase& c, const Workload& workload) {
  nlohmann::json facts = {
      {"title", workload.title},     {"metric", workload.metric}, {"metric_direction", workload.metric_direction},
      {"dataset", workload.dataset}, {"source", workload.source}, {"parameters", parameter_count(workload.model)},
      {"epochs", c.epochs},          {"steps", c.steps}};
  // The target holds for the number of epochs it was measured with.
  if (workload.target && c.epochs > 0) facts["target"] = *workload.target;
  if (workload.single_device_value) facts["single_device_value"] = *workload.single_device_value;
  return facts;
}

Record record_of(const RunCase& c) {
  Record record;
  record.digest = digest(to_json(c));
  record.system = c.system;
  record.options = c.options;
  record.options.update(record_options(c));
  record.options["optimizer"] = to_json(c.optimizer);
  record.workload = c.workload;
  record.workload_facts = workload_facts(c, find_workload(c.workload));
  record.cluster = c.cluster;
  record.clock = choice_name(c.clock);
  record.transport = choice_name(c.transport);
  record.device = choice_name(c.device);
  record.ranks = c.ranks;
  record.batch = c.batch;
  record.microbatches = c.microbatches;
  record.seed = c.seed;
  record.purpose = choice_name(c.purpose);
  record.samples_per_step = c.batch;
  record.cost_source = is_cost_file(c.costs) ? kMeasuredCosts : c.costs;
  record.environment = describe_environment();
  return record;
}

void describe_plan(const RunCase& c, const Prepared& p, Record& record) {
  record.planning_seconds = p.planning_seconds;
  // The devices that a planner leaves idle were given to it all the same.
  if (p.system->one_process) record.ranks = 1;
  if (c.clock != Clock::wall) record.device = p.cluster.devices.front().name;
  record.plan = plan_json(p.plan, p.costs, p.system->name, std::nullopt);
  record.microbatches = p.microbatches_per_update;
}

static nlohmann::json theory_json(const Theory& t) {
  nlohmann::json json = {
      {"in_flight", t.in_flight}, {"weight_versions", t.weight_versions}, {"staleness", t.staleness}};
  json["bubble"] = t.bubble_ratio ? nlohmann::json(*t.bubble_ratio) : nlohmann::json(nullptr);
  return json;
}

// Per kind, bytes of every rank.
static nlohmann::json sent_json(const std::vector<SentBytes>& ranks) {
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

void describe_program(const RunCase& c, const Prepared& p, const Program& program, int microbatches,
                      const std::vector<RankMemory>& memory, Record& record) {
  record.theory = theory_json(make_theory(p, microbatches));
  nlohmann::json in_flight = nlohmann::json::array(), versions = nlohmann::json::array();
  for (const RankMemory& rank : memory) {
    record.predicted_peak_bytes.push_back(split_of(rank.peak));
    in_flight.push_back(rank.peak_in_flight);
    versions.push_back(rank.peak_versions);
  }
  record.observed = {{"in_flight", in_flight},
                     {"weight_versions", versions},
                     {"sent_bytes", sent_json(sent_bytes(program, costs_of(p.plan, p.costs, p.cluster)))}};
  if (c.clock != Clock::wall) record.peak_bytes = record.predicted_peak_bytes;
}

}  // namespace sluice
