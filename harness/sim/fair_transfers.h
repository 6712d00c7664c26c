// Transfers that share the media of their routes fairly (max-min): at every time, a transfer could only go faster by
// slowing one that is not faster. A message is one connection; a ring is one on each of its hops, all at one rate.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <vector>

#include "harness/sim/route.h"

namespace sluice {

// The max-min fair rates, bytes/s, of transfers on these routes. Each transfer has the rate that its links carry alone,
// or is on a full medium on which no other is faster. capacities: bytes/s of each medium. Every route takes time.
std::vector<double> fair_rates(std::span<const double> capacities, std::span<const Route* const> routes);

class FairTransfers {
 public:
  // capacities: bytes/s of each medium.
  explicit FairTransfers(std::vector<double> capacities);

  // Begins a transfer of `bytes` bytes, not before the last start or end. `owner` identifies its starter. The route
  // must outlive the transfer.
  void start(double now, const Route& route, double bytes, std::int64_t owner);

  bool pending() const;
  double next_end() const;  // of the next one, if no transfer begins before; only while pending()
  std::int64_t end_next();  // ends it, which makes the others faster; returns its owner

 private:
  struct Transfer {
    const Route* route = nullptr;  // null: a free entry
    std::int64_t owner = 0;
    double left = 0;  // bytes, at `since`
    double since = 0, rate = 0;
    std::uint64_t version = 0;  // of its end in ends_
  };
  using End = std::tuple<double, std::size_t, std::uint64_t>;  // time, transfer, version

  void share(double now, const Route& route);
  std::vector<std::size_t> connected(const Route& route);
  void drop_outdated_ends() const;

  std::vector<double> capacities_;
  std::vector<std::vector<std::size_t>> on_medium_;  // transfers
  std::vector<Transfer> transfers_;
  std::vector<std::size_t> free_;
  mutable std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace sluice
