// Every system trains the same bits whether its ranks are threads or processes, with whole stages
// and with sharded ones. Every member of the MPI job runs this file: each trains on threads by
// itself, and all of them together over MPI.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "harness/program/lowering.h"
#include "harness/tests/mpi_test_support.h"

namespace sluice {
namespace {

// What the first member has to say, where some systems reject this many ranks.
void tell_rejected(const std::vector<std::string>& rejected, std::size_t of) {
  if (job->rank() != 0) return;
  std::cout << rejected.size() << " of " << of << " rejected, by threads as well:";
  for (const std::string& r : rejected) std::cout << " [" << r << "]";
  std::cout << "\n";
}

// Chunks of sequences need sequences.
ModelGraph model_for(const System& system) { return system.sequence ? test_transformer() : test_mlp(); }

TEST(Transports, every_system_trains_the_same_bits_on_threads_and_over_mpi) {
  std::vector<std::string> rejected;
  std::size_t variants = 0;
  for (const System* system : all_systems())
    for (const auto& options : option_sets(*system)) {
      if (system->inference_only) continue;
      const ModelGraph model = model_for(*system);
      const DataFeed feed = random_feed(model, kUpdates * kBatch);
      const Variant variant{system->name, options};
      ++variants;
      if (!expect_same_bits(variant, model, feed)) rejected.push_back(to_text(variant));
    }
  tell_rejected(rejected, variants);
  EXPECT_LE(rejected.size(), variants / 10);
}

TEST(Transports, every_synchronous_system_does_with_its_stages_shared_and_sharded) {
  std::vector<std::string> rejected;
  std::size_t variants = 0;
  for (const System* system : all_systems()) {
    if (system->inference_only) continue;
    if (!system->synchronous || system->one_process) continue;
    const ModelGraph model = model_for(*system);
    const DataFeed feed = random_feed(model, kUpdates * kBatch);
    for (const auto layout : {PipelineReplicas::Layout::groups, PipelineReplicas::Layout::pipelines})
      for (const char* sharding : {"system", "none", "optimizer", "use", "visit", "update"}) {
        if (system->data_parallel && layout == PipelineReplicas::Layout::pipelines) continue;
        const PipelineReplicas replicas{system->data_parallel ? 1 : 2, layout};
        const Variant variant{system->name, {}, replicas, sharding};
        ++variants;
        if (expect_same_bits(variant, model, feed)) continue;
        rejected.push_back(to_text(variant));
        // Two pipelines of these, a rank each or an odd number, are none; words are divided among all ranks.
        EXPECT_TRUE(system->name == "layerpipe_style" || system->divides_words ||
                    (job->size() == 2 && (system->name == "chimera" || system->name == "dualpipe")))
            << to_text(variant);
      }
  }
  tell_rejected(rejected, variants);
}

// What systems shard of themselves.
std::vector<Variant> sharded_systems() {
  std::vector<Variant> all;
  for (const char* mode : {"reshard", "keep", "no_sync"}) all.push_back({"fsdp", {{"accumulation", mode}}});
  for (const auto layout : {PipelineReplicas::Layout::groups, PipelineReplicas::Layout::pipelines}) {
    const PipelineReplicas two{2, layout};
    for (const char* reduce : {"unit", "microbatch"})
      for (const char* unit : {"0", "3"}) all.push_back({"zeropp", {{"reduce", reduce}, {"unit", unit}}, two});
    for (const char* zero : {"0", "1", "3"}) all.push_back({"one_f_one_b", {{"zero", zero}}, two});
    all.push_back({"breadth_first", {}, two});
  }
  return all;
}

TEST(Transports, sharded_systems_do_on_other_kinds_of_model) {
  for (const ModelGraph& model : {test_cnn(), test_transformer(), test_gnmt()}) {
    const DataFeed feed = random_feed(model, kUpdates * kBatch);
    for (const Variant& variant : sharded_systems())
      EXPECT_TRUE(expect_same_bits(variant, model, feed)) << to_text(variant) << ": rejected";
  }
}

// Two or four processes: groups of two, in one stage or two, and one group of four.
TEST(Transports, ranks_that_share_layers_give_the_same_bits) {
  for (const ModelGraph& model : {gpt("gpt", 2, 16, 4, 6, 24), test_transformer()}) {
    const DataFeed feed = random_feed(model, kUpdates * kBatch);
    for (const int tensor : std::set{2, job->size()})
      for (const char* system : {"gpipe", "one_f_one_b", "zero_bubble"}) {
        if (model.name != "gpt" && tensor > 2) continue;  // two heads
        EXPECT_TRUE(expect_same_bits({.system = system, .tensor = tensor}, model, feed)) << system << ": rejected";
      }
  }
}

TEST(Transports, slices_of_the_words_give_the_same_bits) {
  const ModelGraph model = gpt("gpt", 2, 16, 4, 6, 24);
  const DataFeed feed = random_feed(model, kUpdates * kBatch);
  for (const char* variant : {"one_barrier", "two_barriers", "interlaced"})
    EXPECT_TRUE(expect_same_bits({"vocabulary_parallelism", {{"variant", variant}}}, model, feed)) << variant;
}

TEST(Transports, clipping_by_the_global_norm_gives_the_same_bits) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, kUpdates * kBatch);
  for (const char* system : {"data_parallel", "fsdp", "gpipe", "one_f_one_b", "zero_bubble", "layerpipe_style"})
    EXPECT_TRUE(expect_same_bits({.system = system, .clip_norm = 0.01}, model, feed)) << system << ": rejected";
}

