#include "harness/run/verify.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/base/error.h"
#include "harness/base/json_reader.h"
#include "harness/case/real_executor.h"
#include "harness/pipeline/system.h"

namespace sluice {

namespace {

constexpr std::int64_t kSamples = 2;  // of one batch

// Which of our systems replays a case's system, and how many micro-batches one update of it has.
struct Replay {
  std::string system;
  std::map<std::string, std::string> options;
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
      {"pipeoptim", {"pipeoptim", {}}},
      {"pipemare", {"pipemare", {}}},
      {"xpipe", {"xpipe", {}}},
  };
  return table;
}

// A case's options in our systems' terms.
void translate_options(JsonReader options, const std::string& system, std::map<std::string, std::string>& ours) {
  if (options.boolean("clip_s", false)) ours["clip_s"] = "yes";
  if (const auto extra = options.integer("s_extra", 0, 0); extra != 0) {
    if (extra != 1) options.fail("s_extra", "must be 0 or 1");
    ours["s"] = "code";
  }
  const std::string forward = options.text("delta_f", "state"), backward = options.text("delta_b", "state");
  if (forward == "code_fwd" && (system == "pipeoptim" || backward == "code_bwd"))
    ours["delta"] = "code";
  else if (forward != "state" || backward != "state")
    options.fail("delta_f", "no system here predicts with " + forward + " and " + backward);
  if (options.has("anneal")) ours["anneal"] = std::to_string(options.integer("anneal", 0));
  if (!options.boolean("t2", true)) ours["t2"] = "no";
  options.no_other_keys();
}

using Matrix = std::vector<std::vector<double>>;

// K stages of tanh(a h + b), the last without tanh: Linear(1, 1) layers.
ModelGraph scalar_chain(int stages) {
  ModelGraph model{.name = "scalar chain", .inputs = {{.shape = {1}}}, .layers = {}};
  for (int k = 0; k < stages; ++k) {
    const int before = static_cast<int>(model.layers.size()) - 1;
    model.layers.push_back(
        {.name = "affine" + std::to_string(k), .kind = Linear{1, 1}, .inputs = {before < 0 ? -1 : before}});
    if (k + 1 < stages)
      model.layers.push_back({.name = "tanh" + std::to_string(k),
                              .kind = Activation{Activation::Kind::tanh},
                              .inputs = {static_cast<int>(model.layers.size()) - 1}});
  }
  model.layers.push_back({.name = "loss", .kind = MseLoss{}, .inputs = {static_cast<int>(model.layers.size()) - 1}});
  return model;
}

Plan stage_a_rank(int stages) {
  Plan plan{.micro_batch = kSamples};
  for (int k = 0; k < stages; ++k) plan.stages.push_back({.layers = {2 * k, 2 * k + 1}, .devices = {DeviceId(k)}});
  return plan;
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

// The versions a case lists must be the ones the program reads: [batch (from 1 over the case),
// version, s].
std::string compare_versions(const nlohmann::json& versions, const Program& program, int epoch, int batches) {
  for (std::size_t k = 0; k < program.ranks.size(); ++k)
    for (const Instruction& i : program.ranks[k]) {
      if (i.opcode != Opcode::forward && i.opcode != Opcode::backward) continue;
      const auto& list = versions.at("stage" + std::to_string(k)).at(i.opcode == Opcode::forward ? "F" : "B");
      const std::int64_t batch = static_cast<std::int64_t>(epoch) * batches + i.micro.value + 1;
      const std::int64_t ours = i.version + static_cast<std::int64_t>(epoch) * program.updates;
      const auto entry = std::ranges::find_if(list, [&](const auto& e) { return e.at(0) == batch; });
      if (entry == list.end() || entry->at(1) != std::max<std::int64_t>(ours, 0) || entry->at(2) != i.horizon)
        return to_text(i) + ": batch " + std::to_string(batch) + " reads version " + std::to_string(ours) + " and " +
               std::to_string(i.horizon) + " ahead, expected " + (entry == list.end() ? "none" : entry->dump());
    }
  return "";
}

class CaseReplay {
 public:
  CaseReplay(const nlohmann::json& file, JsonReader& reader, double tolerance)
      : file_(file), case_(reader), tolerance_(tolerance) {}

  VerifyResult run() {
    result_.name = case_.text("name");
    const std::string system = case_.text("system");
    if (!replays().contains(system)) {
      result_.verdict = VerifyResult::Verdict::unsupported;
      result_.detail = "no system here follows '" + system + "' yet";
      return result_;
    }
    const Replay& replay = replays().at(system);
    const System& ours = find_system(replay.system, "verify");
    std::map<std::string, std::string> given = replay.options;
    if (case_.has("options")) translate_options(case_.object("options"), system, given);
    const Options options = resolve_options(ours.options, given, case_.where("options"));
    const int stages = static_cast<int>(case_.integer("stages", 1));
    const int batches = static_cast<int>(case_.integer("batches", 1));
    const int accumulate = static_cast<int>(case_.integer("accumulate", 1, 1));
    const int epochs = static_cast<int>(case_.integer("drained_epochs", 1, 1));
    const int in_epoch = batches / epochs;
    const int micros = ours.synchronous ? accumulate : in_epoch;
    check_format(static_cast<std::size_t>(stages), batches, epochs);
    if (in_epoch % micros != 0)
      case_.fail("accumulate", "does not divide the " + std::to_string(in_epoch) + " batches of an epoch");
    const ScheduleProblem order{chain(stages), one_stage_per_rank(stages), stages, micros, {}, Seconds(0), accumulate};
    const Program program =
        lower(ours.schedule(order, options), order.graph, order.placement, ours.weights(order, options));

    const OptimizerSpec optimizer = optimizer_of(case_.object("optimizer_config"));
    const auto session = real_executor::session(session_spec(stages, optimizer));
    Matrix losses;
    std::vector<Matrix> weights(static_cast<std::size_t>(stages));
    for (std::size_t k = 0; k < weights.size(); ++k) weights[k].push_back(initial(k));
    for (int epoch = 0; epoch < epochs; ++epoch) {
      RunRequest request;
      for (std::int64_t s = 0; s < in_epoch * kSamples; ++s) request.order.push_back(epoch * in_epoch * kSamples + s);
      request.iterations = in_epoch / (ours.synchronous ? micros : in_epoch);
      request.keep_weights = true;
      if (case_.has("lr_by_epoch")) {
        const double rate = case_.raw("lr_by_epoch").at(static_cast<std::size_t>(epoch)).get<double>();
        request.learning_rate = [rate](std::int64_t) { return rate; };
      }
      const RunResult run = session->run(program, request);
      if (run.execution.diverged) {
        result_.verdict = VerifyResult::Verdict::mismatch;
        result_.detail = "the loss of update " + std::to_string(*run.execution.diverged) + " of epoch " +
                         std::to_string(epoch) + " is not finite";
        return result_;
      }
      losses.push_back(run.losses);
      for (std::size_t k = 0; k < weights.size(); ++k)
        weights[k].insert(weights[k].end(), run.weights[k].begin(), run.weights[k].end());
      if (case_.has("versions") && result_.detail.empty()) {
        result_.detail = compare_versions(case_.raw("versions"), program, epoch, in_epoch);
        if (!result_.detail.empty()) result_.verdict = VerifyResult::Verdict::mismatch;
      }
    }
    compare_weights(weights);
    compare_losses(losses, accumulate);
    return result_;
  }

 private:
  // At least `rows` rows of numbers, each of exactly `width`.
  void expect_rows(const std::string& key, const nlohmann::json& value, std::size_t rows, std::size_t width) const {
    const auto matrix = value.get<Matrix>();
    if (matrix.size() < rows || std::ranges::any_of(matrix, [&](const auto& row) { return row.size() != width; }))
      case_.fail(key, "must hold " + std::to_string(rows) + " rows of " + std::to_string(width) + " numbers");
  }
  void expect_numbers(const std::string& key, const nlohmann::json& value, std::size_t count) const {
    if (value.get<std::vector<double>>().size() < count)
      case_.fail(key, "must hold " + std::to_string(count) + " numbers");
  }
  // Everything the replay indexes is there, so that a bad file is an error of the file and not of a
  // rank.
  void check_format(std::size_t stages, int batches, int epochs) {
    if (batches % epochs != 0)
      case_.fail("drained_epochs", "does not divide the " + std::to_string(batches) + " batches");
    const auto rows = static_cast<std::size_t>(batches);
    expect_rows("x", file_.at("x"), rows, kSamples);
    expect_rows("target", file_.at("target"), rows, kSamples);
    expect_numbers("a0", file_.at("a0"), stages);
    expect_numbers("b0", file_.at("b0"), stages);
    expect_numbers("losses", case_.raw("losses"), rows);
    if (case_.has("lr_by_epoch"))
      expect_numbers("lr_by_epoch", case_.raw("lr_by_epoch"), static_cast<std::size_t>(epochs));
    const nlohmann::json& weights = case_.raw("weights");
    if (!weights.is_array() || weights.size() != stages)
      case_.fail("weights", "must have an entry for each of the " + std::to_string(stages) + " stages");
    for (const auto& stage : weights) expect_rows("weights", stage, 1, 2);
  }

  std::vector<double> initial(std::size_t k) const {
    return {file_["a0"][k].get<double>(), file_["b0"][k].get<double>()};
  }

  SessionSpec session_spec(int stages, const OptimizerSpec& optimizer) const {
    SessionSpec spec;
    spec.model = scalar_chain(stages);
    spec.plan = stage_a_rank(stages);
    spec.optimizer = optimizer;
    spec.micro_batch = kSamples;
    spec.double_precision = true;
    spec.loss_scale = 0.5;  // the case's loss is half the squared error over 2 samples; MseLoss is the mean
    spec.initial.emplace(spec.model.layers.size());
    for (std::size_t k = 0; k < static_cast<std::size_t>(stages); ++k)
      (*spec.initial)[2 * k] = {{initial(k)[0]}, {initial(k)[1]}};
    const Matrix x = file_["x"].get<Matrix>(), target = file_["target"].get<Matrix>();
    const auto pick = [](const Matrix& values, std::span<const std::int64_t> indices, double* out) {
      for (const std::int64_t i : indices)
        *out++ = values.at(static_cast<std::size_t>(i / kSamples)).at(static_cast<std::size_t>(i % kSamples));
    };
    DataFeed feed;
    feed.train_samples = static_cast<std::int64_t>(x.size()) * kSamples;
    feed.features_double = [=](bool, std::span<const std::int64_t> i, double* out) { pick(x, i, out); };
    feed.values = [=](bool, std::span<const std::int64_t> i, double* out) { pick(target, i, out); };
    spec.feed = feed;
    return spec;
  }

  void note(double ours, double expected, const std::string& what) {
    const double error = std::abs(ours - expected);
    result_.largest_error = std::max(result_.largest_error, error);
    if (!(error <= tolerance_) && result_.verdict == VerifyResult::Verdict::pass) {
      result_.verdict = VerifyResult::Verdict::mismatch;
      result_.detail = what + " is " + nlohmann::json(ours).dump() + ", expected " + nlohmann::json(expected).dump();
    }
  }

  void compare_weights(const std::vector<Matrix>& ours) {
    const auto expected = case_.raw("weights").get<std::vector<Matrix>>();
    for (std::size_t k = 0; k < expected.size(); ++k) {
      if (ours[k].size() != expected[k].size()) {
        result_.verdict = VerifyResult::Verdict::mismatch;
        result_.detail = "stage " + std::to_string(k) + " made " + std::to_string(ours[k].size() - 1) +
                         " updates, expected " + std::to_string(expected[k].size() - 1);
        return;
      }
      for (std::size_t u = 0; u < expected[k].size(); ++u)
        for (std::size_t e = 0; e < 2; ++e)
          note(ours[k][u][e], expected[k][u][e],
               std::string(e == 0 ? "weight" : "bias") + " of stage " + std::to_string(k) + " after update " +
                   std::to_string(u));
    }
  }

  void compare_losses(const Matrix& ours, int accumulate) {
    const auto expected = case_.raw("losses").get<std::vector<double>>();
    std::size_t batch = 0;
    for (const auto& epoch : ours)
      for (std::size_t u = 0; u < epoch.size(); ++u) {
        double mean = 0;
        for (int i = 0; i < accumulate; ++i) mean += expected.at(batch++) / accumulate;
        note(epoch[u], mean, "loss of update " + std::to_string(u));
      }
  }

  const nlohmann::json& file_;
  JsonReader& case_;
  double tolerance_;
  VerifyResult result_;
};

bool wanted(const std::string& name, const std::vector<std::string>& only) {
  if (only.empty()) return true;
  return std::ranges::any_of(only, [&](const std::string& pattern) {
    return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
  });
}

}  // namespace

std::vector<VerifyResult> verify(const nlohmann::json& cases, const std::string& file, double tolerance,
                                 const std::vector<std::string>& only) {
  JsonReader reader(cases, file);
  for (const char* key : {"a0", "b0", "x", "target", "cases"})
    if (!reader.raw(key).is_array()) reader.fail(key, "must be an array", "give a file of weight-version cases");
  std::vector<VerifyResult> results;
  for (JsonReader& c : reader.objects("cases")) {
    if (!wanted(c.text("name"), only)) continue;
    try {
      results.push_back(CaseReplay(cases, c, tolerance).run());
    } catch (const nlohmann::json::exception& e) {
      throw InputError(c.where(""), std::string("is not a weight-version case: ") + e.what());
    }
  }
  if (results.empty()) throw InputError(file, "no case matches", "see --only");
  return results;
}

}  // namespace sluice
