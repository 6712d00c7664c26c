// FlexFlow's stage files (its early runtime of GraphPipe reads them), whole numbers between blanks:
//   OPERATORS  stage of operator 0  stage of operator 1 ...
//   STAGES     then for every stage: micro-batch, samples its buffer holds, k of kFkB, devices
// The second line may be missing. Such a file is a plan and no profile: it says nothing of costs.
#pragma once

#include <string>
#include <vector>

#include "harness/pipeline/plan.h"

namespace sluice {

struct StageFile {
  struct Stage {
    std::int64_t micro_batch = 0;  // samples
    std::int64_t buffer = 0;       // samples in flight at most
    int forwards_in_a_row = 1;     // k of kFkB
    int devices = 1;
  };
  std::vector<int> stage_of;  // per operator
  std::vector<Stage> stages;  // empty: the file gives only the operators' stages
};

bool is_stage_file(const std::string& text);  // whole numbers and nothing else

StageFile read_stage_file(const std::string& text, const std::string& file);

// The plan that the file stands for: stages take devices 0, 1, ... in their order, as FlexFlow does. Throws InputError
// if the numbers of operators and of layers of the cost graph differ, or if the stages' micro-batches do (a Plan has
// one).
Plan plan_of(const StageFile& stages, const CostGraph& costs, const std::string& file);

}  // namespace sluice
