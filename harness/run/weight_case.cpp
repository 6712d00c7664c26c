#include "harness/run/weight_case.h"

#include <algorithm>
#include <map>

namespace sluice {

namespace {

using Matrix = WeightCase::Matrix;

// Which of our systems replays a case's system.
struct Replay {
  std::string system;
  std::map<std::string, std::string> options;
  bool predicts_backward = true;  // false: its cases say how forwards predict, and their backwards read the same
};
const std::map<std::string, Replay>& replays() {
  static const std::map<std::string, Replay> table = {
      {"sequential", {"gpipe", {}}},
      {"flush", {"one_f_one_b", {}}},
      {"naive", {"pipedream", {{"weights", "naive"}}}},
      {"pipedream", {"pipedream", {{"weights", "stash"}}}},
      {"pipedream_vsync", {"pipedream", {{"weights", "vertical_sync"}}}},
      {"pipedream_code", {"pipedream", {{"weights", "ring"}}}},
      {"2bw", {"pipedream_2bw", {}}},
      {"spectrain", {"spectrain", {}}},
      {"spectrain_reuse", {"spectrain", {{"variant", "reuse"}}}},
      {"pipeoptim", {"pipeoptim", {}, false}},
      {"pipemare", {"pipemare", {}}},
      {"xpipe", {"xpipe", {}}},
  };
  return table;
}

// A case's options in our system's terms, added to those of the replay.
std::map<std::string, std::string> options_of(const Replay& replay, JsonReader options) {
  std::map<std::string, std::string> ours = replay.options;
  if (options.boolean("clip_s", false)) ours["clip_s"] = "yes";
  if (const auto extra = options.integer("s_extra", 0, 0); extra != 0) {
    if (extra != 1) options.fail("s_extra", "must be 0 or 1");
    ours["s"] = "code";
  }
  const std::string forward = options.text("delta_f", "state"), backward = options.text("delta_b", "state");
  if (forward == "code_fwd" && (!replay.predicts_backward || backward == "code_bwd"))
    ours["delta"] = "code";
  else if (forward != "state" || backward != "state")
    options.fail("delta_f", "no system here predicts with " + forward + " and " + backward);
  if (options.has("anneal")) ours["anneal"] = std::to_string(options.integer("anneal", 0));
  if (!options.boolean("t2", true)) ours["t2"] = "no";
  options.no_other_keys();
  return ours;
}

OptimizerSpec optimizer_of(JsonReader config) {
  OptimizerSpec optimizer;
  const std::string kind = config.text("kind");
  if (kind == "adam")
    optimizer.kind = OptimizerSpec::Kind::adam;
  else if (kind == "adamw")
    optimizer.kind = OptimizerSpec::Kind::adamw;
  else if (kind != "sgd")
    config.fail("kind", "unknown optimizer '" + kind + "'", "known: sgd, adam, adamw");
  optimizer.learning_rate = config.number("lr");
  optimizer.momentum = config.number("mu", 0);
  optimizer.weight_decay = config.number("wd", 0);
  optimizer.momentum_ema = config.text("mform", "torch") == "ema";
  return optimizer;
}

// At least `rows` rows of numbers, each of exactly `width`.
Matrix read_rows(const JsonReader& entry, const std::string& key, const nlohmann::json& value, std::size_t rows,
                 std::size_t width) {
  Matrix matrix = value.get<Matrix>();
  if (matrix.size() < rows || std::ranges::any_of(matrix, [&](const auto& row) { return row.size() != width; }))
    entry.fail(key, "must hold " + std::to_string(rows) + " rows of " + std::to_string(width) + " numbers");
  return matrix;
}

// At least `count` numbers.
std::vector<double> read_numbers(const JsonReader& entry, const std::string& key, const nlohmann::json& value,
                                 std::size_t count) {
  auto numbers = value.get<std::vector<double>>();
  if (numbers.size() < count) entry.fail(key, "must hold " + std::to_string(count) + " numbers");
  return numbers;
}

void read_lengths(JsonReader& entry, WeightCase& c) {
  c.stages = static_cast<int>(entry.integer("stages", 1));
  c.accumulate = static_cast<int>(entry.integer("accumulate", 1, 1));
  c.epochs = static_cast<int>(entry.integer("drained_epochs", 1, 1));
  const int batches = static_cast<int>(entry.integer("batches", 1));
  if (batches % c.epochs != 0)
    entry.fail("drained_epochs", "does not divide the " + std::to_string(batches) + " batches");
  c.batches_per_epoch = batches / c.epochs;
  if (c.batches_per_epoch % c.microbatches_of_program() != 0)
    entry.fail("accumulate", "does not divide the " + std::to_string(c.batches_per_epoch) + " batches of an epoch");
}

// Everything that the replay reads is there, so that a bad file is an error of the file and not of a rank.
void read_numbers_of_case(const nlohmann::json& file, JsonReader& entry, WeightCase& c) {
  const auto stages = static_cast<std::size_t>(c.stages);
  const auto batches = static_cast<std::size_t>(c.batches_per_epoch * c.epochs);
  c.x = read_rows(entry, "x", file.at("x"), batches, kSamplesPerBatch);
  c.target = read_rows(entry, "target", file.at("target"), batches, kSamplesPerBatch);
  const std::vector<double> weights = read_numbers(entry, "a0", file.at("a0"), stages);
  const std::vector<double> biases = read_numbers(entry, "b0", file.at("b0"), stages);
  for (std::size_t k = 0; k < stages; ++k) c.initial.push_back({weights[k], biases[k]});
  c.losses = read_numbers(entry, "losses", entry.raw("losses"), batches);
  if (entry.has("lr_by_epoch"))
    c.rate_by_epoch = read_numbers(entry, "lr_by_epoch", entry.raw("lr_by_epoch"), static_cast<std::size_t>(c.epochs));
  const nlohmann::json& expected = entry.raw("weights");
  if (!expected.is_array() || expected.size() != stages)
    entry.fail("weights", "must have an entry for each of the " + std::to_string(stages) + " stages");
  for (const auto& stage : expected) c.weights.push_back(read_rows(entry, "weights", stage, 1, 2));
  if (entry.has("versions")) c.versions = entry.raw("versions");
}

}  // namespace

WeightCase read_weight_case(const nlohmann::json& file, JsonReader& entry) {
  WeightCase c;
  c.name = entry.text("name");
  c.published_system = entry.text("system");
  const auto replay = replays().find(c.published_system);
  if (replay == replays().end()) return c;
  c.system = &find_system(replay->second.system, "verify");
  std::map<std::string, std::string> options = replay->second.options;
  if (entry.has("options")) options = options_of(replay->second, entry.object("options"));
  c.options = resolve_options(c.system->options, options, entry.where("options"));
  read_lengths(entry, c);
  read_numbers_of_case(file, entry, c);
  c.optimizer = optimizer_of(entry.object("optimizer_config"));
  return c;
}

}  // namespace sluice
