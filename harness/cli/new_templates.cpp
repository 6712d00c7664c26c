#include "harness/cli/new_templates.h"

namespace sluice {

namespace {

// GPipe's order, one stage a device.
constexpr const char* kFlush =
    R"(// TITLE (authors, venue, year, arXiv), section N: what is implemented, and the schedule as the paper draws it.
// p = 2, m = 2:
//
//   rank 0  F0 F1       B1 B0
//   rank 1     F0 F1 B1 B0
#include "harness/pipeline/orders.h"

namespace sluice {{

static Schedule {0}_schedule(const ScheduleProblem& problem, const Options&) {{
  Schedule schedule = empty_schedule(problem);
  const int m = problem.microbatches;
  for (int s = 0; s < problem.stages(); ++s) {{
    auto& ops = schedule.ops(problem.rank_of(s));
    for (int i = 0; i < m; ++i) ops.push_back(forward_op(s, i));
    for (int i = m - 1; i >= 0; --i) ops.push_back(backward_op(s, i));
  }}
  return schedule;
}}

static Theory {0}_theory(const ScheduleProblem& problem, const Options&) {{
  Theory theory = flush_theory(problem.ranks);
  theory.bubble_ratio = fill_drain_bubble(problem.ranks, problem.microbatches);
  theory.in_flight.assign(problem.ranks, problem.microbatches);
  return theory;
}}

extern const System {0} = {{
    .name = "{0}",
    .title = "{0}",
    .citation = "authors, title, venue, year",
    .written_from = WrittenFrom::memory,  // or paper, code, ...: harness/pipeline/provenance.h
    .schedule = {0}_schedule,
    .theory = {0}_theory,
}};

}}  // namespace sluice
)";

// 1F1B, the weight gradients behind everything else of their rank.
constexpr const char* kSplit =
    R"(// TITLE (authors, venue, year, arXiv), section N: what is implemented, and the schedule as the paper draws it.
// The backward is split: I, the input gradient, goes up the pipe; W, the weight gradient, waits. p = 2, m = 2:
//
//   rank 0  F0 F1    I0    I1 W0 W1
//   rank 1     F0 I0 F1 I1 W0 W1
#include <algorithm>

#include "harness/base/index.h"
#include "harness/pipeline/orders.h"

namespace sluice {{

static Schedule {0}_schedule(const ScheduleProblem& problem, const Options&) {{
  Schedule schedule = orders::one_f_one_b(problem, OpKind::input_gradient);
  for (int s = 0; s < problem.stages(); ++s)
    for (int i = 0; i < problem.microbatches; ++i)
      schedule.ops(problem.rank_of(s)).push_back(weight_gradient_op(s, i));
  return schedule;
}}

// One version, no staleness; in flight, as of 1F1B: what its I has not been run of. The paper's bubble ratio at
// F = I = W goes here, too: theory.bubble_ratio = ...
static Theory {0}_theory(const ScheduleProblem& problem, const Options&) {{
  const int p = problem.ranks, m = problem.microbatches;
  Theory theory = flush_theory(p);
  theory.in_flight = list_of(p, [&](int r) {{ return std::min(m, p - r); }});
  return theory;
}}

extern const System {0} = {{
    .name = "{0}",
    .title = "{0}",
    .citation = "authors, title, venue, year",
    .written_from = WrittenFrom::memory,  // or paper, code, ...: harness/pipeline/provenance.h
    .schedule = {0}_schedule,
    .theory = {0}_theory,
}};

}}  // namespace sluice
)";

// Breadth-first, `chunks` stages a device.
constexpr const char* kChunked =
    R"(// TITLE (authors, venue, year, arXiv), section N: what is implemented, and the schedule as the paper draws it.
// Several stages on every rank: stage c p + r is on rank r. p = 2, m = 2, two stages (small letters: the second):
//
//   rank 0  F0 F1 f0 f1       b1 b0 B1 B0
//   rank 1     F0 F1 f0 f1 b1 b0 B1 B0
#include "harness/pipeline/orders.h"
#include "harness/plan/chunks_option.h"