// Two or four processes: replicas of the whole model, or of two stages.
TEST(Transports, spread_experts_give_the_same_bits) {
  const ModelGraph model = test_mixtral();
  const DataFeed feed = random_feed(model, kUpdates * kBatch);
  for (const char* system : {"gpipe", "one_f_one_b", "zero_bubble"})
    for (const double clip_norm : {0.0, 0.01})
      EXPECT_TRUE(expect_same_bits({.system = system,
                                    .replicas = {2, PipelineReplicas::Layout::pipelines},
                                    .clip_norm = clip_norm,
                                    .spread = true},
                                   model, feed))
          << system << ": rejected";
  EXPECT_TRUE(expect_same_bits({.system = "data_parallel", .spread = true}, model, feed));
}

// The copies of the head's weight are on the first and the last rank, or both on one (V placements).
TEST(Transports, tied_weights_in_several_stages_give_the_same_bits) {
  ModelGraph model = gpt("tied_gpt", 3, 8, 2, 6, 12);
  model.layers[model.layers.size() - 2].tied_to = 0;
  const DataFeed feed = random_feed(model, kUpdates * kBatch);
  for (const double clip_norm : {0.0, 0.01}) {
    for (const char* system : {"gpipe", "one_f_one_b", "zero_bubble"})
      EXPECT_TRUE(expect_same_bits({.system = system, .clip_norm = clip_norm}, model, feed)) << system << ": rejected";
    EXPECT_TRUE(expect_same_bits({.system = "zero_bubble", .options = {{"variant", "v"}}, .clip_norm = clip_norm},
                                 model, feed));
  }
}

TEST(Transports, so_do_the_others) {
  for (const ModelGraph& model : {test_cnn(), test_transformer(), test_gnmt()}) {
    const DataFeed feed = random_feed(model, kUpdates * kBatch);
    for (const char* system : {"zero_bubble", "pipedream", "chimera", "dualpipe", "layerpipe_style"})
      EXPECT_TRUE(expect_same_bits({system}, model, feed)) << system << ": rejected";
  }
}

