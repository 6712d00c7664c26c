// Every system trains the same bits whether its ranks are threads or processes. Every member of the
// MPI job runs this file: each trains on threads by itself, and all of them together over MPI.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "harness/exec/mpi.h"
#include "harness/run/test_support.h"

namespace sluice {
namespace {

Team* job = nullptr;

constexpr std::int64_t kBatch = 24;
constexpr int kUpdates = 4;

struct Numbers {
  std::vector<std::vector<double>> weights, gradients;
  std::vector<double> losses, evaluations;
  bool operator==(const Numbers&) const = default;
};

Numbers train(const TestSetup& setup, const DataFeed& feed, Team* team) {
  SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9});
  spec.feed = feed;
  spec.team = team;
  const bool synchronous = setup.prepared.system->synchronous;
  const Program program = make_program(
      setup.prepared, synchronous ? setup.microbatches : kUpdates * setup.microbatches);
  spec.rule = program.rule;
  const auto session = make_session(spec);
  RunRequest request;
  request.order = samples_from(0, kUpdates * kBatch);
  request.iterations = synchronous ? kUpdates : 1;
  request.timeout = Seconds(60);
  request.snapshots = {kUpdates / 2};
  const RunResult result = session->run(program, request);
  Numbers numbers;
  numbers.losses = result.losses;
  const Evaluation before = session->evaluate_snapshot(0), after = session->evaluate();
  numbers.evaluations = {before.loss, before.accuracy, after.loss, after.accuracy};
  for (const auto& [name, value] : after.extra) numbers.evaluations.push_back(value);
  for (int l = 0; l < static_cast<int>(spec.model.layers.size()); ++l) {
    numbers.weights.push_back(session->weights(l));
    numbers.gradients.push_back(session->gradients(l));
  }
  return numbers;
}

// With as many ranks as the job has members, or as many of them as the system takes. False: it
// refuses that.
bool expect_same_bits(const std::string& system, const std::map<std::string, std::string>& options,
                      const ModelGraph& model, const DataFeed& feed) {
  std::string what = system + " " + model.name;
  for (const auto& [key, value] : options) what += " " + key + "=" + value;
  SCOPED_TRACE(what);
  std::optional<TestSetup> setup;
  try {
    const System& s = find_system(system, "test");
    const int microbatches = s.synchronous ? 8 : s.accumulates ? 4 : 1;
    setup.emplace(system, options, model, job->size(), kBatch, microbatches);
    make_program(setup->prepared, s.synchronous ? microbatches : kUpdates * microbatches);
  } catch (const InputError&) {
    return false;  // the system refuses this model on so many ranks, on threads as well
  }
  const auto team = job->first(static_cast<int>(setup->prepared.ranks.devices.size()));
  if (!team) return true;
  const Numbers processes = train(*setup, feed, team.get()), threads = train(*setup, feed, nullptr);
  EXPECT_EQ(processes.losses, threads.losses);
  EXPECT_EQ(processes.evaluations, threads.evaluations);
  for (std::size_t l = 0; l < threads.weights.size(); ++l) {
    EXPECT_TRUE(processes.weights[l] == threads.weights[l]) << model.layers[l].name;
    EXPECT_TRUE(processes.gradients[l] == threads.gradients[l]) << model.layers[l].name;
  }
  return true;
}

TEST(Transports, every_system_trains_the_same_bits_on_threads_and_over_mpi) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, 4 * kBatch);
  std::string refused;
  for (const System* system : all_systems())
    if (!expect_same_bits(system->name, {}, model, feed)) refused += system->name + " ";
  if (job->rank() == 0) std::cout << "refused by threads as well: " << refused << "\n";
}

TEST(Transports, so_do_other_kinds_of_model) {
  for (const ModelGraph& model : {test_cnn(), test_transformer(), test_gnmt()}) {
    const DataFeed feed = random_feed(model, 4 * kBatch);
    for (const char* system : {"zero_bubble", "pipedream", "chimera"})
      expect_same_bits(system, {}, model, feed);
  }
}

