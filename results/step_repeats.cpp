#include "results/step_repeats.h"

#include <algorithm>

namespace sluice {

// A short line of a hostile file shall not ask for much memory.
static constexpr std::size_t kLongestPattern = 64, kMaxSteps = 100'000;

// How often the first `length` of the values stand one after another at their beginning.
static std::size_t times_at_the_beginning(std::span<const double> values, std::size_t length) {
  const std::span<const double> pattern = values.first(length);
  std::size_t times = 1;
  while ((times + 1) * length <= values.size() && std::ranges::equal(values.subspan(times * length, length), pattern))
    ++times;
  return times;
}

Json with_repeats(std::span<const double> seconds) {
  constexpr std::size_t kWorthIt = 4;  // values that need not be written
  Json steps = Json::array();
  if (seconds.size() > kMaxSteps) {
    for (const double value : seconds) steps.push_back(value);
    return steps;
  }
  while (!seconds.empty()) {
    std::size_t saved = 0, best = 1, best_times = 1;
    for (std::size_t length = 1; length <= kLongestPattern && 2 * length <= seconds.size(); ++length) {
      const std::size_t times = times_at_the_beginning(seconds, length);
      if ((times - 1) * length <= saved) continue;
      saved = (times - 1) * length;
      best = length;
      best_times = times;
    }
    if (saved < kWorthIt) best_times = best = 1;
    if (best_times == 1) {
      steps.push_back(seconds.front());
    } else {
      Json pattern = Json::array();
      for (const double value : seconds.first(best)) pattern.push_back(value);
      steps.push_back({{"times", best_times}, {"of", std::move(pattern)}});
    }
    seconds = seconds.subspan(best * best_times);
  }
  return steps;
}

std::vector<double> read_steps(JsonReader& reader, const std::string& key) {
  std::vector<double> steps;
  JsonReader list = reader.list(key);
  for (const std::string& index : list.keys()) {
    if (!list.raw(index).is_object()) {
      steps.push_back(list.any_number(index));
      continue;
    }
    JsonReader repeat = list.object(index);
    const auto times = repeat.integer<std::size_t>("times", 1, kMaxSteps);
    std::vector<double> pattern;
    JsonReader of = repeat.list("of");
    for (const std::string& k : of.keys()) pattern.push_back(of.any_number(k));
    repeat.no_other_keys();
    if (pattern.size() * times + steps.size() > kMaxSteps)
      repeat.fail("times", "makes more than 100,000 steps", "write them one by one");
    for (std::size_t n = 0; n < times; ++n) steps.insert(steps.end(), pattern.begin(), pattern.end());
  }
  return steps;
}

}  // namespace sluice
