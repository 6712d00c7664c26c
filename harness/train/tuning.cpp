#include "harness/train/tuning.h"

#include <optional>
#include <stdexcept>

#include "results/metrics.h"

namespace sluice {

static const TuneSpec& tune_of(const RunCase& c) {
  if (!c.tune) throw std::logic_error("the case's learning rate is given");
  return *c.tune;
}

std::vector<RunCase> tuning_cases(const RunCase& c) {
  const TuneSpec& tune = tune_of(c);
  std::vector<RunCase> candidates;
  for (const double rate : tune.learning_rates) {
    RunCase candidate = c;
    candidate.purpose = Purpose::tune;
    candidate.seed = tune.seed;
    candidate.epochs = tune.epochs;
    candidate.steps = tune.steps;
    candidate.evaluations_per_epoch = 1;
    candidate.optimizer.learning_rate = rate;
    candidate.tune.reset();
    candidates.push_back(candidate);
  }
  return candidates;
}

// How good a candidate is; more is better. none: it does not count.
static std::optional<double> score(const Record& record, bool by_loss) {
  if (record.outcome != RecordOutcome::ok) return std::nullopt;
  if (by_loss) {
    const auto loss = closing_loss(record);
    return loss ? std::optional(-*loss) : std::nullopt;
  }
  const auto value = final_metric(record);
  if (!value) return std::nullopt;
  return lower_is_better(record) ? -*value : *value;
}

Tuning choose_learning_rate(const RunCase& c, std::span<const Record> candidates) {
  const TuneSpec& tune = tune_of(c);
  bool by_loss = true;
  for (const Record& record : candidates) by_loss &= !final_metric(record).has_value();
  const std::vector<double>& grid = tune.learning_rates;
  std::optional<std::size_t> best, diverged;
  std::optional<double> best_score;
  Tuning tuning{.grid = grid,
                .criterion = by_loss ? "training loss" : metric_name(candidates.front()) + " on the validation part",
                .seed = tune.seed,
                .results = {}};
  for (std::size_t k = 0; k < grid.size(); ++k) {
    const Record& record = candidates[k];
    const auto own = score(record, by_loss);
    if (own && (!best_score || *own > *best_score)) best = k, best_score = own;
    if (record.outcome == RecordOutcome::diverged && !diverged) diverged = k;
    tuning.results.push_back({.learning_rate = grid[k], .outcome = record.outcome, .digest = record.digest});
    if (own) tuning.results.back().value = by_loss ? closing_loss(record) : final_metric(record);
  }
  tuning.chosen = grid[best.value_or(diverged.value_or(0))];
  (tune.epochs > 0 ? tuning.epochs : tuning.steps) = tune.epochs > 0 ? tune.epochs : tune.steps;
  return tuning;
}

RunCase with_chosen_rate(RunCase c, const Tuning& tuning) {
  c.optimizer.learning_rate = tuning.chosen;
  return c;
}

}  // namespace sluice
