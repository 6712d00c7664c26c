#include "harness/cli/torchtitan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "harness/case/settings.h"
#include "harness/pipeline/tensor_members.h"

namespace sluice {

namespace {

// torchtitan places stages by the name of a schedule, also where a table replaces the schedule's order: stage r + k p
// on rank r of p, or, of two stages a rank, r and 2 p - 1 - r.
std::string schedule_of_placement(const Schedule& schedule) {
  const int ranks = static_cast<int>(schedule.ranks.size());
  int stages = 0;
  std::vector<std::set<int>> held;
  for (const std::vector<Op>& ops : schedule.ranks) {
    std::set<int>& own = held.emplace_back();
    for (const Op& op : ops) own.insert(op.stage.value);
    stages += static_cast<int>(own.size());
  }
  const int per_rank = stages / ranks;
  const auto is = [&](auto stage_of) {
    for (int r = 0; r < ranks; ++r) {
      std::set<int> expected;
      for (int k = 0; k < per_rank; ++k) expected.insert(stage_of(r, k));
      if (held[static_cast<std::size_t>(r)] != expected) return false;
    }
    return stages == per_rank * ranks;
  };
  if (is([&](int r, int k) { return r + k * ranks; })) return per_rank == 1 ? "1F1B" : "Interleaved1F1B";
  if (per_rank == 2 && is([&](int r, int k) { return k == 0 ? r : 2 * ranks - 1 - r; })) return "ZBVZeroBubble";
  throw InputError("torchtitan", fmt::format("rank 0 has the stages {}", fmt::join(held.front(), ", ")),
                   "it places stages in a loop (r, r + p, ...) or, two a rank, as a V (r, 2 p - 1 - r); choose such a "
                   "system");
}

// Why torchtitan has no name for what a stage holds, or "".
std::string reason_without_modules(const EvaluatedPlan& plan) {
  return model_parts(shared_plan(plan.p.plan, group_size(plan.p)), planned_costs(plan.p)).left_out;
}

// torchtitan's mode of activation checkpointing: of all blocks of the model, or of none.
std::string checkpointing(const EvaluatedPlan& plan) {
  int stages = 0, recomputing = 0;
  for (const PlanStage& stage : plan.p.plan.stages) {
    for (std::size_t i = 0; i < stage.layers.size(); ++i)
      if (variant_of(stage, i, plan.p.costs))
        throw InputError("torchtitan", "the plan chooses layer by layer what to recompute",
                         "choose recomputation of all stages or of none");
    recomputing += stage.recompute || plan.program.rule.recomputes(static_cast<std::size_t>(stages));
    ++stages;
  }
  if (recomputing != 0 && (plan.program.rule.keep_last || plan.program.rule.keep_if_next))
    throw InputError("torchtitan", "the plan recomputes some micro-batches of an update and keeps others",
                     "torchtitan checkpoints all or none: choose a system's option that recomputes all or none");
  if (recomputing != 0 && recomputing != stages)
    throw InputError("torchtitan", fmt::format("{} of {} stages recompute their activations", recomputing, stages),
                     "torchtitan checkpoints all blocks or none: choose recomputation of all stages or of none");
  return recomputing == 0 ? "none" : "full";
}

}  // namespace

void print_modules_left_out(const EvaluatedPlan& plan) {
  const auto imported = [](const LayerCost& layer) { return !layer.part.empty(); };
  const std::string reason = reason_without_modules(plan);
  if (!reason.empty() && std::ranges::any_of(planned_costs(plan.p).layers, imported))
    fmt::print(stderr, "note: no module_fqns_per_model_part: {}\n", visible(reason));
}

Entry one_pipeline(Entry entry, const EvaluatedPlan& plan) {
  const int pipelines = plan.c.data_parallel;
  entry.values["ranks"] = plan.c.ranks / pipelines;
  entry.values["microbatches"] = plan.p.microbatches_per_update / pipelines;
  entry.values["batch"] = samples_per_update(plan.p) / pipelines;
  if (plan.p.sizes.differ()) {
    const auto own = sizes_of_pipeline(plan.p.sizes, pipelines).samples();
    entry.values["microbatch_sizes"] = std::vector<std::int64_t>(own.begin(), own.end());
  }
  entry.values.erase("data_parallel");
  return entry;
}

std::string torchtitan_settings(const EvaluatedPlan& one, int pipelines, const std::string& table_file) {
  if (one.p.sizes.differ())
    throw InputError("torchtitan", "its micro-batches have one size, and microbatch_sizes differ",
                     "leave microbatch_sizes out");
  const Schedule schedule = table_schedule(one);
  const std::string placement = schedule_of_placement(schedule);
  const PlanDescription plan = description(one);
  if (!plan.module_names)
    throw InputError("torchtitan", reason_without_modules(one),
                     "give costs of workloads/import_pytorch.py, with a --depth at which every layer is a whole part");
  const int group = one.p.tensor ? one.p.tensor->degree : 1;
  const std::int64_t batch = one.p.micro_batch * one.p.microbatches_per_update;
  const std::string mode = checkpointing(one);
  const bool sharded = one.c.sharding != StageSharding::system && one.c.sharding != StageSharding::none;
  return fmt::format(
      "[training]\n"
      "local_batch_size = {}  # {} micro-batches of {} samples, of each replica\n"
      "global_batch_size = {}\n\n"
      "[parallelism]\n"
      "pipeline_parallel_degree = {}\n"
      "data_parallel_replicate_degree = {}\n"
      "data_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\n"
      "pipeline_parallel_schedule = \"{}\"  # names the placement; the table below is the order\n"
      "pipeline_parallel_schedule_csv = {}\n"
      "pipeline_parallel_microbatch_size = {}\n"
      "module_fqns_per_model_part = {}\n\n"
      "[activation_checkpoint]\n"
      "mode = \"{}\"  # {}\n",
      batch, one.p.microbatches_per_update, one.p.micro_batch, batch * pipelines, schedule.ranks.size(),
      sharded ? 1 : pipelines, sharded ? pipelines : 1, group, placement, Json(table_file).dump(), one.p.micro_batch,
      Json(*plan.module_names).dump(), mode,
      mode == "full" ? "of every block: keeps the blocks' inputs, the plan those of stages" : "as in the plan");
}

OutputFile table_output(const std::string& file) {
  return {file, "a table of ops", [](const std::string& text) {
            return text.starts_with('0') &&
                   text.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_,.();\n") == text.npos;
          }};
}

TorchtitanFiles::TorchtitanFiles(const std::string& file)
    : file_(file),
      table_file_(std::filesystem::path(file).replace_extension(".csv").string()),
      settings_(file, "settings of torchtitan", [](const std::string& text) { return text.starts_with("[training]"); }),
      table_(table_output(table_file_)) {
  if (file_ == table_file_)
    throw InputError("--torchtitan", "'" + file + "' is also the name of the table", "name a .toml file");
}

void TorchtitanFiles::write(const Entry& entry, const EvaluatedPlan& plan, ProfileStore& profiles) const {
  const EvaluatedPlan one = evaluate_plan(resolve(one_pipeline(entry, plan)), profiles);
  const std::string table = plan_table(one), settings = torchtitan_settings(one, plan.c.data_parallel, table_file_);
  table_.write(table);
  settings_.write(settings);
  fmt::print(stderr, "torchtitan: {}, {}\n", visible(file_), visible(table_file_));
}

}  // namespace sluice
