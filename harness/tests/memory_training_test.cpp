// The memory that a plan is predicted to need, against the bytes counted while it really runs.
#include <gtest/gtest.h>

#include "harness/tests/test_support.h"

namespace sluice {
namespace {

struct MemoryCase {
  const char* system;
  std::map<std::string, std::string> options;
  int ranks;
  int microbatches = 6;
  double tolerance = 0.01;  // of the activations' bytes
  int replicas = 1;
  const char* sharding = "system";
  bool batched = false;  // weight gradients of all micro-batches of an update as one product
};

void PrintTo(const MemoryCase& c, std::ostream* out) { *out << c.system; }

// Micro-batches between F and the end of I or B, as the rank really ran them.
int peak_in_flight(const std::vector<TraceEvent>& events) {
  int now = 0, peak = 0;
  for (const TraceEvent& e : events) {
    const Opcode opcode = e.instruction.opcode;
    peak = std::max(peak, now += opcode == Opcode::forward);
    now -= opcode == Opcode::backward || opcode == Opcode::input_gradient;
  }
  return peak;
}

class PeakMemoryOfARank : public testing::TestWithParam<MemoryCase> {};

TEST_P(PeakMemoryOfARank, IsWhatTheProgramPredicts) {
  constexpr std::int64_t kBatch = 24;
  constexpr int kUpdates = 8;
  const MemoryCase& c = GetParam();
  const OptimizerSpec sgd{.learning_rate = 0.05, .momentum = 0.9};
  const OptimizerSpec adam{.kind = OptimizerSpec::Kind::adam, .learning_rate = 1e-3};
  for (const ModelGraph& model :
       {test_cnn(), test_mlp(), test_gnmt(), test_translator(), test_fine_tuned(), test_mixtral()})
    for (const OptimizerSpec& optimizer : {sgd, adam}) {
      const bool synchronous = find_system(c.system, "test").synchronous;
      const bool several = synchronous || find_system(c.system, "test").accumulates;
      TestSetup setup(c.system, c.options, model, c.ranks, kBatch, several ? c.microbatches : 1,
                      {c.replicas, PipelineReplicas::Layout::groups}, c.sharding);
      setup.prepared.batched_weight_gradients = c.batched;
      const Program program = make_program(setup.prepared, setup.microbatches * (synchronous ? 1 : kUpdates));
      const std::vector<RankMemory> predicted = memory(program, stage_memory(setup.prepared, optimizer, program.rule));
      SessionSpec spec = setup.spec(optimizer);
      spec.sharding = program.sharding;
      spec.batched_weight_gradients = c.batched;
      spec.feed = random_feed(model, kBatch * kUpdates);
      const auto session = make_session(spec);
      session->reset_peak_memory();
      RunRequest request;
      request.order = samples_from(0, kBatch * kUpdates);
      request.iterations = synchronous ? kUpdates : 1;
      request.timeout = Seconds(120);
      request.traced_iteration = request.iterations - 1;
      const Trace trace = session->run(program, request).execution.trace;
      const std::vector<MemoryByKind> measured = session->peak_memory();
      ASSERT_EQ(measured.size(), predicted.size());
      for (std::size_t r = 0; r < measured.size(); ++r) {
        SCOPED_TRACE(testing::Message() << model.name << ", " << optimizer.state_tensors()
                                        << " optimizer tensors, rank " << r);
        const MemoryPoint& p = predicted[r].peak;
        EXPECT_EQ(measured[r].optimizer, p.optimizer);
        EXPECT_EQ(measured[r].weights, p.weights);
        EXPECT_EQ(measured[r].versions, p.versions);
        EXPECT_EQ(measured[r].gradients, p.gradients);
        EXPECT_NEAR(static_cast<double>(measured[r].activations.value), static_cast<double>(p.activations.value),
                    c.tolerance * static_cast<double>(p.activations.value));
        EXPECT_GT(measured[r].activations, Bytes(0));
        EXPECT_EQ(peak_in_flight(trace.ranks[r]), predicted[r].peak_in_flight);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Systems, PeakMemoryOfARank,
    testing::Values(
        MemoryCase{"single_device", {}, 1}, MemoryCase{"data_parallel", {}, 3}, MemoryCase{"gpipe", {}, 3},
        MemoryCase{"one_f_one_b", {}, 3}, MemoryCase{"gpipe", {{"recompute", "all"}}, 3},
        MemoryCase{"gpipe", {{"recompute", "needed"}}, 3}, MemoryCase{"one_f_one_b", {{"recompute", "needed"}}, 3},
        // Several stages on a rank, two pipelines over the same ranks, weight gradients apart.
        MemoryCase{"pipe_offload", {{"copy_percent", "20"}}, 2}, MemoryCase{"interleaved_1f1b", {}, 2},
        MemoryCase{"interleaved_1f1b", {{"variant", "zero_bubble"}}, 2},
        MemoryCase{"interleaved_1f1b", {{"variant", "combined"}}, 2},
        MemoryCase{"one_f_one_b", {{"variant", "combined"}}, 3}, MemoryCase{"breadth_first", {}, 2},
        MemoryCase{"breadth_first", {{"recompute", "all"}}, 2}, MemoryCase{"zero_bubble", {{"variant", "h1"}}, 3},
        MemoryCase{"zero_bubble", {{"variant", "h2"}}, 3}, MemoryCase{"zero_bubble", {{"variant", "v"}}, 2},
        MemoryCase{"zero_bubble", {{"variant", "auto"}}, 3}, MemoryCase{"controllable_memory", {}, 2},
        MemoryCase{"controllable_memory", {{"variant", "min"}}, 2},
        MemoryCase{"dualpipe", {{"variant", "bidirectional"}}, 2}, MemoryCase{"dualpipe", {{"variant", "v"}}, 2},
        MemoryCase{"stp", {}, 2}, MemoryCase{"autopipe", {{"sliced", "2"}}, 3}, MemoryCase{"chimera", {}, 2},
        MemoryCase{"chimera", {{"variant", "bitpipe"}}, 2}, MemoryCase{"hanayo", {}, 2}, MemoryCase{"zeropp", {}, 2},
        MemoryCase{"zeropp", {{"unit", "3"}}, 2}, MemoryCase{"zeropp", {{"deferral", "none"}}, 2},
        MemoryCase{"layerpipe_style", {}, 4}, MemoryCase{"pipedream", {{"weights", "stash"}}, 3},
        MemoryCase{"pipedream", {{"weights", "vertical_sync"}}, 3}, MemoryCase{"pipedream", {{"weights", "naive"}}, 3},
        MemoryCase{"pipedream_2bw", {}, 3}, MemoryCase{"pipedream_2bw", {{"recompute", "yes"}}, 3},
        MemoryCase{"spectrain", {}, 3}, MemoryCase{"spectrain", {{"delta", "code"}}, 3},
        MemoryCase{"spectrain", {{"variant", "reuse"}}, 3}, MemoryCase{"pipeoptim", {}, 3},
        MemoryCase{"pipeoptim", {{"s", "code"}}, 3}, MemoryCase{"pipeoptim", {{"recompute", "newest"}}, 3},
        MemoryCase{"pipeoptim", {{"recompute", "predicted"}}, 3}, MemoryCase{"pipemare", {}, 3},
        MemoryCase{"xpipe", {}, 3},
        // Data-parallel replicas of a pipeline, and stages sharded over their ranks.
        MemoryCase{"gpipe", {}, 4, 6, 0.02, 2}, MemoryCase{"gpipe", {}, 4, 6, 0.02, 2, "use"},
        MemoryCase{"data_parallel", {}, 2, 6, 0.01, 1, "optimizer"},
        MemoryCase{"one_f_one_b", {{"zero", "1"}}, 4, 6, 0.02, 2},
        MemoryCase{"one_f_one_b", {{"zero", "3"}}, 4, 6, 0.02, 2},
        MemoryCase{"one_f_one_b", {}, 4, 6, 0.02, 2, "visit"}, MemoryCase{"breadth_first", {}, 2, 6, 0.02, 2},
        MemoryCase{"breadth_first", {}, 4, 6, 0.02, 2}, MemoryCase{"zeropp", {}, 2, 6, 0.02, 2},
        MemoryCase{"zeropp", {}, 4, 6, 0.02, 2}, MemoryCase{"zeropp", {{"reduce", "microbatch"}}, 2, 6, 0.02, 2},
        MemoryCase{"fsdp", {}, 3}, MemoryCase{"fsdp", {{"accumulation", "keep"}}, 3},
        MemoryCase{"fsdp", {{"accumulation", "no_sync"}}, 3},
        // Batched weight gradients: what each micro-batch's product waits for.
        MemoryCase{"gpipe", {}, 3, 6, 0.01, 1, "system", true},
        MemoryCase{"one_f_one_b", {}, 3, 6, 0.01, 1, "system", true},
        MemoryCase{"interleaved_1f1b", {}, 2, 6, 0.01, 1, "system", true},
        MemoryCase{"zero_bubble", {{"variant", "h1"}}, 3, 6, 0.01, 1, "system", true},
        MemoryCase{"zeropp", {}, 2, 6, 0.01, 1, "system", true}),
    [](const auto& parameter) {
      std::string name = parameter.param.system;
      for (const auto& [key, value] : parameter.param.options) name += "_" + key + "_" + value;
      if (parameter.param.replicas > 1)
        name += "_on_" + std::to_string(parameter.param.ranks) + "_by_" + std::to_string(parameter.param.replicas);
      if (parameter.param.batched) name += "_batched";
      if (parameter.param.sharding != std::string("system")) name += std::string("_") + parameter.param.sharding;
      return name;
    });

TEST(PeakMemoryOfASystem, OrdersTheSystemsAsTheirPapersDo) {
  // First rank of 3, 6 micro-batches: GPipe holds all six, 1F1B three.
  const ModelGraph model = test_cnn();
  std::map<std::string, MemoryByKind> first;
  for (const char* system : {"gpipe", "one_f_one_b"}) {
    const TestSetup setup(system, {}, model, 3, 24, 6);
    SessionSpec spec = setup.spec({});
    spec.feed = random_feed(model, 24);
    const auto session = make_session(spec);
    session->reset_peak_memory();
    RunRequest request;
    request.order = samples_from(0, 24);
    session->run(make_program(setup.prepared, 6), request);
    first[system] = session->peak_memory().front();
  }
  EXPECT_NEAR(static_cast<double>(first["gpipe"].activations.value),
              2 * static_cast<double>(first["one_f_one_b"].activations.value),
              0.02 * static_cast<double>(first["gpipe"].activations.value));
}

}  // namespace
}  // namespace sluice
