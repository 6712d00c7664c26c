// Charts as Vega-Lite v5 specifications with their data inside, made from records. One clock a
// chart: wall and virtual charts are separate and say so in their titles. Systems have the titles and colours of
// results/system_style.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "results/compare.h"
#include "results/record.h"
#include "results/stability.h"

namespace sluice {

// Where a report shows a chart.
enum class ChartTopic { overview, throughput, accuracy, memory, scaling, communication, planners };

struct Chart {
  std::string name;   // a file name without its ending: "throughput-mlp-wall-r4"
  std::string title;  // plain text
  Json spec;
  ChartTopic topic = ChartTopic::overview;
  std::string records = {};  // words that the records it shows have, among those of its section; "": all of them
};

// What the page draws of one record's ops.
struct Timeline {
  std::string name, title = {};
  std::vector<std::string> notes = {};  // lines below the title
  std::string group = {};               // timelines of one group share a time axis
  std::string records = {};             // as Chart::records
  std::size_t ops = 0;                  // boxes
  double seconds = 0;
  Json data = nullptr;  // null: the row has no timeline
};

// The Vega-Lite document as a file holds it. Texts come from records: what is no character of XML is made visible, as
// no renderer draws it.
std::string spec_text(const Chart& chart);

// The charts of one experiment: one workload, cluster, clock, cost source, global batch and length, every rank count,
// with equal and with tuned learning rates. `comparisons` hold the numbers that the charts show, by rank count, equal
// before tuned.
struct ChartSection {
  std::string id;       // usable in names and links
  std::string heading;  // "A small MLP, wall clock"
  std::vector<Comparison> comparisons;
  std::vector<Chart> charts;
  std::vector<Timeline> timelines;
};

// A report is for reading: what goes beyond is left out, and ChartSet::left_out says so.
inline constexpr std::size_t kMaxRows = 400;  // of all comparisons; beyond, each system's best in each
inline constexpr std::size_t kMaxSections = 30;
inline constexpr std::size_t kMaxCharts = 75;           // of all sections
inline constexpr std::size_t kMaxTimelineOps = 20'000;  // about 0.7 MB of the page

// Something other than the records: published figures, for example.
struct ReportPart {
  std::string id, heading, text;  // plain texts
  std::string table;              // HTML, "" for none
  std::vector<Chart> charts;
};

struct ChartSet {
  std::string title;                  // of the sweep; ""
  std::vector<std::string> left_out;  // sentences: what, and how to see it
  std::vector<Chart> overview;        // across workloads, where there is more than one
  std::vector<ChartSection> sections;
  std::vector<StableRates> boundaries;  // and their charts, one for each workload and setting
  std::vector<Chart> boundary_charts;
  std::vector<ReportPart> parts;  // make_charts makes none
};

ChartSet make_charts(std::span<const Record> records);

// The single charts. Those that have nothing to show (no target, no curve, no timeline, no memory) return a Chart with
// a null spec.
// Medians with whiskers over the seeds (of one seed: the interval), one panel a comparison; the single-device rate is a
// bar and a dashed line.
Chart throughput_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons);
// Stacked by kind, a bar a rank, a panel a system; the prediction is a mark across the bar.
Chart memory_chart(const std::string& name, const Comparison& comparison);
// Seconds to the target; what did not reach it is named, not left out.
Chart time_to_accuracy_chart(const std::string& name, const std::string& title,
                             std::span<const Comparison> comparisons);
// The metric at the end of training: dots on an axis that need not begin at 0.
Chart final_metric_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons);
// The metric (without one: the loss) over training seconds or over updates: a line a system, in a band over its seeds,
// a panel a comparison.
enum class CurveAxis { time, updates };
Chart curves_chart(const std::string& name, std::span<const Comparison> comparisons, CurveAxis axis);
// Search time against the time of an update, a point a planner, a panel a comparison.
Chart planner_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons);
// Learning rates x systems, coloured by how many seeds are stable. Boundaries of one setting that differ in their ranks
// only.
Chart stable_rate_chart(const std::string& name, const std::string& title, std::span<const StableRates> boundaries);
// A point a row, and the line of those that no other beats in both; nothing to show below three.
Chart memory_throughput_chart(const std::string& name, const Comparison& comparison);
// Messages, gathers and reductions, a stacked bar a row; its bubble stands behind it. Nothing to show where no row
// shards its stages or runs several pipelines.
Chart communication_chart(const std::string& name, const Comparison& comparison);
// Systems x workloads: time to the target, or throughput, relative to the single device's.
Chart overview_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons,
                     bool time);  // of time to accuracy, else of throughput
// Predicted over measured seconds of an update of every case that ran on both clocks (results/validation.h), on
// logarithmic axes, with bands of 3 and 8 %.
struct Validation;
inline constexpr const char* kValidationChartTitle = "The virtual clock against the wall clock";
Chart validation_chart(const std::string& name, const Validation& validation);
// Throughput over the ranks, a line a system in a band over its seeds, next to its share of the single device's a rank;
// and over the micro-batches, a panel a rank count. Nothing to show where no system has two points.
Chart rank_scaling_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons);
Chart microbatch_scaling_chart(const std::string& name, const std::string& title,
                               std::span<const Comparison> comparisons);
// What the activations that wait for their backward weigh over the time of the timeline: a line a rank, a panel a
// system.
Chart memory_over_time_chart(const std::string& name, const Comparison& comparison);
// Of the first record of the row that has one.
Timeline timeline_of_row(const std::string& name, const ComparisonRow& row);

}  // namespace sluice
