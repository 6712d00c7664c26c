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
      {"asyncpp", {"nesterov_async", {}}},
      {"asyncpp_nostash", {"nesterov_async", {{"weights", "newest"}}}},
      {"basis_rotation", {"pipedream", {}}},
      {"2bw_ef", {"pipedream_2bw", {}}},
      {"layerpipe", {"layerpipe", {}}},
      {"layerpipe2", {"layerpipe", {}}},
  };
  return table;
}

// A case's options in our system's terms, added to those of the replay.
std::map<std::string, std::string> options_of(const Replay& replay, JsonReader options) {
  std::map<std::string, std::string> ours = replay.options;
  if (options.boolean("clip_s", false)) ours["clip_s"] = "yes";
  if (const auto extra = options.integer_or("s_extra", 0, 0, kMaxCount); extra != 0) {
    if (extra != 1) options.fail("s_extra", "must be 0 or 1");
    ours["s"] = "code";
  }
  const std::string forward = options.text("delta_f", "state"), backward = options.text("delta_b", "state");
  if (forward == "code_fwd" && (!replay.predicts_backward || backward == "code_bwd"))
    ours["delta"] = "code";
  else if (forward != "state" || backward != "state")
    options.fail("delta_f", "no system here predicts with " + forward + " and " + backward);
  if (options.has("anneal")) ours["anneal"] = std::to_string(options.integer("anneal", 0, kMaxCount));
  if (!options.boolean("t2", true)) ours["t2"] = "no";
  if (options.has("t1")) ours["rate_updates"] = std::to_string(options.integer("t1", 1, kMaxCount));
  if (const std::string backward_reads = options.text("bwd", "stash"); backward_reads != "stash") {
    if (backward_reads == "reconstruct") {
      ours["weights"] = options.text("beta") == "d/(d+1)" ? "average_a" : "average_b";
    } else if (backward_reads == "newest" || backward_reads == "recompute") {
      ours["weights"] = replay.system == "pipedream" ? "naive" : "newest";
      if (backward_reads == "recompute") ours["recompute"] = "yes";
    } else {
      options.fail("bwd", "no system here has backwards of '" + backward_reads + "'");
    }
  }
  if (options.text("fwd", "newest") == "previous" && replay.system != "pipedream_2bw")
    options.fail("fwd", "only pipedream_2bw reads the version before");
  if (options.has("ef")) {
    JsonReader feedback = options.object("ef");
    ours["error_feedback"] = feedback.text("first") == "plain" ? "plain_first" : "double_first";
    ours["feedback_decay"] = feedback.text("decay", "inside");
    feedback.no_other_keys();
  }
  if (options.has("weights")) ours["weights"] = options.text("weights");
  if (options.has("gradient_delay"))
    ours["gradient_delay"] = std::to_string(options.integer("gradient_delay", 0, kMaxCount));
  options.no_other_keys();
  return ours;
}

void read_muon(JsonReader& config, OptimizerSpec& optimizer) {
  optimizer.nesterov = config.boolean("nesterov", true);
  const std::string scale = config.text("scale", "original");
  if (scale == "match_rms_adamw")
    optimizer.scale = MuonScale::match_rms_adamw;
  else if (scale != "original")
    config.fail("scale", "unknown scale '" + scale + "'", "known: original, match_rms_adamw");
}

void read_rotation(JsonReader& config, OptimizerSpec& optimizer) {
  optimizer.refresh_every = config.integer("freq", 1, kMaxCount);
  optimizer.sides = config.text("geometry") == "bi" ? RotationSides::both : RotationSides::smaller;
  optimizer.source = config.text("source") == "2nd" ? RotationSource::second : RotationSource::first;
  optimizer.refresh_as_released = config.boolean("quirk", false);
}

// NAdam and "adam" with "decoupled" left out are those of the file of 2025, whose decay is decoupled.
OptimizerSpec optimizer_of(JsonReader config, bool decoupled_adam) {
  using Kind = OptimizerSpec::Kind;
  static const std::map<std::string, Kind> kinds = {{"sgd", Kind::sgd},     {"adam", Kind::adam},
                                                    {"adamw", Kind::adamw}, {"nadam", Kind::nadamw},
                                                    {"muon", Kind::muon},   {"rotated", Kind::rotated_adam}};
  OptimizerSpec optimizer;
  const std::string name = config.text("kind");
  const auto kind = kinds.find(name);
  if (kind == kinds.end())
    config.fail("kind", "unknown optimizer '" + name + "'", "known: adam, adamw, muon, nadam, rotated, sgd");
  optimizer.kind = kind->second;
  if (optimizer.kind == Kind::adam && decoupled_adam) optimizer.kind = Kind::adamw;
  if (!config.boolean("decoupled", true)) optimizer.kind = name == "nadam" ? Kind::nadam : Kind::adam;
  optimizer.learning_rate = config.number("lr", 0, kMaxNumber);
  optimizer.momentum = config.number_or("mu", 0, 0, kMaxNumber);
  optimizer.weight_decay = config.number_or("wd", 0, 0, kMaxNumber);
  optimizer.momentum_ema = config.text("mform", "torch") == "ema";
  optimizer.beta1 = config.number_or("b1", optimizer.beta1, 0, 1);
  optimizer.beta2 = config.number_or("b2", optimizer.beta2, 0, 1);
  optimizer.epsilon = config.number_or("eps", optimizer.epsilon, 0, 1);
  optimizer.momentum_decay = config.number_or("psi", optimizer.momentum_decay, 0, 1);
  if (optimizer.kind == Kind::muon) read_muon(config, optimizer);
  if (optimizer.kind == Kind::rotated_adam) read_rotation(config, optimizer);
  return optimizer;
}

