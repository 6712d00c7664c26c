#include "harness/cli/trace_flags.h"

#include <tuple>

#include "harness/cli/case_flags.h"
#include "harness/cli/commands.h"

namespace sluice {

void add_trace_command(CLI::App& app, Chosen& chosen) {
  const auto [c, a] =
      add_command(app, chosen, "trace",
                  "The bubble of a traced run, what its stages cost, and what other orders would take", trace_command);
  add_value(
      c, "files", a->files, "",
      "Traces, .json or .json.gz: of torch.profiler (export_chrome_trace) or of Nsight Systems (nsys stats --report "
      "nvtx_gpu_proj_trace --format json) one file for each rank of one pipeline, in any order or, where they "
      "name no rank, from the first stage on; or one that sluice wrote with --trace")
      ->required();
  add_value(c, "--forward", a->forward, "REGEX",
            "Regular expression that the names of forwards' ranges match; its group is the micro-batch, its two "
            "groups are stage and micro-batch (default: the names of torch.distributed.pipelining)");
  for (const auto& [flag, pattern, what] :
       {std::tuple("--backward", &a->backward, "whole backwards"),
        std::tuple("--input-gradient", &a->input_gradient, "input gradients (I)"),
        std::tuple("--weight-gradient", &a->weight_gradient, "weight gradients (W)")})
    add_value(c, flag, *pattern, "REGEX", std::string("The same of ") + what)->needs("--forward");
  add_value(c, "-s,--system", a->system, "NAMES",
            "Orders to simulate with the costs of the trace: a,b,c (default: gpipe, 1f1b, interleaved_1f1b, "
            "zero_bubble and its variant v)");
  add_set(c, a->set);
  add_value(c, "-o,--out", a->out, "FILE",
            "Write the costs to this file, a layer for each stage: costs for schedule, a workload for plan and advise");
  add_json(c, a->json);
  add_examples(c,
               "  sluice trace rank0.json.gz rank1.json.gz rank2.json.gz rank3.json.gz\n"
               "  sluice trace rank*.json --out costs.json\n"
               "  sluice schedule -s zero_bubble -n 4 -m 8 --costs costs.json --text\n"
               "  sluice trace rank*.json --forward '^forward_step' --backward '^backward_step'\n"
               "  sluice schedule -s 1f1b -n 4 -m 8 --trace t.json && sluice trace t.json");
}

}  // namespace sluice
