#include "harness/run/verify.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "harness/base/error.h"
#include "harness/case/real_executor.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/run/weight_case.h"

namespace sluice {

namespace {

using Matrix = WeightCase::Matrix;

// The cases' model as ours: every stage is tanh(a h + b), the last one a h + b, of Linear(1, 1) layers.
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

Plan one_stage_a_rank(int stages) {
  Plan plan{.micro_batch = kSamplesPerBatch};
  for (int k = 0; k < stages; ++k) plan.stages.push_back({.layers = {2 * k, 2 * k + 1}, .devices = {DeviceId(k)}});
  return plan;
}

DataFeed feed_of(const WeightCase& c) {
  const auto pick = [](const Matrix& values, std::span<const std::int64_t> indices, double* out) {
    for (const std::int64_t i : indices)
      *out++ =
          values.at(static_cast<std::size_t>(i / kSamplesPerBatch)).at(static_cast<std::size_t>(i % kSamplesPerBatch));
  };
  DataFeed feed;
  feed.train_samples = static_cast<std::int64_t>(c.x.size()) * kSamplesPerBatch;
  feed.features_double = [=, x = c.x](bool, std::span<const std::int64_t> i, double* out) { pick(x, i, out); };
  feed.values = [=, target = c.target](bool, std::span<const std::int64_t> i, double* out) { pick(target, i, out); };
  return feed;
}

SessionSpec session_spec(const WeightCase& c) {
  SessionSpec spec;
  spec.model = scalar_chain(c.stages);
  spec.plan = one_stage_a_rank(c.stages);
  spec.optimizer = c.optimizer;
  spec.micro_batch = kSamplesPerBatch;
  spec.double_precision = true;
  spec.loss_scale = 0.5;  // the case's loss is half the squared error over 2 samples; MseLoss is the mean
  spec.initial.emplace(spec.model.layers.size());
  for (std::size_t k = 0; k < c.initial.size(); ++k) (*spec.initial)[2 * k] = {{c.initial[k][0]}, {c.initial[k][1]}};
  spec.feed = feed_of(c);
  return spec;
}

Program program_of(const WeightCase& c) {
  const ScheduleProblem problem{
      chain(c.stages), one_stage_per_rank(c.stages), c.stages, c.microbatches_of_program(), {}, Seconds(0),
      c.accumulate};
  return checked(lower(c.system->schedule(problem, c.options), problem.graph, problem.placement,
                       c.system->weights(problem, c.options)));
}

// What training made of a case.
struct Trained {
  std::vector<Matrix> weights;  // as WeightCase::weights
  Matrix losses;                // [epoch][update]
};

class CaseReplay {
 public:
  CaseReplay(const WeightCase& c, double tolerance) : case_(c), tolerance_(tolerance) { result_.name = c.name; }

  VerifyResult run() {
    if (!case_.system) {
      result_.verdict = VerifyResult::Verdict::unsupported;
      result_.detail = "no system here follows '" + case_.published_system + "' yet";
      return result_;
    }
    const Program program = program_of(case_);
    const Trained trained = train(program);
    if (!trained.losses.empty()) {
      compare_weights(trained.weights);
      compare_losses(trained.losses);
    }
    return result_;
  }

 private:
  // Keeps the first mismatch.
  void mismatch(const std::string& detail) {
    if (result_.verdict != VerifyResult::Verdict::pass) return;
    result_.verdict = VerifyResult::Verdict::mismatch;
    result_.detail = detail;
  }

  RunRequest request_for(int epoch) const {
    const int batches = case_.batches_per_epoch;
    RunRequest request;
    for (std::int64_t s = 0; s < batches * kSamplesPerBatch; ++s)
      request.order.push_back(epoch * batches * kSamplesPerBatch + s);
    request.iterations = batches / case_.microbatches_of_program();
    request.keep_weights = true;
    if (!case_.rate_by_epoch.empty())
      request.learning_rate = [rate = case_.rate_by_epoch[static_cast<std::size_t>(epoch)]](std::int64_t) {
        return rate;
      };
    return request;
  }

  // Epoch by epoch, with the versions of each compared. Nothing if a loss is not finite.
  Trained train(const Program& program) {
    const std::unique_ptr<Session> session = real_executor::session(session_spec(case_));
    Trained trained;
    for (const std::vector<double>& initial : case_.initial) trained.weights.push_back({initial});
    for (int epoch = 0; epoch < case_.epochs; ++epoch) {
      const RunResult run = session->run(program, request_for(epoch));
      if (run.execution.diverged) {
        result_.verdict = VerifyResult::Verdict::mismatch;
        result_.detail = "the loss of update " + std::to_string(*run.execution.diverged) + " of epoch " +
                         std::to_string(epoch) + " is not finite";
        return {};
      }
      trained.losses.push_back(run.losses);
      for (std::size_t k = 0; k < trained.weights.size(); ++k)
        trained.weights[k].insert(trained.weights[k].end(), run.weights[k].begin(), run.weights[k].end());
      if (!case_.versions.is_null()) compare_versions(program, epoch);
    }
    return trained;
  }

