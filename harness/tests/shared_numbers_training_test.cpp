// Programs that numerics() gives one name train to the same bits, and those that differ in an order of summation, a
// version or a prediction get names of their own.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "harness/program/numerics.h"
#include "harness/tests/training_test_support.h"

namespace sluice {
namespace {

using Given = std::map<std::string, std::string>;

struct Trainee {
  std::string system;
  Given options = {};
  int ranks = 4;
  int microbatches = 4;  // of an update; asynchronous systems that do not accumulate: 1
  int replicas = 1;
};

std::string to_text(const Trainee& s) {
  std::string text = s.system + " on " + std::to_string(s.ranks) + ", " + std::to_string(s.microbatches) + " micro";
  if (s.replicas > 1) text += ", " + std::to_string(s.replicas) + " replicas";
  for (const auto& [name, value] : s.options) text += " " + name + "=" + value;
  return text;
}

TestSetup setup_of(const Trainee& s, const ModelGraph& model) {
  return {s.system, s.options, model, s.ranks, kBatch, s.microbatches, {.count = s.replicas}};
}

Program program_of(const TestSetup& setup) {
  const int per_update = setup.prepared.microbatches_per_update;
  return make_program(setup.prepared, setup.prepared.system->synchronous ? per_update : per_update * kUpdates);
}

std::uint64_t digest_name_of(const Trainee& s, const ModelGraph& model) {
  const TestSetup setup = setup_of(s, model);
  return numerics(program_of(setup), model, setup.prepared.plan);
}

// Every weight after all updates, and the losses.
Numbers train(const Trainee& s, const ModelGraph& model, const DataFeed& feed, const OptimizerSpec& optimizer) {
  const TestSetup setup = setup_of(s, model);
  return train_by(program_of(setup), setup, feed, {.optimizer = optimizer});
}

std::vector<Trainee> subjects() {
  std::vector<Trainee> all = {{"single_device", {}, 1, 4},
                              {"single_device", {}, 1, 1},
                              {"data_parallel", {}, 2, 4},
                              {"data_parallel", {}, 4, 4}};
  for (const int ranks : {2, 3, 4}) {
    all.push_back({"one_f_one_b", {}, ranks, 4});
    all.push_back({"one_f_one_b", {}, ranks, 8});
    all.push_back({"gpipe", {{"backward", "fifo"}}, ranks, 4});
    all.push_back({"gpipe", {{"backward", "lifo"}}, ranks, 4});
    for (const char* weights : {"stash", "vertical_sync", "naive", "ring"})
      all.push_back({"pipedream", {{"weights", weights}}, ranks, 1});
    all.push_back({"pipedream_2bw", {}, ranks, 4});
    all.push_back({"pipedream_2bw", {{"error_feedback", "double_first"}}, ranks, 4});
    all.push_back({"nesterov_async", {{"rate_updates", "4"}}, ranks, 1});
    all.push_back({"spectrain", {}, ranks, 1});
    all.push_back({"spectrain", {{"variant", "reuse"}}, ranks, 1});
    all.push_back({"pipeoptim", {}, ranks, 1});
    all.push_back({"pipeoptim", {{"s", "code"}}, ranks, 1});
    all.push_back({"pipemare", {}, ranks, 1});
    all.push_back({"xpipe", {}, ranks, 4});
  }
  for (const char* system : {"interleaved_1f1b", "breadth_first", "zero_bubble", "zeropp", "chimera", "hanayo",
                             "dualpipe", "torchgpipe", "layerpipe_style"})
    for (const int ranks : {2, 4}) all.push_back({system, {}, ranks, 4});
  all.push_back({"zero_bubble", {{"variant", "h2"}}, 4, 4});
  all.push_back({"one_f_one_b", {}, 4, 4, 2});
  all.push_back({"gpipe", {{"backward", "fifo"}}, 4, 4, 2});
  all.push_back({"one_f_one_b", {{"recompute", "yes"}}, 4, 4});
  return all;
}

struct SharedCase {
  const char* name;
  ModelGraph (*model)();
  OptimizerSpec optimizer;
};
void PrintTo(const SharedCase& c, std::ostream* out) { *out << c.name; }

class SharedNumbers : public testing::TestWithParam<SharedCase> {};

TEST_P(SharedNumbers, ProgramsOfOneNameTrainToTheSameBits) {
  const ModelGraph model = GetParam().model();
  const DataFeed feed = random_feed(model, kBatch * kUpdates);
  struct First {
    std::string text;
    Numbers numbers;
  };
  std::map<std::pair<std::uint64_t, int>, First> trained;  // by name and micro-batches of an update
  int pairs = 0;
  for (const Trainee& s : subjects()) {
    SCOPED_TRACE(to_text(s));
    std::optional<Numbers> numbers;
    std::uint64_t name = 0;
    try {
      name = digest_name_of(s, model);
      numbers = train(s, model, feed, GetParam().optimizer);
    } catch (const InputError&) {
      continue;  // a combination that the system does not support
    }
    const auto [first, fresh] =
        trained.try_emplace({name, setup_of(s, model).prepared.microbatches_per_update}, First{to_text(s), *numbers});
    if (fresh) continue;
    SCOPED_TRACE("as " + first->second.text);
    ++pairs;
    expect_same_bits(*numbers, first->second.numbers, model);
    if (HasFailure()) return;
  }
  EXPECT_GE(pairs, 6) << "hardly anything is shared";
  EXPECT_GE(trained.size(), 15u) << "hardly anything differs";
}

INSTANTIATE_TEST_SUITE_P(
    Models, SharedNumbers,
    testing::Values(
        SharedCase{"cnn_momentum", test_cnn, {.learning_rate = 0.05, .momentum = 0.9}},
        SharedCase{"mlp_sgd", test_mlp, {.learning_rate = 0.05}},
        SharedCase{"transformer_adam", test_transformer, {.kind = OptimizerSpec::Kind::adam, .learning_rate = 0.01}},
        SharedCase{"lstm_adamw",
                   test_residual_lstm,
                   {.kind = OptimizerSpec::Kind::adamw, .learning_rate = 0.01, .weight_decay = 0.1}},
        SharedCase{"gnmt_adam", test_gnmt, {.kind = OptimizerSpec::Kind::adam, .learning_rate = 0.01}},
        SharedCase{"translator_adam", test_translator, {.kind = OptimizerSpec::Kind::adam, .learning_rate = 0.01}}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(SharedNumbers, OneFOneBInterleavedZeroBubbleAndOneDeviceShareOneTraining) {
  const ModelGraph model = test_cnn();
  const std::uint64_t one = digest_name_of({"single_device", {}, 1, 4}, model);
  for (const Trainee& s : std::vector<Trainee>{{"one_f_one_b", {}, 2, 4},
                                               {"one_f_one_b", {}, 4, 4},
                                               {"interleaved_1f1b", {}, 2, 4},
                                               {"zero_bubble", {}, 4, 4},
                                               {"gpipe", {{"backward", "fifo"}}, 3, 4}})
    EXPECT_EQ(digest_name_of(s, model), one) << to_text(s);
}

TEST(SharedNumbers, AnotherOrderOfSummationVersionOrPredictionIsAnotherName) {
  const ModelGraph model = test_cnn();
  std::map<std::uint64_t, std::string> names;
  for (const Trainee& s : std::vector<Trainee>{{"single_device", {}, 1, 4},
                                               {"single_device", {}, 1, 8},
                                               {"gpipe", {{"backward", "lifo"}}, 2, 4},
                                               {"data_parallel", {}, 2, 4},
                                               {"data_parallel", {}, 4, 4},
                                               {"pipedream", {{"weights", "stash"}}, 2, 1},
                                               {"pipedream", {{"weights", "stash"}}, 3, 1},
                                               {"pipedream", {{"weights", "naive"}}, 3, 1},
                                               {"pipedream", {{"weights", "vertical_sync"}}, 3, 1},
                                               {"pipedream_2bw", {}, 3, 4},
                                               {"pipedream_2bw", {{"error_feedback", "double_first"}}, 3, 4},
                                               {"pipedream_2bw", {{"error_feedback", "plain_first"}}, 3, 4},
                                               {"nesterov_async", {{"stage_beta1", "yes"}}, 3, 1},
                                               {"nesterov_async", {{"rate_updates", "4"}}, 3, 1},
                                               {"spectrain", {}, 3, 1},
                                               {"spectrain", {{"variant", "reuse"}}, 3, 1},
                                               {"pipeoptim", {}, 3, 1},
                                               {"pipeoptim", {{"s", "code"}}, 3, 1},
                                               {"pipeoptim", {{"delta", "code"}}, 3, 1},
                                               {"pipemare", {}, 3, 1}}) {
    const auto [other, fresh] = names.try_emplace(digest_name_of(s, model), to_text(s));
    EXPECT_TRUE(fresh) << to_text(s) << " has the name of " << other->second;
  }
}

}  // namespace
}  // namespace sluice