namespace sluice {{

static Schedule {0}_schedule(const ScheduleProblem& problem, const Options&) {{
  Schedule schedule = empty_schedule(problem);
  const int p = problem.ranks, m = problem.microbatches;
  for (int r = 0; r < p; ++r) {{
    auto& ops = schedule.ranks[r];
    for (int c = 0; c < problem.chunks(); ++c)
      for (int i = 0; i < m; ++i) ops.push_back(forward_op(c * p + r, i));
    for (int c = problem.chunks() - 1; c >= 0; --c)
      for (int i = m - 1; i >= 0; --i) ops.push_back(backward_op(c * p + r, i));
  }}
  return schedule;
}}

static Theory {0}_theory(const ScheduleProblem& problem, const Options&) {{
  const int p = problem.ranks, forwards = problem.microbatches * problem.chunks();
  Theory theory = flush_theory(p);
  if (problem.microbatches >= p) theory.bubble_ratio = fill_drain_bubble(p, forwards);
  theory.in_flight.assign(p, forwards);  // of all stages of a rank
  return theory;
}}

extern const System {0} = {{
    .name = "{0}",
    .title = "{0}",
    .citation = "authors, title, venue, year",
    .written_from = WrittenFrom::memory,  // or paper, code, ...: harness/pipeline/provenance.h
    .options = {{chunks_option()}},
    .chunks = given_chunks,
    .schedule = {0}_schedule,
    .theory = {0}_theory,
}};

}}  // namespace sluice
)";

// PipeDream: 1F1B without a flush, weights stashed.
constexpr const char* kAsynchronous =
    R"(// TITLE (authors, venue, year, arXiv), section N: what is implemented, and the schedule as the paper draws it.
// No flush: a stage steps after every backward, which reads the weights that its forward read. p = 2, 3 batches:
//
//   rank 0  F0 F1    B0 F2 B1    B2
//   rank 1     F0 B0 F1 B1 F2 B2
#include <algorithm>

#include "harness/base/index.h"
#include "harness/plan/one_f_one_b_without_flush.h"

namespace sluice {{

static WeightRule {0}_weights(const ScheduleProblem&, const Options&) {{
  return {{.update = WeightRule::Update::every_backward, .backward = WeightRule::Backward::same_as_forward}};
}}

static Theory {0}_theory(const ScheduleProblem& problem, const Options&) {{
  Theory theory = theory_of_one_f_one_b_without_flush(problem, 1);
  const int p = problem.ranks, n = problem.microbatches;
  theory.weight_versions = list_of(p, [&](int r) {{
    const int fill = std::min(n, p - r);  // the forwards that fill the pipe all read version 0
    return std::min(fill, n - fill + 2);
  }});
  return theory;
}}

extern const System {0} = {{
    .name = "{0}",
    .title = "{0}",
    .citation = "authors, title, venue, year",
    .written_from = WrittenFrom::memory,  // or paper, code, ...: harness/pipeline/provenance.h
    .synchronous = false,
    .schedule = one_f_one_b_without_flush,
    .weights = {0}_weights,
    .theory = {0}_theory,
}};

}}  // namespace sluice
)";

}  // namespace

const std::vector<BaselineTemplate>& baseline_templates() {
  static const std::vector<BaselineTemplate> all = {{"flush", "all forwards, then all backwards, one update", kFlush},
                                                    {"split", "input gradients apart from weight gradients", kSplit},
                                                    {"chunked", "several stages on every rank", kChunked},
                                                    {"asynchronous", "no flush: weight versions", kAsynchronous}};
  return all;
}

const char* const kWorkloadTemplate =
    R"(// SOURCE: the paper or definition of this model, and what it is trained on.
#include "workloads/models/models.h"
#include "workloads/models/registry.h"

namespace sluice {{

// Layers one after another; add(name, kind, {{layers}}) reads others than the last.
static ModelGraph {0}_model() {{
  ChainBuilder b("{0}", {{.shape = {{64}}}});
  for (int i = 0; i < 4; ++i) {{
    b.add("linear" + std::to_string(i), Linear{{64, 64}});
    b.add("relu" + std::to_string(i), Activation{{}});
    b.next_block();
  }}
  b.add("loss", MseLoss{{}});
  return b.finish();
}}

Workload {0}_workload() {{
  Workload w{{.name = "{0}", .title = "{0}", .task = "regression on one random batch", .model = {0}_model()}};
  w.batch = 64;       // samples per update
  w.microbatches = 8;
  w.optimizer = {{.name = "sgd", .lr = 0.01}};
  w.source = "paper or definition";
  return w;
}}

}}  // namespace sluice
)";

const char* const kClusterTemplate = R"({{
  "name": "{0}",
  "source": "where these figures are from: a datasheet, a paper, a measurement",
  "devices": [
    {{"name": "device", "count": 4, "flops": 15.7e12, "flops_16": 125e12, "memory_bandwidth": "900GB/s",
      "memory": "16GB", "launch": "5us"}}
  ],
  "all_to_all": {{"bandwidth": "25GB/s", "latency": "5us"}}
}}
)";

}  // namespace sluice
