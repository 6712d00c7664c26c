// Charts as Vega-Lite v5 specifications with their data inside, made from records. One clock a
// chart: wall and virtual charts are separate and say so in their titles. A system has one colour
// in all charts made from the same records, and single_device is grey everywhere.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "results/compare.h"
#include "results/record.h"

namespace sluice {

struct Chart {
  std::string name;   // a file name without its ending: "throughput-mlp-wall-r4"
  std::string title;  // plain text
  nlohmann::json spec;
};

// The charts of one experiment: one workload, cluster, clock, cost source and global batch, every
// rank count. `comparisons` hold the numbers that the charts show.
struct ChartSection {
  std::string id;       // usable in names and links
  std::string heading;  // "A small MLP, wall clock"
  std::vector<Comparison> comparisons;
  std::vector<Chart> charts;
};

struct ChartSet {
  std::vector<Chart> overview;  // throughput across workloads, where there is more than one
  std::vector<ChartSection> sections;
};

ChartSet make_charts(std::span<const Record> records);

class Palette {
 public:
  explicit Palette(std::span<const Record> records);
  const std::string& color(const std::string& system) const;

 private:
  std::map<std::string, std::string> colors_;
};

// The single charts. Those that have nothing to show (no target, no curve, no timeline, no memory)
// return a Chart with a null spec.
// Medians with intervals, one panel a comparison; the single-device rate is a bar and a dashed
// line.
Chart throughput_chart(const std::string& name, const std::string& title,
                       std::span<const Comparison> comparisons, const Palette& palette);
// Stacked by kind, a bar a rank, a panel a system; the prediction is a mark across the bar.
Chart memory_chart(const std::string& name, const Comparison& comparison);
// Seconds to the target; what did not reach it is named, not left out.
Chart time_to_accuracy_chart(const std::string& name, const std::string& title,
                             std::span<const Comparison> comparisons, const Palette& palette);
// The metric (without one: the loss) over training seconds and over updates.
Chart curves_chart(const std::string& name, const Comparison& comparison, const Palette& palette);
// A row a rank, a rectangle an op; grey is idle.
Chart timeline_chart(const std::string& name, const Comparison& comparison,
                     const ComparisonRow& row);

}  // namespace sluice
