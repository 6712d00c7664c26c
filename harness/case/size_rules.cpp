#include "harness/case/size_rules.h"

#include "harness/base/error.h"

namespace sluice {

[[noreturn]] static void reject(const std::string& reason, const std::string& remedy = "leave microbatch_sizes out") {
  throw InputError("microbatch_sizes", reason, remedy);
}

void require_sizes_possible(const System& system) {
  if (system.inference_only) reject(system.name + " infers, and inference takes micro-batches of one size");
  if (!system.synchronous)
    reject(system.name + " is asynchronous: its updates would be the means of different numbers of samples");
  if (!system.one_size_only.empty()) reject(system.name + ": " + system.one_size_only);
}

void require_sizes_possible(const RunCase& c, const System& system) {
  if (c.task == Task::inference) reject("inference takes micro-batches of one size");
  require_sizes_possible(system);
  if (c.tensor > 1) reject("tensor-parallel groups take micro-batches of one size", "leave tensor out");
  if (c.weight_gradient != WeightGradients::per_microbatch)
    reject("weight gradients of several micro-batches as one product take micro-batches of one size",
           "use weight_gradient per_microbatch");
  const std::vector<std::int64_t>& sizes = c.microbatch_sizes;
  const auto own = std::ssize(sizes) / c.data_parallel;  // of a pipeline
  for (std::ptrdiff_t i = own; i < std::ssize(sizes); ++i)
    if (sizes[i] != sizes[i % own])
      reject("micro-batch " + std::to_string(i) + " has " + std::to_string(sizes[i]) + " samples, number " +
                 std::to_string(i % own) + ", which is as far in the first of the " + std::to_string(c.data_parallel) +
                 " pipelines, has " + std::to_string(sizes[i % own]),
             "give every pipeline the same sizes in the same order");
}

void require_sizes_possible(const Plan& pipeline, const System& system) {
  if (pipeline.sequence.count > 1)
    reject(system.name + " cuts sequences into chunks, which take micro-batches of one size",
           "set sequence_chunks=1, or leave microbatch_sizes out");
  for (const PlanStage& stage : pipeline.stages) {
    if (stage.microbatches_per_op > 1) reject(system.name + " plans a stage that takes several micro-batches at once");
    if (stage.tensor > 1) reject(system.name + " plans a tensor-parallel stage");
    if (!stage.variants.empty()) reject("the published profile has the variants of its layers at one size only");
  }
}

}  // namespace sluice
