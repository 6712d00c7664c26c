// Charts as Vega-Lite v5 specifications with their data inside, made from records. One clock per chart: wall and
// virtual charts are separate, and their titles name the clock. Systems have the titles and colours of
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

// The part of a report that shows a chart.
enum class ChartTopic { overview, throughput, accuracy, memory, scaling, communication, planners };

struct Chart {
  std::string name;   // a file name without its ending: "throughput-mlp-wall-r4"
  std::string title;  // plain text
  Json spec;
  ChartTopic topic = ChartTopic::overview;
  std::string records = {};  // words that select its records among those of its section; "": all of them
};

// The page's drawing of one record's ops.
struct Timeline {
  std::string name, title = {};
  std::vector<std::string> notes = {};  // lines below the title
  std::string group = {};               // timelines of one group share a time axis
  std::string records = {};             // as Chart::records
  std::size_t ops = 0;                  // boxes
  double seconds = 0;
  Json data = nullptr;  // null: the row has no timeline
};

// The Vega-Lite document in its file. Texts come from records: characters that are invalid in XML are made visible,
// because no renderer draws them.
std::string spec_text(const Json& spec);

// The charts of one experiment: one workload, cluster, clock, cost source, global batch and length, every rank count,
// with equal and with tuned learning rates. `comparisons` hold the numbers of the charts, by rank count, equal before
// tuned.
struct ChartSection {
  std::string id;       // usable in names and links
  std::string heading;  // "A small MLP, wall clock"
  std::string apart;    // what else tells it from sections of the same workload and cluster: "batch 8"; or ""
  std::vector<Comparison> comparisons;
  std::vector<Chart> charts;
  std::vector<Timeline> timelines;
};

// Limits of a report's size: the rest is left out, and ChartSet::left_out says so.
inline constexpr std::size_t kMaxRows = 400;  // of all comparisons; above, only each system's best in each
inline constexpr std::size_t kMaxSections = 30;
inline constexpr std::size_t kMaxCharts = 75;           // of all sections
inline constexpr std::size_t kMaxTimelineOps = 20'000;  // about 0.7 MB of the page

// A part from another source than the records: published figures, for example.
struct ReportPart {
  std::string id, heading, text;  // plain texts
  std::string table;              // HTML, "" for none
  std::vector<Chart> charts;
};

struct ChartSet {
  std::string title;                  // of the sweep; ""
  std::vector<std::string> left_out;  // sentences: what was left out, and how to see it
  std::vector<Chart> overview;        // across workloads, if there are several
  std::vector<ChartSection> sections;
  std::vector<StableRates> boundaries;  // and their charts, one for each workload and setting
  std::vector<Chart> boundary_charts;
  std::vector<ReportPart> parts;  // make_charts makes none
};

ChartSet make_charts(std::span<const Record> records);

// The single charts. Those with nothing to show (no target, no curve, no timeline, no memory) return a Chart with a
// null spec.
// Medians with whiskers over the seeds (with one seed: the interval), one panel per comparison; the single-device rate
// is a bar and a dashed line.
Chart throughput_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons);
// Stacked by kind, one bar per rank, one panel per system; the prediction is a mark across the bar.
Chart memory_chart(const std::string& name, const Comparison& comparison);
// Seconds to the target; systems that did not reach it are named.
Chart time_to_accuracy_chart(const std::string& name, const std::string& title,
                             std::span<const Comparison> comparisons);
// The metric at the end of training: dots on an axis that need not begin at 0.
Chart final_metric_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons);
// The metric (without one: the loss) over training seconds or over updates: one line per system, in a band over its
// seeds, one panel per comparison.
enum class CurveAxis { time, updates };
Chart curves_chart(const std::string& name, std::span<const Comparison> comparisons, CurveAxis axis);
// Search time against the time of an update, one point per planner, one panel per comparison.
Chart planner_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons);
// Learning rates x systems, coloured by the number of stable seeds. For boundaries that differ only in their ranks.
Chart stable_rate_chart(const std::string& name, const std::string& title, std::span<const StableRates> boundaries);
// One point per row, and the Pareto front of both metrics; nothing to show with fewer than three points.
Chart memory_throughput_chart(const std::string& name, const Comparison& comparison);
// Messages, gathers and reductions, one stacked bar per row, with its bubble behind. Nothing to show if no row shards
// its stages or runs several pipelines.
Chart communication_chart(const std::string& name, const Comparison& comparison);
// Systems x workloads: time to the target, or throughput, relative to the single device's.
Chart overview_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons,
                     bool time);  // true: time to accuracy; false: throughput
// Predicted over measured seconds per update of every case that ran on both clocks (results/validation.h), on
// logarithmic axes, with bands of 3 and 8 %.
struct Validation;
inline constexpr const char* kValidationChartTitle = "The virtual clock against the wall clock";
Chart validation_chart(const std::string& name, const Validation& validation);
// Throughput over the ranks, one line per system in a band over its seeds, next to its share of the single device's per
// rank; and over the micro-batches, one panel per rank count. Nothing to show if no system has two points.
Chart rank_scaling_chart(const std::string& name, const std::string& title, std::span<const Comparison> comparisons);
Chart microbatch_scaling_chart(const std::string& name, const std::string& title,
                               std::span<const Comparison> comparisons);
// Bytes of the activations that wait for their backward over the time of the timeline: one line per rank, one panel per
// system.
Chart memory_over_time_chart(const std::string& name, const Comparison& comparison);
// For the first record of the row that has one.
Timeline timeline_of_row(const std::string& name, const ComparisonRow& row);

}  // namespace sluice
