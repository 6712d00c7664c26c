// Every setting and every option of every system, on both clocks: one that makes another case makes another experiment.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/case/make_program.h"
#include "harness/case/predict_memory.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/pipeline/system.h"
#include "harness/program/numerics.h"
#include "harness/run/describe_case.h"
#include "harness/run/run_case.h"
#include "harness/train/segments.h"

namespace sluice {
namespace {

constexpr std::int64_t kTrainSamples = 1000;  // of the data set, which is not read

// The record without what names the case, and without the seconds that this machine took.
Json facts_of(const Record& record) {
  Json json = to_json(record);
  for (const char* key : {"digest", "options", "planning_seconds", "environment", "seed", "cluster"}) json.erase(key);
  for (const char* key : {"epochs", "steps", "target"}) json["workload_facts"].erase(key);
  if (json.contains("plan") && json["plan"].is_object()) json["plan"].erase("search_seconds");
  return json;
}

// All that a run of the case depends on: its record where it is simulated without a training, otherwise what is planned
// and predicted, its program's numerics, and the executor's other arguments. A case that cannot run: why.
Json experiment(const RunCase& c) {
  Json all = Json::object();
  try {
    Prepared p = prepare(c, test_profiles());
    if (c.leftover == Leftover::partial) p.leftover = Leftover::partial;
    const Segments segments(c, p, p.workload->dataset == "synthetic" ? 0 : kTrainSamples);
    const int microbatches = segments.microbatches_of_program(0, segments.first_updates());
    const Program program = make_program(p, microbatches);
    if (c.clock == Clock::virtual_clock && !c.train) {
      all["record"] = facts_of(run_case(c, test_profiles(), {}));
    } else {
      Record record = record_of(c);
      describe_plan(c, p, record);
      describe_program(c, p, program, microbatches, memory(program, stage_memory(p, c.optimizer, program.rule)),
                       record);
      all["record"] = facts_of(record);
      if (c.clock == Clock::virtual_clock && c.task == Task::train)
        all["update_seconds"] = simulated_update(p, program_of_updates(p)).value;
    }
    if (c.task == Task::train)
      all["numerics"] = std::to_string(
          numerics(program, running_model(p), p.plan,
                   {.batched_weight_gradients = p.batched_weight_gradients, .snapshots = segments.snapshots()}));
    all["buckets"] = p.gradient_bucket.value;
    all["barrier"] = program.policy.step_barrier;
    all["queue"] = program.policy.queue;
    if (c.train) {
      all["seed"] = c.seed;
      all["snapshots"] = segments.snapshots();
      for (const UndrainedSegment& segment : segments.undrained())
        all["segments"].push_back({{"ends", segment.ends}, {"samples", segments.samples(segment)}});
      if (c.task == Task::train) all["optimizer"] = to_json(c)["optimizer"];
      all["fails"] = {c.fail_rank, c.fail_update};
    }
    if (c.clock == Clock::wall)
      all["machine"] = {c.interference, c.slowdown, c.throttle, choice_name(c.weight_gradient)};
  } catch (const InputError& e) {
    all["rejected"] = std::string(e.what());
  }
  return all;
}

struct Change {
  std::string key;  // "queue", "optimizer/momentum", "options/chunks"
  Json values;      // over those of the entry
};

// The settings' other values; what this machine may not have (MPI, GPUs, cores to pin) is not among them.
std::vector<Change> changed_settings() {
  static const std::set<std::string> elsewhere = {"clock", "task", "transport", "device", "pin", "interference_by"};
  std::vector<Change> all;
  for (const Setting& setting : settings())
    for (const std::string& name : setting.value.choices)
      if (!elsewhere.contains(setting.key)) all.push_back({setting.key, {{setting.key, name}}});
  const std::vector<Change> more = {
      {"cluster", {{"cluster", "flat:4,bandwidth=1GB/s"}}},
      {"cluster/host", {{"cluster", "flat:4,host=1MB/s"}}},
      {"cluster/pair_share", {{"cluster", "flat:4,pair_share=0.75"}}},
      {"costs", {{"costs", "calibrated"}}},
      {"ranks", {{"ranks", 2}}},
      {"data_parallel", {{"data_parallel", 2}}},
      {"gradient_buckets", {{"gradient_buckets", "end"}}},
      {"stages", {{"stages", "2,4,6"}}},
      {"tensor", {{"tensor", 2}}},
      {"batch", {{"batch", 32}}},
      {"microbatches", {{"microbatches", 4}}},
      {"microbatch_sizes", {{"microbatch_sizes", {12, 4, 12, 4, 12, 4, 12, 4}}}},
      {"queue", {{"queue", 1}}},
      {"seed", {{"seed", 5}}},
      {"steps", {{"steps", 7}}},
      {"epochs", {{"epochs", 2}, {"steps", 0}}},
      {"evaluations_per_epoch", {{"evaluations_per_epoch", 2}}},
      {"interference", {{"interference", "compute:1@0-10x2"}}},
      {"slowdown", {{"slowdown", "1,1,1,1"}}},
      {"slowdown", {{"slowdown", "1,2,1,1"}}},
      {"throttle", {{"throttle", "rate=100MB/s"}}},
      {"optimizer/kind", {{"optimizer", {{"kind", "adam"}}}}},
      {"optimizer/learning_rate", {{"optimizer", {{"learning_rate", 0.5}}}}},
      {"optimizer/momentum", {{"optimizer", {{"momentum", 0.25}}}}},
      {"optimizer/weight_decay", {{"optimizer", {{"weight_decay", 0.5}}}}},
      {"clip_norm", {{"clip_norm", 0.5}}},
      {"optimizer/schedule", {{"optimizer", {{"schedule", {{"kind", "step"}, {"every_epochs", 2}}}}}}},
      {"inject_failure", {{"inject_failure", {{"rank", 1}, {"update", 0}}}}},
      {"inject_failure/rank", {{"inject_failure", {{"rank", 9}, {"update", 0}}}}}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<Change> changed_options(const System& system) {
  std::vector<Change> all;
  for (const OptionSpec& option : system.options) {
    std::vector<std::string> values = option.choices;
    if (values.empty() && !option.check_file && !option.check_text) values = {"1", "2", "3", "4", "16"};
    for (const std::string& value : values)
      all.push_back({"options/" + option.name, {{"options", {{option.name, value}}}}});
  }
  return all;
}

// What is part of a case and has no effect on these small problems.
bool may_be_idle(const std::string& system, const std::string& key, const std::string& scenario) {
  // Its plan sends nothing over the links here.
  if (key == "cluster") return true;
  // Limits of a search, which is over before.
  if (key == "options/search_seconds" || key == "options/table_limit") return true;
  // Records are told apart by them since the first ones (setting_rules.h, untrained_optimizer_json).
  if (scenario == "train, not trained" && (key == "optimizer/learning_rate" || key == "optimizer/weight_decay"))
    return true;
  // The order of forwards alone, which an experiment holds where it is simulated.
  if (scenario == "inference, wall clock" && system == "zeropp" && key == "options/unit") return true;
  // Their effect needs a model with branches, devices that differ or change, memory that is short, more ranks, or
  // micro-batches that the ranks do not divide.
  static const std::map<std::string, std::set<std::string>> of_other_problems = {
      {"asteroid", {"options/in_flight"}},
      {"controllable_memory", {"options/variant"}},
      {"dapple", {"options/warm_up"}},
      {"dynapipe", {"options/injection"}},
      {"dynpipe", {"options/profile", "options/variant", "options/window"}},
      {"edgepipe", {"options/buffers_in", "options/buffers_out", "options/units"}},
      {"graphpipe", {"cuts", "options/degrees", "options/partition", "options/rank"}},
      {"hanayo", {"options/cap"}},
      {"interleaved_1f1b", {"options/group", "options/rule"}},
      {"layerpipe", {"options/gradient_delay"}},
      {"piper", {"options/knapsack", "options/rank", "options/tensor_parallel"}},
      {"spp", {"options/all_devices", "options/channel", "options/merge_last", "options/order", "options/orient"}},
      // They reject an optimizer when the run begins.
      {"nesterov_async", {"options/strict"}},
      {"spectrain", {"options/strict", "optimizer/momentum"}},
      // A direction takes the bytes that a momentum buffer does not take.
      {"xpipe", {"optimizer/momentum"}}};
  const auto found = of_other_problems.find(system);
  return found != of_other_problems.end() && found->second.contains(key);
}

std::optional<RunCase> read(const Json& values) {
  try {
    return resolve({values, in_file("s.json", "")});
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// The entries of a scenario: "train, not trained", "inference, wall clock", ...
std::map<std::string, std::vector<Json>> scenarios(const System& system) {
  std::map<std::string, std::vector<Json>> all;
  const int microbatches = system.name == "stp" ? 16 : 8;  // at least 3 p - 1
  const Json common = {{"system", system.name}, {"ranks", 4}, {"microbatches", microbatches},
                       {"batch", 64},           {"steps", 3}, {"costs", "analytic"}};
  for (const char* task : {"train", "inference"}) {
    const auto add = [&](const std::string& scenario, Json more) {
      more.update(common);
      more["task"] = task;
      if (more["clock"] == "virtual" && !more.contains("cluster")) more["cluster"] = "flat:4";
      if (more.contains("epochs")) more.erase("steps");
      all[std::string(task) + ", " + scenario].push_back(more);
    };
    add("not trained", {{"workload", "tiny"}, {"clock", "virtual"}, {"train", false}});
    add("not trained", {{"workload", "gpt_tiny"}, {"clock", "virtual"}, {"train", false}});
    add("virtual clock", {{"workload", "tiny"}, {"clock", "virtual"}});
    add("wall clock", {{"workload", "tiny"}, {"clock", "wall"}});
    add("wall clock", {{"workload", "gpt_tiny"}, {"clock", "wall"}});
    if (task == std::string("inference")) continue;
    add("virtual clock", {{"workload", "gpt_tiny"}, {"clock", "virtual"}});
    add("virtual clock", {{"workload", "fmnist_mlp_deep"}, {"clock", "virtual"}, {"epochs", 3}});
    add("wall clock", {{"workload", "fmnist_mlp_deep"}, {"clock", "wall"}, {"epochs", 3}});
  }
  return all;
}

class SettingEffect : public ::testing::TestWithParam<const System*> {};

TEST_P(SettingEffect, WhatMakesAnotherCaseMakesAnotherExperiment) {
  const System& system = *GetParam();
  std::vector<Change> changes = changed_settings();
  for (Change& change : changed_options(system)) changes.push_back(std::move(change));
  int cases = 0;
  for (const auto& [scenario, entries] : scenarios(system)) {
    std::map<std::string, bool> has_effect;  // by key, of those that make another case
    for (const Json& entry : entries) {
      const auto base = read(entry);
      if (!base) continue;
      const Json as_before = experiment(*base);
      ASSERT_EQ(experiment(*base), as_before) << scenario;
      if (as_before.contains("rejected")) continue;
      for (const Change& change : changes) {
        if (const auto known = has_effect.find(change.key); known != has_effect.end() && known->second) continue;
        Json values = entry;
        values.update(change.values);
        const auto c = read(values);
        if (!c || digest_of(*c) == digest_of(*base)) continue;
        ++cases;
        has_effect[change.key] |= experiment(*c) != as_before;
      }
    }
    for (const auto& [key, has] : has_effect)
      EXPECT_TRUE(has || may_be_idle(system.name, key, scenario)) << scenario << ": " << key;
  }
  EXPECT_GT(cases, 50);
}

INSTANTIATE_TEST_SUITE_P(Systems, SettingEffect, ::testing::ValuesIn(all_systems().begin(), all_systems().end()),
                         [](const auto& test) { return test.param->name; });

}  // namespace
}  // namespace sluice