// LayerPipe's W on other ranks than their F, late by some updates, and I of which the rank before computes a part: with
// the bits that threads give, after every update.
TEST(Transports, layerpipe_divides_and_delays_gradients_over_mpi_as_on_threads) {
  int other_ranks = 0, divided = 0;
  const auto expect_same = [&](const ModelGraph& model, int groups) {
    const DataFeed feed = random_feed(model, kUpdates * kBatch);
    for (const char* delay : {"0", "1", "3"})
      for (const char* weights : {"stash", "average_a"}) {
        const Variant variant{"layerpipe",
                              {{"groups", std::to_string(groups)}, {"gradient_delay", delay}, {"weights", weights}}};
        SCOPED_TRACE(to_text(variant));
        const Planned planned(variant, model);
        for (const PlanStage& stage : planned.setup.prepared.plan.stages) {
          other_ranks += stage.weight_gradient_device.has_value();
          divided += stage.passed_channels > 0;
        }
        expect_same_bits(planned, feed);
      }
  };
  for (const int groups : std::set{1, 2, job->size() - 1, job->size()})
    expect_same(mlp_classifier({48, 32, 40, 24, 36, 28, 20, 10}, {1, 12, 12}), groups);
  expect_same(mlp_classifier({16, 200, 10}, {1, 12, 12}), 2);  // the second group begins with most of the work
  EXPECT_GT(other_ranks, 0);
  EXPECT_GT(divided, 0);
}

// Stages of a graph, some of several micro-batches at once, some replicated, in an order of their own.
TEST(Transports, plans_that_are_no_chains_give_the_same_bits) {
  const ModelGraph branches = multi_modal_transformer(
      {.branches = 2, .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 12, .sequence = 3, .own_inputs = false});
  const ModelGraph drugs =
      drug_response({.branches = 3, .layers = 2, .trunk_layers = 2, .width = 10, .own_inputs = false});
  for (const ModelGraph& model : {branches, drugs}) {
    const DataFeed feed = random_feed(model, kUpdates * kBatch);
    for (const Variant& variant : {Variant{"graphpipe"}, Variant{"graphpipe", {{"micro_batch", "per_stage"}}},
                                   Variant{"graphpipe", {{"partition", "sequential"}, {"max_degree", "1"}}},
                                   Variant{"spp", {{"order", "ready"}, {"stages", "1"}}},
                                   Variant{"spp", {{"order", "strict"}, {"stages", "2"}}}})
      EXPECT_TRUE(expect_same_bits(variant, model, feed)) << to_text(variant) << ": rejected";
  }
}

// Two stages, stage s on rank s, of which an op takes number of micro-batches per op[s] micro-batches: all forwards,
// then all backwards.
Planned grouped_stages(const ModelGraph& model, const std::vector<int>& microbatches_per_op) {
  constexpr int kMicros = 12;
  TestSetup setup("single_device", {}, model, 1, kBatch, kMicros);
  Prepared& p = setup.prepared;
  p.cluster = load_cluster("flat:2", "");
  Plan plan;
  plan.micro_batch = p.micro_batch;
  for (int s = 0; s < 2; ++s)
    plan.stages.push_back({.devices = {DeviceId(s)}, .microbatches_per_op = microbatches_per_op[std::size_t(s)]});
  for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) plan.stages[l < 3 ? 0 : 1].layers.push_back(l);
  adopt_pipeline(p, plan);
  Schedule schedule = empty_schedule(2, kMicros);
  for (int s = 0; s < 2; ++s) {
    const int ops = kMicros / microbatches_per_op[std::size_t(s)];
    auto& own = schedule.ranks[std::size_t(s)];
    for (int i = 0; i < ops; ++i) own.push_back(forward_op(s, i));
    for (int i = 0; i < ops; ++i) own.push_back(backward_op(s, i));
  }
  Program program = lower(schedule, p.graph, p.ranks.placement, WeightRule{});
  return {std::move(setup), std::move(program)};
}

TEST(Transports, stages_of_several_micro_batches_at_once_give_the_same_bits) {
  for (const ModelGraph& model : {test_mlp(), test_gnmt()}) {
    const DataFeed feed = random_feed(model, kUpdates * kBatch);
    for (const std::vector<int>& microbatches_per_op : {std::vector{1, 4}, {6, 4}, {12, 3}}) {
      SCOPED_TRACE(model.name + testing::PrintToString(microbatches_per_op));
      expect_same_bits(grouped_stages(model, microbatches_per_op), feed);
    }
  }
}

