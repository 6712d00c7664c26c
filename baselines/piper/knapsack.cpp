#include "baselines/piper/knapsack.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace sluice {

namespace {

constexpr double kByte = 1e-9;  // savings below this are none (the authors' threshold)

using Items = std::vector<std::vector<KnapsackChoice>>;

std::vector<int> pick(const Items& items, double KnapsackChoice::*value) {
  std::vector<int> chosen;
  for (const auto& choices : items)
    chosen.push_back(static_cast<int>(std::ranges::min_element(choices, {}, value) - choices.begin()));
  return chosen;
}

double total(const Items& items, const std::vector<int>& chosen, double KnapsackChoice::*value) {
  double sum = 0;
  for (std::size_t i = 0; i < items.size(); ++i) sum += items[i][chosen[i]].*value;
  return sum;
}

struct Swap {
  double price;  // seconds per byte saved
  std::size_t item;
  int choice;
  double saves;
  auto key() const { return std::tuple(price, item, choice); }
};

// Every swap of the current choice that saves memory; savings count up to `needed`.
std::vector<Swap> swaps(const Items& items, const std::vector<int>& chosen, double needed) {
  std::vector<Swap> result;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const KnapsackChoice& now = items[i][chosen[i]];
    for (std::size_t l = 0; l < items[i].size(); ++l) {
      const double saves = now.bytes - items[i][l].bytes;
      if (saves <= kByte) continue;
      result.push_back({(items[i][l].seconds - now.seconds) / std::min(saves, needed), i, static_cast<int>(l), saves});
    }
  }
  return result;
}

}  // namespace

std::optional<KnapsackResult> greedy_knapsack(const Items& items, double memory) {
  if (std::ranges::any_of(items, [](const auto& choices) { return choices.empty(); })) return {};
  KnapsackResult result{.chosen = pick(items, &KnapsackChoice::seconds)};
  double over = total(items, result.chosen, &KnapsackChoice::bytes) - memory;
  if (over > 0) {
    const std::vector<int> smallest = pick(items, &KnapsackChoice::bytes);
    if (total(items, smallest, &KnapsackChoice::bytes) > memory) return {};
    if (std::ranges::all_of(items, [](const auto& choices) { return choices.size() <= 2; })) {
      std::vector<Swap> order = swaps(items, result.chosen, std::numeric_limits<double>::infinity());
      std::ranges::sort(order, {}, &Swap::key);
      for (const Swap& swap : order) {
        result.chosen[swap.item] = swap.choice;
        over -= swap.saves;
        if (over < kByte) break;
      }
    } else {
      while (over > kByte) {
        const std::vector<Swap> possible = swaps(items, result.chosen, over);
        if (possible.empty()) return {};
        const Swap best = *std::ranges::min_element(possible, {}, &Swap::key);
        result.chosen[best.item] = best.choice;
        over -= best.saves;
      }
    }
  }
  result.seconds = total(items, result.chosen, &KnapsackChoice::seconds);
  return result;
}

std::optional<KnapsackResult> exact_knapsack(const Items& items, double memory, std::size_t widest) {
  if (std::ranges::any_of(items, [](const auto& choices) { return choices.empty(); })) return {};
  // least_after[i]: bytes that items i, i + 1, ... need at least.
  std::vector<double> least_after(items.size() + 1, 0.0);
  for (std::size_t i = items.size(); i-- > 0;)
    least_after[i] = least_after[i + 1] + std::ranges::min_element(items[i], {}, &KnapsackChoice::bytes)->bytes;
  struct Point {
    double seconds, bytes;
    int before, choice;  // the point it extends, and how
  };
  std::vector<std::vector<Point>> fronts{{{0, 0, -1, -1}}};
  bool complete = true;
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::vector<Point> next;
    for (std::size_t p = 0; p < fronts[i].size(); ++p)
      for (std::size_t l = 0; l < items[i].size(); ++l) {
        const Point& from = fronts[i][p];
        const Point to{from.seconds + items[i][l].seconds, from.bytes + items[i][l].bytes, static_cast<int>(p),
                       static_cast<int>(l)};
        if (to.bytes + least_after[i + 1] <= memory) next.push_back(to);
      }
    std::ranges::sort(next, {}, [](const Point& p) { return std::tuple(p.seconds, p.bytes); });
    std::vector<Point> front;
    for (const Point& p : next)
      if (front.empty() || p.bytes < front.back().bytes) front.push_back(p);
    if (front.empty()) return {};
    if (front.size() > widest) {
      complete = false;
      front.erase(front.begin() + static_cast<std::ptrdiff_t>(widest), front.end() - 1);
    }
    fronts.push_back(std::move(front));
  }
  KnapsackResult result{
      .seconds = fronts.back().front().seconds, .chosen = std::vector<int>(items.size()), .complete = complete};
  int at = 0;
  for (std::size_t i = items.size(); i-- > 0;) {
    const Point& p = fronts[i + 1][at];
    result.chosen[i] = p.choice;
    at = p.before;
  }
  if (!complete)
    if (auto greedy = greedy_knapsack(items, memory); greedy && greedy->seconds < result.seconds) {
      greedy->complete = false;
      return greedy;
    }
  return result;
}

}  // namespace sluice
