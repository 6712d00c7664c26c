// The divergence boundary: the largest stable learning rate of a system, derived from records whose purpose is
// "boundary": a grid of rates, systems and seeds, each trained for the same updates. It is the cheapest measure of the
// cost of staleness.
//
// A run is stable if it finished all its updates with finite losses and has learnt: the mean training loss of the last
// tenth of its updates is at most 0.9 of that of the first update, which every system computes from the same weights on
// the same samples. (A limit of 1 is too high: a network whose units have died stays slightly below its first loss.)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/record.h"

namespace sluice {

class Json;

enum class Stability { stable, no_progress, diverged, unknown };  // unknown: failed, or not run
const char* to_text(Stability stability);
Stability stability_of(const Record& record);

// One system's row of a boundary.
struct StableRateRow {
  std::string system, label;
  bool reference = false;  // single_device
  int ranks = 0;
  std::string reason;                        // of the first run that failed or was rejected
  std::vector<std::vector<Stability>> runs;  // [rate of the grid][seed]
  // Per seed, the largest rate that is stable together with all smaller ones of the grid.
  std::vector<std::optional<double>> per_seed;
  // The same for all seeds together; none: not even the smallest rate.
  std::optional<double> largest;
  bool at_edge = false;                          // it is the largest of the grid: the boundary is above
  std::optional<std::int64_t> first_divergence;  // earliest update, over all rates and seeds
};

struct StableRates {
  std::string workload, title, cluster, clock, cost_source, optimizer, duration;
  std::string options;  // Comparison::options
  int ranks = 0;
  std::int64_t batch = 0;
  std::vector<double> rates;         // the grid, ascending
  std::vector<std::uint64_t> seeds;  // ascending
  std::vector<StableRateRow> rows;   // single_device first, then by descending rate
};

// One for each (workload, cluster, clock, costs, batch, ranks, length, optimizer without its rate).
std::vector<StableRates> stable_rates(std::span<const Record> records);

// Parts of its table: the title, the lines of cells (headings first; with texts of the records), and a legend of the
// cells, in lines.
std::string title_of(const StableRates& of);
std::string title_of(const StableRateRow& row);  // its label with the title of its system
std::vector<std::vector<std::string>> cells_of(const StableRates& of);
extern const std::array<const char*, 3> kStabilityNote;

std::string to_table(std::span<const StableRates> boundaries);
Json to_json(std::span<const StableRates> boundaries);

// "0.05", ">= 0.2" (the whole grid is stable), "< 0.01" (none of it is).
std::string rate_text(const StableRateRow& row, const StableRates& of);

}  // namespace sluice