TEST(Transports, generated_texts_are_the_same) {
  const ModelGraph model = test_translator();
  DataFeed feed = random_feed(model, 4 * kBatch);
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
  expect_same_bits("one_f_one_b", {}, model, feed);
}

TEST(Transports, a_checkpoint_is_the_same_file_and_goes_on_in_both) {
  const ModelGraph model = test_cnn();
  const DataFeed feed = random_feed(model, 4 * kBatch);
  const TestSetup setup("pipedream", {}, model, job->size(), kBatch, 1);
  const Program program = make_program(setup.prepared, 2);
  const std::string stem = testing::TempDir() + "sluice_checkpoint." +
                           job->broadcast(std::to_string(::getpid()), 0) + ".";
  const auto session = [&](Team* team) {
    SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9});
    spec.feed = feed;
    spec.team = team;
    spec.rule = program.rule;
    return make_session(spec);
  };
  const auto half = [&](Session& s, std::int64_t first) {
    RunRequest request;
    request.order = samples_from(first * kBatch, 2 * kBatch);
    request.timeout = Seconds(60);
    s.run(program, request);
  };
  const auto whole = session(nullptr);
  half(*whole, 0);
  whole->save(stem + "threads." + std::to_string(job->rank()));
  half(*whole, 2);
  const auto processes = session(job);
  half(*processes, 0);
  processes->save(stem + "mpi");
  job->barrier();
  const auto read = [](const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_TRUE(read(stem + "mpi") == read(stem + "threads." + std::to_string(job->rank())));
  const auto later = session(job);
  later->load(stem + "mpi");
  half(*later, 2);
  for (int l = 0; l < static_cast<int>(model.layers.size()); ++l)
    EXPECT_TRUE(later->weights(l) == whole->weights(l));
  try {
    later->load(stem + "nothing");
    ADD_FAILURE() << "loaded a file that is not there";
  } catch (const InputError&) {
  }
  job->barrier();
  std::filesystem::remove(stem + "threads." + std::to_string(job->rank()));
  if (job->rank() == 0) std::filesystem::remove(stem + "mpi");
}

TEST(Transports, memory_is_counted_in_every_process) {
  const ModelGraph model = test_mlp();
  const DataFeed feed = random_feed(model, 4 * kBatch);
  const TestSetup setup("one_f_one_b", {}, model, job->size(), kBatch, 4);
  const Program program = make_program(setup.prepared, 4);
  const auto peaks = [&](Team* team) {
    SessionSpec spec = setup.spec({.learning_rate = 0.05, .momentum = 0.9});
    spec.feed = feed;
    spec.team = team;
    const auto session = make_session(spec);
    session->reset_peak_memory();
    RunRequest request;
    request.order = samples_from(0, 2 * kBatch);
    request.iterations = 2;
    session->run(program, request);
    return session->peak_memory();
  };
  const auto threads = peaks(nullptr), processes = peaks(job);
  ASSERT_EQ(processes.size(), threads.size());
  for (std::size_t r = 0; r < threads.size(); ++r) {
    // Buffers are another matter: when a message is let go of depends on the transport.
    EXPECT_EQ(processes[r].weights, threads[r].weights);
    EXPECT_EQ(processes[r].gradients, threads[r].gradients);
    EXPECT_EQ(processes[r].optimizer, threads[r].optimizer);
    EXPECT_EQ(processes[r].activations, threads[r].activations);
    EXPECT_GT(processes[r].buffers, 0);
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto team = sluice::join_mpi_job();
  sluice::job = team.get();
  if (team->rank() != 0) {  // one report is enough, unless another member sees something else
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    struct Failures : testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& r) override {
        if (r.failed())
          std::cerr << "process " << sluice::job->rank() << ": " << r.message() << "\n";
      }
    };
    listeners.Append(new Failures);
  }
  const int failed = RUN_ALL_TESTS();
  int any = 0;
  for (const std::string& other : team->all_gather(failed ? "x" : "")) any |= !other.empty();
  return any;
}