// Either one optimizer, or one for matrices and one for the other parameters. `options` of the system are added.
void read_optimizer(JsonReader config, bool decoupled_adam, WeightCase& c,
                    std::map<std::string, std::string>& options) {
  if (!config.has("matrix")) {
    if (config.boolean("adaptive", false)) options["stage_beta1"] = "yes";
    c.optimizer = optimizer_of(config, decoupled_adam);
    return;
  }
  c.optimizer = optimizer_of(config.object("matrix"), decoupled_adam);
  const OptimizerSpec other = optimizer_of(config.object("other"), decoupled_adam);
  if (!c.optimizer.treats_matrices() || other.kind != OptimizerKind::adamw ||
      other.weight_decay != c.optimizer.weight_decay)
    config.fail("other", "must be AdamW with the same decay with muon or rotated");
  if (c.optimizer.learning_rate > 0) c.optimizer.other_rate = other.learning_rate / c.optimizer.learning_rate;
  c.optimizer.matrices =
      config.text("matrix_stages", "all") == "hidden" ? MatrixParameters::hidden : MatrixParameters::all;
}

// At least `rows` rows of numbers, each of exactly `width`.
Matrix read_rows(JsonReader& parent, const std::string& key, int rows, std::size_t width) {
  Matrix matrix;
  JsonReader list = parent.list(key);
  for (const std::string& row : list.keys()) matrix.push_back(list.numbers(row, -kMaxNumber, kMaxNumber));
  if (std::ssize(matrix) < rows || std::ranges::any_of(matrix, [&](const auto& row) { return row.size() != width; }))
    parent.fail(key, "must hold " + std::to_string(rows) + " rows of " + std::to_string(width) + " numbers");
  return matrix;
}

// At least `count` numbers.
std::vector<double> read_numbers(JsonReader& parent, const std::string& key, int count) {
  std::vector<double> numbers = parent.numbers(key, -kMaxNumber, kMaxNumber);
  if (std::ssize(numbers) < count) parent.fail(key, "must hold " + std::to_string(count) + " numbers");
  return numbers;
}

std::vector<WeightCase::VersionRead> read_versions(JsonReader stage, const std::string& key) {
  std::vector<WeightCase::VersionRead> reads;
  JsonReader list = stage.list(key);
  for (const std::string& index : list.keys()) {
    JsonReader read = list.list(index);
    reads.push_back({read.integer<std::int64_t>("0", 0, kMaxWhole), read.integer<std::int64_t>("1", 0, kMaxWhole),
                     read.integer("2", -kMaxCount, kMaxCount)});
  }
  return reads;
}

void read_lengths(JsonReader& entry, WeightCase& c) {
  c.stages = entry.integer("stages", 1, kMaxCount);
  c.accumulate = entry.integer_or("accumulate", 1, 1, kMaxCount);
  c.epochs = entry.integer_or("drained_epochs", 1, 1, kMaxCount);
  if (entry.has("weight_gradient_devices")) {
    c.weight_gradient_devices = entry.integers("weight_gradient_devices", 0, kMaxCount);
    if (std::ssize(c.weight_gradient_devices) != c.stages)
      entry.fail("weight_gradient_devices",
                 "must have an entry for each of the " + std::to_string(c.stages) + " stages");
  }
  const int batches = entry.integer("batches", 1, kMaxCount);
  if (batches % c.epochs != 0)
    entry.fail("drained_epochs", "does not divide the " + std::to_string(batches) + " batches");
  c.batches_per_epoch = batches / c.epochs;
  if (c.batches_per_epoch % c.accumulate != 0)
    entry.fail("accumulate", "does not divide the " + std::to_string(c.batches_per_epoch) + " batches of an epoch");
}

// A list of lists of numbers, one after the other.
std::vector<double> flattened(JsonReader list) {
  std::vector<double> numbers;
  for (const std::string& row : list.keys()) {
    const std::vector<double> more = list.numbers(row, -kMaxNumber, kMaxNumber);
    numbers.insert(numbers.end(), more.begin(), more.end());
  }
  return numbers;
}