TEST(Transports, generated_texts_are_the_same) {
  const ModelGraph model = test_translator();
  DataFeed feed = random_feed(model, kUpdates * kBatch);
  feed.decoding = Decoding{.metric = "sum",
                           .begin = 1,
                           .end = 2,
                           .samples = 20,
                           .score = [](std::span<const std::vector<std::int32_t>> texts) {
                             double sum = 0;
                             for (const auto& text : texts)
                               for (const std::int32_t id : text) sum = 1.01 * sum + id;
                             return sum;
                           }};
  for (const Variant& variant : {Variant{"one_f_one_b"}, Variant{"one_f_one_b", {{"zero", "3"}}, {2}}, Variant{"fsdp"}})
    EXPECT_TRUE(expect_same_bits(variant, model, feed));
}

// The checkpoint of a run half-way is the same file on threads and over MPI, and a run over MPI
// goes on from it as one that had not stopped.
void expect_same_checkpoint(const Variant& variant, const ModelGraph& model) {
  SCOPED_TRACE(to_text(variant));
  const DataFeed feed = random_feed(model, kUpdates * kBatch);
  const Planned planned(variant, model);
  const auto processes = job->first(planned.ranks());
  if (!processes) return;
  const int microbatches = planned.setup.microbatches;
  const Program program = make_program(planned.setup.prepared, planned.synchronous() ? microbatches : 2 * microbatches);
  const std::string stem =
      testing::TempDir() + "sluice_checkpoint." + processes->broadcast(std::to_string(::getpid()), 0) + ".";
  const auto half = [&](Session& s, std::int64_t first) {
    RunRequest request;
    request.order = samples_from(first * kBatch, 2 * kBatch);
    request.iterations = planned.synchronous() ? 2 : 1;
    request.timeout = Seconds(60);
    s.run(program, request);
  };
  const std::string of_threads = stem + "threads." + std::to_string(processes->rank());
  const auto whole = planned.session(feed, nullptr);
  half(*whole, 0);
  whole->save(of_threads);
  const double loss = whole->evaluate().loss;
  half(*whole, 2);
  const auto over_mpi = planned.session(feed, processes.get());
  half(*over_mpi, 0);
  over_mpi->save(stem + "mpi");
  processes->barrier();
  const auto read = [](const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_TRUE(read(stem + "mpi") == read(of_threads));
  const auto later = planned.session(feed, processes.get());
  later->load(stem + "mpi");
  EXPECT_EQ(later->updates_done(), 2);
  EXPECT_EQ(later->evaluate().loss, loss);
  half(*later, 2);
  for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
    EXPECT_TRUE(later->weights(l) == whole->weights(l));
    EXPECT_TRUE(later->gradients(l) == whole->gradients(l));
  }
  try {
    later->load(stem + "nothing");
    ADD_FAILURE() << "loaded a file that is not there";
  } catch (const InputError&) {
  }
  processes->barrier();
  std::filesystem::remove(of_threads);
  if (processes->rank() == 0) std::filesystem::remove(stem + "mpi");
}

TEST(Transports, a_checkpoint_is_the_same_file_and_goes_on_in_both) {
  std::vector<Variant> variants = sharded_systems();
  std::erase_if(variants, [](const Variant& v) {
    return v.replicas.layout == PipelineReplicas::Layout::pipelines && v.system != "zeropp";
  });
  for (const char* system : {"pipedream", "one_f_one_b", "layerpipe_style"}) variants.push_back({system});
  variants.push_back({"gpipe", {}, {2}, "optimizer"});
  variants.push_back({"zero_bubble", {}, {2, PipelineReplicas::Layout::pipelines}, "visit"});
  for (const Variant& variant : variants) expect_same_checkpoint(variant, test_cnn());
  for (const Variant& spread : {Variant{.system = "data_parallel", .spread = true},
                                Variant{.system = "gpipe", .replicas = {2}, .spread = true}})
    expect_same_checkpoint(spread, test_mixtral());
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto processes = sluice::join_mpi_job();
  sluice::job = processes.get();
  if (processes->rank() != 0) {  // one report is enough, unless another member sees something else
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    struct Failures : testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& r) override {
        if (r.failed()) std::cerr << "process " << sluice::job->rank() << ": " << r.message() << "\n";
      }
    };
    listeners.Append(new Failures);
  }
  const int failed = RUN_ALL_TESTS();
  int any = 0;
  for (const std::string& other : processes->all_gather(failed ? "x" : "")) any |= !other.empty();
  return any;
}
