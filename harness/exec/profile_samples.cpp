#include "harness/exec/profile_samples.h"

#include <algorithm>
#include <numeric>

namespace sluice {

double mean_of(const std::vector<double>& seconds) {
  if (seconds.empty()) return 0;
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double spread_of(std::vector<double> seconds) {
  if (seconds.size() < 4) return 0;
  std::ranges::sort(seconds);
  const std::size_t n = seconds.size();
  return seconds[n / 2] > 0 ? (seconds[3 * n / 4] - seconds[n / 4]) / 2 / seconds[n / 2] : 0;
}

namespace {

void add(PassSamples& pass, const ProbeSample& sample, double seconds) {
  pass.seconds.push_back(seconds);
  pass.peak = std::max(pass.peak, sample.peak);
  pass.left = sample.left;
}

// The samples within one op come before its own.
class OpReader {
 public:
  // unstashed: forwards keep their input only.
  OpReader(ChainSamples& sum, std::span<const int> layer_of_input, bool unstashed, const ProbeCost& cost)
      : sum_(sum), layer_of_input_(layer_of_input), unstashed_(unstashed), cost_(cost) {}

  void read(const ProbeSample& sample) {
    using Kind = ProbeSample::Kind;
    const double seconds = seconds_of(sample);
    switch (sample.kind) {
      case Kind::op:
        finish(sample, seconds);
        break;
      case Kind::step:
        add_waiting(Opcode::optimizer_step);
        sum_.step.push_back(std::max(seconds - inner_, 0.0));
        sum_.step_peak = std::max(sum_.step_peak, sample.peak);
        begin_op();
        break;
      case Kind::take:
      case Kind::put:
        (sample.kind == Kind::take ? sum_.send : sum_.receive).push_back(seconds);
        break;
      default:
        waiting_.push_back(sample);
    }
  }

 private:
  double seconds_of(const ProbeSample& sample) const { return std::max(sample.end - sample.start - cost_.within, 0.0); }

  void begin_op() {
    waiting_.clear();
    inner_ = 0;
  }

  void finish(const ProbeSample& op, double seconds) {
    add_waiting(op.opcode);
    const bool forward = op.opcode == Opcode::forward || op.opcode == Opcode::recompute;
    const bool backward = op.opcode == Opcode::backward || op.opcode == Opcode::input_gradient;
    const double rest = std::max(seconds - inner_, 0.0);
    if (forward) sum_.forward_rest.push_back(rest);
    if (backward) sum_.backward_rest.push_back(rest);
    if (op.opcode == Opcode::weight_gradient) sum_.weight_gradient_rest.push_back(rest);
    begin_op();
  }

  void add_waiting(Opcode opcode) {
    for (const ProbeSample& s : waiting_) add_inner(opcode, s);
  }

  void add_inner(Opcode opcode, const ProbeSample& s) {
    using Kind = ProbeSample::Kind;
    const double seconds = seconds_of(s);
    inner_ += seconds + cost_.whole;
    if (s.kind == Kind::clear) {
      sum_.clear.push_back(seconds);
      return;
    }
    const auto layer = static_cast<std::size_t>(s.layer < 0 ? layer_of_input_[-1 - s.layer] : s.layer);
    LayerSamples& of = sum_.layers[layer];
    switch (s.kind) {
      case Kind::load:
        sum_.load[layer].push_back(seconds);
        sum_.loaded[layer] = s.left;
        break;
      case Kind::forward:
        add(opcode == Opcode::forward && unstashed_ ? of.unstashed : of.forward, s, seconds);
        break;
      case Kind::input_gradient:
        add(of.input_gradient, s, seconds);
        break;
      case Kind::weight_gradient:
        add(of.weight_gradient, s, seconds / s.microbatches);
        break;
      default:
        break;
    }
  }

  ChainSamples& sum_;
  std::span<const int> layer_of_input_;
  std::vector<ProbeSample> waiting_;
  bool unstashed_;
  ProbeCost cost_;
  double inner_ = 0;  // seconds of what is waiting_, and of sampling it
};

struct UpdateSamples {
  std::span<const ProbeSample> samples;
  double seconds = 0;  // of its ops and its steps
};

// All updates but the first `skipped` ones.
std::vector<UpdateSamples> updates_of(std::span<const ProbeSample> rank, std::size_t skipped) {
  std::vector<UpdateSamples> updates;
  std::size_t first = 0, steps = 0;
  double seconds = 0;
  for (std::size_t k = 0; k < rank.size(); ++k) {
    const bool step = rank[k].kind == ProbeSample::Kind::step;
    if (step || rank[k].kind == ProbeSample::Kind::op) seconds += rank[k].end - rank[k].start;
    if (!step) continue;
    if (steps++ >= skipped) updates.push_back({rank.subspan(first, k + 1 - first), seconds});
    first = k + 1;
    seconds = 0;
  }
  if (steps == 0) updates.push_back({rank, seconds});
  return updates;
}

}  // namespace

void add_samples(ChainSamples& sum, std::span<const ProbeSample> rank, std::span<const int> layer_of_input,
                 std::size_t skipped_steps, const ProbeCost& cost) {
  const bool unstashed = std::ranges::any_of(
      rank, [](const ProbeSample& s) { return s.kind == ProbeSample::Kind::op && s.opcode == Opcode::recompute; });
  std::vector<UpdateSamples> updates = updates_of(rank, skipped_steps);
  std::ranges::stable_sort(updates, {}, &UpdateSamples::seconds);
  const std::size_t outside = updates.size() / 4;
  OpReader reader(sum, layer_of_input, unstashed, cost);
  for (std::size_t u = outside; u < updates.size() - outside; ++u)
    for (const ProbeSample& sample : updates[u].samples) reader.read(sample);
}

}  // namespace sluice