// Of one weight and one bias a stage.
void read_scalar_model(JsonReader& file, int batches, WeightCase& c) {
  c.linear.assign(c.stages, {});
  c.x = read_rows(file, "x", batches, c.samples_per_batch);
  c.target = read_rows(file, "target", batches, c.samples_per_batch);
  const std::vector<double> weights = read_numbers(file, "a0", c.stages);
  const std::vector<double> biases = read_numbers(file, "b0", c.stages);
  for (int k = 0; k < c.stages; ++k) c.initial.push_back({weights[k], biases[k]});
}

// Of a matrix a stage, whose shapes the case states: [[[out, in], [out]], ...].
void read_matrix_model(JsonReader model, JsonReader& entry, int batches, WeightCase& c) {
  JsonReader shapes = entry.list("shapes");
  if (shapes.size() != c.stages) entry.fail("shapes", "must have an entry for each stage");
  for (const std::string& stage : shapes.keys()) {
    JsonReader shape = shapes.list(stage).list("0");
    c.linear.push_back({.in = shape.integer<std::int64_t>("1", 1, 64), .out = shape.integer<std::int64_t>("0", 1, 64)});
  }
  const std::string stages = std::to_string(c.stages);
  JsonReader all_weights = model.object("W0"), all_biases = model.object("b0");
  JsonReader weights = all_weights.list(stages), biases = all_biases.list(stages);
  for (int k = 0; k < c.stages; ++k) {
    const WeightCase::Linear& linear = c.linear[k];
    std::vector<double> initial = flattened(weights.list(std::to_string(k)));
    const std::vector<double> bias = biases.numbers(std::to_string(k), -kMaxNumber, kMaxNumber);
    initial.insert(initial.end(), bias.begin(), bias.end());
    if (std::ssize(initial) != (linear.in + 1) * linear.out)
      entry.fail("shapes", "stage " + std::to_string(k) + " has other shapes in W0 and b0");
    c.initial.push_back(std::move(initial));
  }
  c.samples_per_batch = 4;
  const auto read = [&](const char* key, std::int64_t features) {
    WeightCase::Matrix rows;
    JsonReader list = model.list(key);
    for (const std::string& batch : list.keys()) rows.push_back(flattened(list.list(batch)));
    const auto wanted = static_cast<std::size_t>(c.samples_per_batch) * features;
    if (std::ssize(rows) < batches || std::ranges::any_of(rows, [&](const auto& row) { return row.size() != wanted; }))
      model.fail(key, "must hold " + std::to_string(batches) + " batches of " + std::to_string(wanted) + " numbers");
    return rows;
  };
  c.x = read("x", c.linear.front().in);
  c.target = read("target", c.linear.back().out);
}

// Everything that the replay reads is there, so that a bad file is an error of the file and not of a rank.
void read_numbers_of_case(JsonReader& file, JsonReader& entry, WeightCase& c) {
  const int batches = c.batches_per_epoch * c.epochs;
  if (entry.text("model", "scalar") == "matrix") {
    read_matrix_model(file.object("matrix"), entry, batches, c);
  } else {
    read_scalar_model(file, batches, c);
  }
  c.tolerance = entry.number_or("tolerance", 0, 0, 1);
  c.losses = read_numbers(entry, "losses", batches);
  if (entry.has("lr_by_epoch")) c.rate_by_epoch = read_numbers(entry, "lr_by_epoch", c.epochs);
  JsonReader expected = entry.list("weights");
  if (expected.size() != c.stages)
    entry.fail("weights", "must have an entry for each of the " + std::to_string(c.stages) + " stages");
  for (int k = 0; k < c.stages; ++k)
    c.weights.push_back(read_rows(expected, std::to_string(k), 1, c.initial[k].size()));
  if (!entry.has("versions")) return;
  JsonReader versions = entry.object("versions");
  for (int k = 0; k < c.stages; ++k) {
    const std::string stage = "stage" + std::to_string(k);
    c.reads.push_back({read_versions(versions.object(stage), "F"), read_versions(versions.object(stage), "B")});
  }
}

}  // namespace

WeightCase read_weight_case(JsonReader& file, JsonReader& entry) {
  WeightCase c;
  c.name = entry.text("name");
  c.published_system = entry.text("system");
  const auto replay = replays().find(c.published_system);
  if (replay == replays().end()) return c;
  c.system = &find_system(replay->second.system, "verify");
  std::map<std::string, std::string> options = replay->second.options;
  if (entry.has("options")) options = options_of(replay->second, entry.object("options"));
  read_optimizer(entry.object("optimizer_config"), entry.has("model"), c, options);
  c.options = resolve_options(c.system->options, options, entry.where("options"));
  read_lengths(entry, c);
  read_numbers_of_case(file, entry, c);
  return c;
}

}  // namespace sluice
