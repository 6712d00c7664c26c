// Charts as Vega-Lite v5 specifications with their data inside, made from records. One clock a
// chart: wall and virtual charts are separate and say so in their titles. A system has one colour in all charts made
// from the same records, and single_device is grey everywhere.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "plots/palette.h"
#include "results/compare.h"
#include "results/record.h"
#include "results/stability.h"

namespace sluice {

enum class ChartKind {
  comparison,  // of several systems
  timeline     // of one system's update: the report folds these away
};

struct Chart {
  std::string name;   // a file name without its ending: "throughput-mlp-wall-r4"
  std::string title;  // plain text
  nlohmann::json spec;
  ChartKind kind = ChartKind::comparison;
};

// The charts of one experiment: one workload, cluster, clock, cost source, global batch and length, every rank count,
// with equal and with tuned learning rates. `comparisons` hold the numbers that the charts show, by rank count, equal
// before tuned.
struct ChartSection {
  std::string id;       // usable in names and links
  std::string heading;  // "A small MLP, wall clock"
  std::vector<Comparison> comparisons;
  std::vector<Chart> charts;
};

struct ChartSet {
  std::vector<Chart> overview;  // across workloads, where there is more than one
  std::vector<ChartSection> sections;
  std::vector<StableRates> boundaries;  // and their charts, one for each workload and setting
  std::vector<Chart> boundary_charts;
};

ChartSet make_charts(std::span<const Record> records);

// The single charts. Those that have nothing to show (no target, no curve, no timeline, no memory) return a Chart with
// a null spec.
// Medians with whiskers over the seeds (of one seed: the interval), one panel a comparison; the single-device rate is a
// bar and a dashed line.
Chart throughput_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons,
                       const Palette& palette);
// Stacked by kind, a bar a rank, a panel a system; the prediction is a mark across the bar.
Chart memory_chart(const std::string& name, const Comparison& comparison);
// Seconds to the target; what did not reach it is named, not left out.
Chart time_to_accuracy_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons,
                             const Palette& palette);
// The metric at the end of training: dots on an axis that need not begin at 0.
Chart final_metric_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons,
                         const Palette& palette);
// The metric (without one: the loss) over training seconds or over updates: a line a system, in a band over its seeds,
// a panel a comparison.
enum class CurveAxis { time, updates };
Chart curves_chart(const std::string& name, std::span<const Comparison> comparisons, const Palette& palette,
                   CurveAxis axis);
// Search time against the time of an update, a point a planner, a panel a comparison.
Chart planner_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons,
                    const Palette& palette);
// Learning rates x systems, coloured by how many seeds are stable. Boundaries of one setting that differ in their ranks
// only.
Chart stable_rate_chart(const std::string& name, const std::string& title, std::span<const StableRates> boundaries);
// A point a row, and the line of those that no other beats in both. Here and in the next: nothing to show where no row
// shards its stages or runs several pipelines.
Chart memory_throughput_chart(const std::string& name, const Comparison& comparison, const Palette& palette);
// Messages, gathers and reductions, a stacked bar a row; its bubble stands behind it.
Chart communication_chart(const std::string& name, const Comparison& comparison);
// Systems x workloads: time to the target, or throughput, relative to the single device's.
Chart overview_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons,
                     CompareMetric metric);
// A row a rank, a rectangle an op; grey is idle.
Chart timeline_chart(const std::string& name, const Comparison& comparison, const ComparisonRow& row);

}  // namespace sluice
