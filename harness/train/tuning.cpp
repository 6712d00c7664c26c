#include "harness/train/tuning.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "harness/case/settings.h"
#include "results/metrics.h"

namespace sluice {

static const TuneSpec& tune_of(const RunCase& c) {
  if (!c.tune) throw std::logic_error("the case's learning rate is given");
  return *c.tune;
}

static std::vector<RunCase> cases_of(const RunCase& c, const TuneSpec::Round& round, std::span<const double> rates) {
  std::vector<RunCase> cases;
  for (const double rate : rates)
    for (const std::uint64_t seed : tune_of(c).seeds) {
      RunCase candidate = c;
      candidate.purpose = Purpose::tune;
      candidate.seed = seed;
      candidate.epochs = round.epochs;
      candidate.steps = round.steps;
      candidate.evaluations_per_epoch = 1;
      candidate.optimizer.learning_rate = rate;
      candidate.tune.reset();
      cases.push_back(candidate);
    }
  return cases;
}

RateSearch::RateSearch(const RunCase& tuned) : c_(tuned), rates_(tune_of(tuned).learning_rates) {
  const TuneSpec& tune = tune_of(tuned);
  tuning_.grid = tune.learning_rates;
  tuning_.seed = tune.seeds.front();
  if (tune.seeds.size() > 1) tuning_.seeds = tune.seeds;
  tuning_.epochs = tune.rounds.back().epochs;
  tuning_.steps = tune.rounds.back().steps;
  for (std::size_t k = 0; k + 1 < tune.rounds.size(); ++k) {
    const TuneSpec::Round& r = tune.rounds[k];
    tuning_.rounds.push_back({.epochs = r.epochs, .steps = r.steps, .keep = r.keep});
  }
}

bool RateSearch::over() const { return round_ == tune_of(c_).rounds.size(); }

const TuneSpec::Round& RateSearch::round() const { return tune_of(c_).rounds.at(round_); }

std::vector<RunCase> RateSearch::cases() const { return cases_of(c_, round(), rates_); }

// How good a training is; none: it does not count.
static std::optional<double> value_of(const Record& record, bool by_loss) {
  if (record.outcome != RecordOutcome::ok) return std::nullopt;
  return by_loss ? closing_loss(record) : final_metric(record);
}

// The mean over a rate's seeds; none: one of them does not count.
static std::optional<double> mean_value(std::span<const Record> seeds, bool by_loss) {
  double sum = 0;
  for (const Record& record : seeds) {
    const auto value = value_of(record, by_loss);
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum / static_cast<double>(seeds.size());
}

void RateSearch::end_round(std::span<const Record> records) {
  const std::size_t seeds = tune_of(c_).seeds.size();
  if (records.size() != rates_.size() * seeds) throw std::logic_error("a round of a search has other records");
  const bool by_loss = std::ranges::none_of(records, [](const Record& r) { return final_metric(r).has_value(); });
  const bool lower_first = by_loss || lower_is_better(records.front());
  std::vector<Tuning::Candidate> tried;
  for (std::size_t k = 0; k < rates_.size(); ++k) {
    const auto own = records.subspan(k * seeds, seeds);
    const auto worst = std::ranges::find_if(own, [](const Record& r) { return r.outcome != RecordOutcome::ok; });
    tried.push_back({.learning_rate = rates_[k],
                     .value = mean_value(own, by_loss),
                     .outcome = worst == own.end() ? RecordOutcome::ok : worst->outcome,
                     .digest = own.front().digest,
                     .round = static_cast<int>(round_)});
  }
  tuning_.results.insert(tuning_.results.end(), tried.begin(), tried.end());
  tuning_.criterion = by_loss ? "training loss" : metric_name(records.front()) + " on the validation part";

  const double fallback = [&] {
    for (const Tuning::Candidate& candidate : tried)
      if (candidate.outcome == RecordOutcome::diverged) return candidate.learning_rate;
    return rates_.front();
  }();
  std::erase_if(tried, [](const Tuning::Candidate& candidate) { return !candidate.value; });
  std::ranges::stable_sort(tried, [&](const Tuning::Candidate& a, const Tuning::Candidate& b) {
    return lower_first ? *a.value < *b.value : *a.value > *b.value;
  });
  tuning_.chosen = tried.empty() ? fallback : tried.front().learning_rate;
  rates_ = {tuning_.chosen};
  for (std::size_t k = 1; k < tried.size() && k < static_cast<std::size_t>(round().keep); ++k)
    rates_.push_back(tried[k].learning_rate);
  std::ranges::sort(rates_);
  ++round_;
}

std::vector<TuningCase> tuning_cases(const RunCase& tuned) {
  const TuneSpec& tune = tune_of(tuned);
  std::vector<TuningCase> all;
  for (std::size_t k = 0; k < tune.rounds.size(); ++k)
    for (RunCase& c : cases_of(tuned, tune.rounds[k], tune.learning_rates)) all.push_back({std::move(c), k});
  return all;
}

RunCase with_chosen_rate(RunCase c, const Tuning& tuning) {
  c.optimizer.learning_rate = tuning.chosen;
  return c;
}

std::vector<RunCase> shard(std::vector<RunCase> cases, const std::string& description) {
  const std::size_t slash = description.find('/');
  const std::string after = slash == std::string::npos ? "" : description.substr(slash + 1);
  const auto i = number_as<std::size_t>(description.substr(0, slash)), n = number_as<std::size_t>(after);
  if (!i || !n || *i >= *n || *n > 1'000'000'000)
    throw InputError("--shard", "'" + description + "' is not i/n with 0 <= i < n", "write 0/4");
  // Cases that need one training form a group, which has the number of its first case.
  std::vector<std::size_t> group(cases.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  std::map<std::string, std::size_t> first_to_need;
  for (std::size_t k = 0; k < cases.size(); ++k) {
    if (!cases[k].tune) continue;
    for (const TuningCase& training : tuning_cases(cases[k])) {
      const std::size_t first = first_to_need.emplace(digest_of(training.c), k).first->second;
      const auto [kept, joined] = std::minmax(group[first], group[k]);
      if (kept != joined) std::ranges::replace(group, std::size_t{joined}, std::size_t{kept});
    }
  }
  std::map<std::size_t, std::size_t> places;
  for (const std::size_t g : group) places.emplace(g, places.size());
  std::vector<RunCase> mine;
  for (std::size_t k = 0; k < cases.size(); ++k)
    if (places.at(group[k]) % *n == *i) mine.push_back(std::move(cases[k]));
  return mine;
}

}  // namespace sluice
