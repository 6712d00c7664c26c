#include "harness/run/verify.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <span>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/run/weight_case.h"

namespace sluice {

namespace {

using Matrix = WeightCase::Matrix;

// The cases' model as ours: every stage is tanh(h W^T + b), the last one h W^T + b.
ModelGraph linear_chain(const WeightCase& c) {
  ModelGraph model{.name = "linear chain", .inputs = {{.shape = {c.linear.front().in}}}, .layers = {}};
  for (int k = 0; k < c.stages; ++k) {
    const int before = static_cast<int>(model.layers.size()) - 1;
    const WeightCase::Linear& linear = c.linear[k];
    model.layers.push_back({.name = "affine" + std::to_string(k),
                            .kind = Linear{linear.in, linear.out},
                            .inputs = {before < 0 ? -1 : before}});
    if (k + 1 < c.stages)
      model.layers.push_back({.name = "tanh" + std::to_string(k),
                              .kind = Activation{Activation::Kind::tanh},
                              .inputs = {static_cast<int>(model.layers.size()) - 1}});
  }
  model.layers.push_back({.name = "loss", .kind = MseLoss{}, .inputs = {static_cast<int>(model.layers.size()) - 1}});
  return model;
}

// Stage k on rank k; the ranks that only run weight gradients come after them.
Plan one_stage_a_rank(const WeightCase& c) {
  Plan plan{.micro_batch = c.samples_per_batch};
  std::set<DeviceId> devices;
  for (int k = 0; k < c.stages; ++k) {
    PlanStage& stage = plan.stages.emplace_back();
    stage.layers = {2 * k, 2 * k + 1};
    stage.devices = {DeviceId(k)};
    devices.insert(DeviceId(k));
    if (c.weight_gradient_devices.empty() || c.weight_gradient_devices[k] == k) continue;
    stage.weight_gradient_device = DeviceId(c.weight_gradient_devices[k]);
    devices.insert(*stage.weight_gradient_device);
  }
  plan.rank_order.assign(devices.begin(), devices.end());
  return plan;
}

DataFeed feed_of(const WeightCase& c) {
  const auto pick = [samples = c.samples_per_batch](const Matrix& values, std::span<const std::int64_t> indices,
                                                    double* out) {
    for (const std::int64_t i : indices) {
      const std::vector<double>& batch = values.at(i / samples);
      const std::int64_t features = std::ssize(batch) / samples, first = i % samples * features;
      out = std::copy_n(batch.begin() + first, features, out);
    }
  };
  DataFeed feed;
  feed.train_samples = std::ssize(c.x) * c.samples_per_batch;
  feed.features_double = [=, x = c.x](bool, std::span<const std::int64_t> i, double* out) { pick(x, i, out); };
  feed.values = [=, target = c.target](bool, std::span<const std::int64_t> i, double* out) { pick(target, i, out); };
  return feed;
}

SessionSpec session_spec(const WeightCase& c) {
  SessionSpec spec;
  spec.model = linear_chain(c);
  spec.plan = one_stage_a_rank(c);
  spec.optimizer = c.optimizer;
  spec.micro_batch = c.samples_per_batch;
  spec.double_precision = true;
  // The case's loss is half the squared error over the samples; MseLoss is the mean over samples and features.
  spec.loss_scale = 0.5 * static_cast<double>(c.linear.back().out);
  spec.initial.emplace(spec.model.layers.size());
  for (std::size_t k = 0; k < c.initial.size(); ++k) {
    const auto biases = c.initial[k].end() - c.linear[k].out;
    (*spec.initial)[2 * k] = {{c.initial[k].begin(), biases}, {biases, c.initial[k].end()}};
  }
  spec.feed = feed_of(c);
  return spec;
}

Program program_of(const WeightCase& c) {
  const Placement placement = ranks_of(one_stage_a_rank(c)).placement;
  const ScheduleProblem problem{chain(c.stages), placement,   placement.rank_count(), c.microbatches_of_program(), {},
                                Seconds(0),      c.accumulate};
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
  CaseReplay(const WeightCase& c, double tolerance) : case_(c), tolerance_(c.tolerance > 0 ? c.tolerance : tolerance) {
    result_.name = c.name;
  }

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
    const std::int64_t samples = std::int64_t{batches} * case_.samples_per_batch;
    for (std::int64_t s = 0; s < samples; ++s) request.order.push_back(epoch * samples + s);
    request.iterations = batches / case_.microbatches_of_program();
    request.keep_weights = true;
    if (!case_.rate_by_epoch.empty())
      request.learning_rate = [rate = case_.rate_by_epoch[epoch]](std::int64_t) { return rate; };
    return request;
  }

