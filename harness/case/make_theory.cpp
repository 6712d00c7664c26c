#include "harness/case/make_theory.h"

#include <vector>

#include "harness/case/make_program.h"
#include "harness/pipeline/tensor_members.h"

namespace sluice {

Theory make_theory(const Prepared& p, int microbatches) {
  if (p.inference) return {};  // what papers promise is of training
  Theory theory = p.system->theory(schedule_problem(p, microbatches), p.options);
  for (std::vector<int>* figures : {&theory.in_flight, &theory.weight_versions, &theory.staleness})
    *figures = members_of(replicate(*figures, p.replicas), group_size(p));
  return theory;
}

}  // namespace sluice
