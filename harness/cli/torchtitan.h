// The settings with which torchtitan runs a plan: torchtitan/distributed/pipeline_parallel.py.
#pragma once

#include <string>

#include "harness/base/output_file.h"
#include "harness/case/entry.h"
#include "harness/cli/evaluated_plan.h"

namespace sluice {

// On stderr: why the plan of a PyTorch model has no module_fqns_per_model_part.
void print_modules_left_out(const EvaluatedPlan& plan);

// A file of PyTorch's table, where nothing else may be overwritten.
OutputFile table_output(const std::string& file);

// Of a plan's case: that of one of its data-parallel pipelines.
Entry one_pipeline(Entry entry, const EvaluatedPlan& plan);

// TOML: sections [training], [parallelism] and [activation_checkpoint] with the degrees, the batch of a replica, the
// micro-batch, the table's file, the schedule whose placement of stages the table has, the modules of every stage, and
// whether they recompute. one: of one pipeline. Throws InputError where torchtitan has no such placement, no names for
// the stages' modules, or would recompute other stages.
std::string torchtitan_settings(const EvaluatedPlan& one, int pipelines, const std::string& table_file);

// The files of --torchtitan FILE: the settings, and next to them the table, FILE with .csv for its extension.
class TorchtitanFiles {
 public:
  // Call before the work begins. Throws InputError as OutputFile.
  explicit TorchtitanFiles(const std::string& file);
  // Says where they are. Throws InputError as torchtitan_settings() and plan_table(), before anything is written.
  void write(const Entry& entry, const EvaluatedPlan& plan, ProfileStore& profiles) const;

 private:
  std::string file_, table_file_;
  OutputFile settings_, table_;
};

}  // namespace sluice