  // Epoch by epoch, with the versions of each compared. Nothing if a loss is not finite.
  Trained train(const Program& program) {
    const std::unique_ptr<Session> session = make_session(session_spec(case_));
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
      if (!case_.reads.empty()) compare_versions(program, epoch);
    }
    return trained;
  }

  // The versions that the case lists must be the ones that the program reads.
  void compare_versions(const Program& program, int epoch) {
    for (std::size_t k = 0; k < program.ranks.size(); ++k)
      for (const Instruction& i : program.ranks[k])
        if (is_scheduled(i.opcode) && reads_weights(i.opcode))
          compare_version(i, case_.reads.at(i.stage.index()), program.updates, epoch);
  }

  void compare_version(const Instruction& i, const WeightCase::StageReads& reads, int updates_per_epoch, int epoch) {
    const auto& list = i.opcode == Opcode::forward ? reads.forward : reads.backward;
    const std::int64_t batch = static_cast<std::int64_t>(epoch) * case_.batches_per_epoch + i.micro.value + 1;
    const std::int64_t version = i.version + static_cast<std::int64_t>(epoch) * updates_per_epoch;
    const auto entry = std::ranges::find(list, batch, &WeightCase::VersionRead::batch);
    const bool listed = entry != list.end();
    if (listed && entry->version == std::max<std::int64_t>(version, 0) && entry->horizon == i.horizon) return;
    mismatch(
        to_text(i) + ": batch " + std::to_string(batch) + " reads version " + std::to_string(version) +
        " with prediction horizon " + std::to_string(i.horizon) + ", expected " +
        (listed ? "version " + std::to_string(entry->version) + " with " + std::to_string(entry->horizon) : "none"));
  }

  void compare(double ours, double expected, const std::string& what) {
    const double error = std::abs(ours - expected);
    result_.largest_error = std::max(result_.largest_error, error);
    if (!(error <= tolerance_)) mismatch(what + " is " + Json(ours).dump() + ", expected " + Json(expected).dump());
  }

  std::string parameter_name(std::size_t stage, std::size_t e) const {
    const std::size_t biases = static_cast<std::size_t>(case_.linear[stage].out);
    const std::size_t weights = case_.initial[stage].size() - biases;
    const bool bias = e >= weights;
    const std::string name = bias ? "bias" : "weight";
    return (bias ? biases : weights) == 1 ? name : name + " " + std::to_string(bias ? e - weights : e);
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
        for (std::size_t e = 0; e < expected[k][u].size(); ++e)
          compare(ours[k][u][e], expected[k][u][e],
                  parameter_name(k, e) + " of stage " + std::to_string(k) + " after update " + std::to_string(u));
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

}  // namespace

std::vector<VerifyResult> verify(const Json& cases, const std::string& file, double tolerance,
                                 const std::vector<std::string>& only) {
  JsonReader reader(cases, file);
  for (const char* key : {"a0", "b0", "x", "target", "cases"})
    if (!reader.has(key) || !reader.raw(key).is_array())
      reader.fail(key, "must be an array", "give a file of weight-version cases");
  std::vector<VerifyResult> results;
  for (JsonReader& entry : reader.objects("cases"))
    if (is_wanted(entry.text("name"), only))
      results.push_back(CaseReplay(read_weight_case(reader, entry), tolerance).run());
  if (results.empty()) throw InputError(file, "no case matches", "see --only");
  return results;
}

}  // namespace sluice
