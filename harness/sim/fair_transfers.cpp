#include "harness/sim/fair_transfers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace sluice {

FairTransfers::FairTransfers(std::vector<double> capacities)
    : capacities_(std::move(capacities)), on_medium_(capacities_.size()) {}

void FairTransfers::start(double now, const Route& route, double bytes, std::int64_t owner) {
  if (free_.empty()) {
    free_.push_back(transfers_.size());
    transfers_.emplace_back();
  }
  const std::size_t number = free_.back();
  free_.pop_back();
  Transfer& transfer = transfers_[number];
  transfer = {&route, owner, bytes, now, 0, transfer.version + 1};
  if (!(bytes * route.seconds_per_byte > 0)) {  // takes no time, so that it shares nothing
    ends_.emplace(now, number, transfer.version);
    return;
  }
  for (const std::size_t medium : route.media) on_medium_[medium].push_back(number);
  share(now, route);
}

void FairTransfers::drop_outdated_ends() const {
  const auto outdated = [&](const End& end) { return transfers_[std::get<1>(end)].version != std::get<2>(end); };
  while (!ends_.empty() && outdated(ends_.top())) ends_.pop();
}

bool FairTransfers::pending() const {
  drop_outdated_ends();
  return !ends_.empty();
}

double FairTransfers::next_end() const {
  drop_outdated_ends();
  return std::get<0>(ends_.top());
}

std::int64_t FairTransfers::end_next() {
  drop_outdated_ends();
  const auto [now, number, version] = ends_.top();
  ends_.pop();
  Transfer& transfer = transfers_[number];
  const Route& route = *transfer.route;
  transfer.route = nullptr;
  ++transfer.version;
  free_.push_back(number);
  const std::int64_t owner = transfer.owner;
  if (transfer.rate > 0) {
    for (const std::size_t medium : route.media) std::erase(on_medium_[medium], number);
    share(now, route);
  }
  return owner;
}

// The transfers that share a medium with the route, or with one that does, and so on.
std::vector<std::size_t> FairTransfers::connected(const Route& route) {
  std::vector<std::size_t> found;
  std::vector<bool> seen(transfers_.size(), false);
  const auto add = [&](const Route& of) {
    for (const std::size_t medium : of.media)
      for (const std::size_t number : on_medium_[medium])
        if (!seen[number]) {
          seen[number] = true;
          found.push_back(number);
        }
  };
  add(route);
  for (std::size_t i = 0; i < found.size(); ++i) add(*transfers_[found[i]].route);
  return found;
}

// New rates for whatever a transfer of this route touches, which has just begun or ended.
void FairTransfers::share(double now, const Route& route) {
  const std::vector<std::size_t> numbers = connected(route);
  std::vector<const Route*> routes;
  for (const std::size_t number : numbers) routes.push_back(transfers_[number].route);
  const std::vector<double> rates = fair_rates(capacities_, routes);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Transfer& transfer = transfers_[numbers[i]];
    if (transfer.rate == rates[i]) continue;  // its end stays
    transfer.left = std::max(0.0, transfer.left - transfer.rate * (now - transfer.since));
    transfer.since = now;
    transfer.rate = rates[i];
    ends_.emplace(now + transfer.left / transfer.rate, numbers[i], ++transfer.version);
  }
}

// Raises all rates together. A transfer that reaches what its links carry stays there, and so do all transfers of a
// medium that is full.
std::vector<double> fair_rates(std::span<const double> capacities, std::span<const Route* const> routes) {
  struct Medium {
    double left = 0;       // bytes/s that no fixed transfer takes
    double crossings = 0;  // of the transfers that are not fixed
    double level() const { return std::max(0.0, left) / crossings; }
  };
  std::map<std::size_t, Medium> media;
  for (const Route* route : routes)
    for (std::size_t m = 0; m < route->media.size(); ++m) {
      Medium& medium = media.try_emplace(route->media[m], Medium{capacities[route->media[m]], 0}).first->second;
      medium.crossings += route->crossings[m];
    }
  std::vector<double> rates(routes.size(), 0);
  std::vector<std::size_t> rising(routes.size());
  std::iota(rising.begin(), rising.end(), std::size_t{0});
  while (!rising.empty()) {
    double level = std::numeric_limits<double>::infinity();
    for (const auto& [number, medium] : media)
      if (medium.crossings > 0) level = std::min(level, medium.level());
    for (const std::size_t i : rising) level = std::min(level, 1 / routes[i]->seconds_per_byte);
    const auto stays = [&](std::size_t i) {
      return 1 / routes[i]->seconds_per_byte <= level ||
             std::ranges::any_of(routes[i]->media, [&](std::size_t m) { return media.at(m).level() <= level; });
    };
    std::vector<std::size_t> fixed, others;
    for (const std::size_t i : rising) (stays(i) ? fixed : others).push_back(i);
    for (const std::size_t i : fixed) {
      rates[i] = level;
      for (std::size_t m = 0; m < routes[i]->media.size(); ++m) {
        Medium& medium = media.at(routes[i]->media[m]);
        medium.left -= level * routes[i]->crossings[m];
        medium.crossings -= routes[i]->crossings[m];
      }
    }
    rising = std::move(others);
  }
  return rates;
}

}  // namespace sluice