  // The versions that the case lists must be the ones that the program reads.
  void compare_versions(const Program& program, int epoch) {
    for (std::size_t k = 0; k < program.ranks.size(); ++k)
      for (const Instruction& i : program.ranks[k])
        if (i.opcode == Opcode::forward || i.opcode == Opcode::backward)
          compare_version(i, case_.versions.at("stage" + std::to_string(k)), program.updates, epoch);
  }

  void compare_version(const Instruction& i, const nlohmann::json& stage, int updates_per_epoch, int epoch) {
    const nlohmann::json& list = stage.at(i.opcode == Opcode::forward ? "F" : "B");
    const std::int64_t batch = static_cast<std::int64_t>(epoch) * case_.batches_per_epoch + i.micro.value + 1;
    const std::int64_t version = i.version + static_cast<std::int64_t>(epoch) * updates_per_epoch;
    const auto entry = std::ranges::find_if(list, [&](const auto& e) { return e.at(0) == batch; });
    const bool listed = entry != list.end();
    if (listed && entry->at(1) == std::max<std::int64_t>(version, 0) && entry->at(2) == i.horizon) return;
    mismatch(to_text(i) + ": batch " + std::to_string(batch) + " reads version " + std::to_string(version) +
             " with prediction horizon " + std::to_string(i.horizon) + ", expected " +
             (listed ? entry->dump() : "none"));
  }

  void compare(double ours, double expected, const std::string& what) {
    const double error = std::abs(ours - expected);
    result_.largest_error = std::max(result_.largest_error, error);
    if (!(error <= tolerance_))
      mismatch(what + " is " + nlohmann::json(ours).dump() + ", expected " + nlohmann::json(expected).dump());
  }

  void compare_weights(const std::vector<Matrix>& ours) {
    const std::vector<Matrix>& expected = case_.weights;
    for (std::size_t k = 0; k < expected.size(); ++k) {
      if (ours[k].size() != expected[k].size()) {
        result_.verdict = VerifyResult::Verdict::mismatch;
        result_.detail = "stage " + std::to_string(k) + " made " + std::to_string(ours[k].size() - 1) +
                         " updates, expected " + std::to_string(expected[k].size() - 1);
        return;
      }
      for (std::size_t u = 0; u < expected[k].size(); ++u)
        for (std::size_t e = 0; e < 2; ++e)
          compare(ours[k][u][e], expected[k][u][e],
                  std::string(e == 0 ? "weight" : "bias") + " of stage " + std::to_string(k) + " after update " +
                      std::to_string(u));
    }
  }

  // Our loss of an update is the mean over its batches.
  void compare_losses(const Matrix& ours) {
    std::size_t batch = 0;
    for (const auto& epoch : ours)
      for (std::size_t u = 0; u < epoch.size(); ++u) {
        double mean = 0;
        for (int i = 0; i < case_.accumulate; ++i) mean += case_.losses.at(batch++) / case_.accumulate;
        compare(epoch[u], mean, "loss of update " + std::to_string(u));
      }
  }

  const WeightCase& case_;
  double tolerance_;
  VerifyResult result_;
};

bool is_wanted(const std::string& name, const std::vector<std::string>& only) {
  if (only.empty()) return true;
  return std::ranges::any_of(only, [&](const std::string& pattern) {
    return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
  });
}

VerifyResult verify_case(const nlohmann::json& file, JsonReader& entry, double tolerance) {
  try {
    return CaseReplay(read_weight_case(file, entry), tolerance).run();
  } catch (const nlohmann::json::exception& e) {
    throw InputError(entry.where(""), std::string("is not a weight-version case: ") + e.what());
  }
}

}  // namespace

std::vector<VerifyResult> verify(const nlohmann::json& cases, const std::string& file, double tolerance,
                                 const std::vector<std::string>& only) {
  JsonReader reader(cases, file);
  for (const char* key : {"a0", "b0", "x", "target", "cases"})
    if (!reader.raw(key).is_array()) reader.fail(key, "must be an array", "give a file of weight-version cases");
  std::vector<VerifyResult> results;
  for (JsonReader& entry : reader.objects("cases"))
    if (is_wanted(entry.text("name"), only)) results.push_back(verify_case(cases, entry, tolerance));
  if (results.empty()) throw InputError(file, "no case matches", "see --only");
  return results;
}

}  // namespace sluice
