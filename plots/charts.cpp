// The set of charts that a list of records gives.
#include "plots/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "harness/base/visible_text.h"
#include "plots/style.h"
#include "results/validation.h"

namespace sluice {
namespace {

void add(std::vector<Chart>& charts, Chart chart, ChartTopic topic = ChartTopic::overview) {
  if (chart.spec.is_null()) return;
  chart.topic = topic;
  charts.push_back(std::move(chart));
}

// Everything but the ranks and the optimizer, whose panels stand side by side.
auto section_key(const Comparison& c) {
  return std::tie(c.workload, c.cluster, c.clock, c.cost_source, c.batch, c.duration);
}

// A name that no one has: a short one, a long one, or the long one with a number.
std::string unused(std::set<std::string>& taken, const std::string& name, const std::string& longer) {
  std::string id = slug(name);
  if (taken.contains(id)) id = slug(name + " " + longer);
  const std::string stem = id;
  for (int n = 2; !taken.insert(id).second; ++n) id = slug(stem + " " + std::to_string(n));
  return id;
}

std::vector<ChartSection> sections_of(std::vector<Comparison> comparisons) {
  std::stable_sort(comparisons.begin(), comparisons.end(), [](const Comparison& a, const Comparison& b) {
    return std::tuple_cat(section_key(a), std::tie(a.ranks, a.tuned)) <
           std::tuple_cat(section_key(b), std::tie(b.ranks, b.tuned));
  });
  std::vector<ChartSection> sections;
  std::set<std::string> ids;
  for (Comparison& c : comparisons) {
    if (sections.empty() || section_key(sections.back().comparisons.front()) != section_key(c)) {
      const std::string id = unused(ids, c.workload + " " + c.clock + " " + c.cost_source,
                                    c.cluster + " b" + std::to_string(c.batch) + " " + c.duration);
      sections.push_back({id, fmt::format("{}: {}", c.title, clock_text(c)), {}, {}});
    }
    sections.back().comparisons.push_back(std::move(c));
  }
  return sections;
}

// Memory, what is sent and timelines do not depend on the learning rate: one of each for every rank count, from
// wherever a run of that system was whole.
void add_per_rank_count(ChartSection& section) {
  const auto measured = [](const Comparison& c) {
    return std::count_if(c.rows.begin(), c.rows.end(),
                         [](const ComparisonRow& row) { return row.peak_memory.has_value(); });
  };
  bool reference_drawn = false;
  const std::span<const Comparison> all = section.comparisons;
  for (std::size_t from = 0; from < all.size();) {
    std::size_t to = from;
    while (to < all.size() && all[to].ranks == all[from].ranks) ++to;
    const auto same_ranks = all.subspan(from, to - from);
    from = to;
    const std::string suffix = fmt::format("{}-r{}", section.id, same_ranks.front().ranks);
    const Comparison& fullest = *std::ranges::max_element(same_ranks, {}, measured);
    add(section.charts, memory_throughput_chart("pareto-" + suffix, fullest), ChartTopic::memory);
    add(section.charts, memory_chart("memory-" + suffix, fullest), ChartTopic::memory);
    add(section.charts, memory_over_time_chart("activations-" + suffix, same_ranks.front()), ChartTopic::memory);
    add(section.charts, communication_chart("communication-" + suffix, fullest), ChartTopic::communication);
    std::set<std::string> drawn;
    for (const Comparison& c : same_ranks)
      for (const ComparisonRow* row : drawing_order(c)) {
        if (row->reference && reference_drawn) continue;  // the same run in every rank count
        if (drawn.contains(row->label)) continue;
        Chart chart = timeline_chart("timeline-" + suffix + "-" + slug(row->label), c, *row);
        if (chart.spec.is_null()) continue;
        drawn.insert(row->label);
        reference_drawn |= row->reference;
        add(section.charts, std::move(chart), ChartTopic::timelines);
      }
  }
}

void add_overview(ChartSet& set) {
  // What is alike in clock, costs and cluster.
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<Comparison>> across;
  for (const ChartSection& section : set.sections)
    for (const Comparison& c : section.comparisons) across[{c.clock, c.cost_source, c.cluster}].push_back(c);
  for (const auto& [key, members] : across) {
    const bool several = std::any_of(members.begin(), members.end(),
                                     [&](const Comparison& c) { return c.workload != members.front().workload; });
    if (!several) continue;
    const std::string suffix = slug(std::get<0>(key) + " " + std::get<1>(key) + " " + std::get<2>(key));
    add(set.overview, overview_chart("overview-time-" + suffix, "Time to accuracy by workload", members,
                                     /*time=*/true));
    // The throughput is the same at every learning rate: the first of each rank count.
    std::vector<Comparison> firsts;
    for (const Comparison& c : members)
      if (firsts.empty() || section_key(firsts.back()) != section_key(c) || firsts.back().ranks != c.ranks)
        firsts.push_back(c);
    const std::string title = "Throughput by workload";
    constexpr std::size_t kMaxPanels = 6;  // more bars than that are no overview
    add(set.overview, firsts.size() <= kMaxPanels
                          ? throughput_chart("overview-" + suffix, title, firsts)
                          : overview_chart("overview-" + suffix, title, firsts, /*time=*/false));
  }
}

void add_boundaries(ChartSet& set, std::span<const Record> records) {
  set.boundaries = stable_rates(records);
  std::stable_sort(set.boundaries.begin(), set.boundaries.end(), [](const StableRates& a, const StableRates& b) {
    return std::tie(a.workload, a.clock, a.cost_source, a.cluster, a.batch, a.duration, a.optimizer, a.ranks) <
           std::tie(b.workload, b.clock, b.cost_source, b.cluster, b.batch, b.duration, b.optimizer, b.ranks);
  });
  const auto setting_of = [](const StableRates& b) {
    return std::tie(b.workload, b.clock, b.cost_source, b.cluster, b.batch, b.duration, b.optimizer);
  };
  std::set<std::string> ids;
  for (std::size_t from = 0; from < set.boundaries.size();) {
    std::size_t to = from;
    while (to < set.boundaries.size() && setting_of(set.boundaries[to]) == setting_of(set.boundaries[from])) ++to;
    const StableRates& b = set.boundaries[from];
    const std::string id = unused(ids, b.workload + " " + b.clock, b.cluster + " " + b.optimizer);
    add(set.boundary_charts, stable_rate_chart("stable-rate-" + id, "Largest stable learning rate: " + b.title,
                                               std::span(set.boundaries).subspan(from, to - from)));
    from = to;
  }
}

}  // namespace

// Names of systems, clusters and workloads that differ in a character that file names do not have ("a b", "a_b") make
// the same chart name: the second one gets a number.
static void make_names_distinct(ChartSet& set) {
  std::set<std::string> taken;
  const auto rename = [&](std::vector<Chart>& charts) {
    for (Chart& chart : charts) {
      const std::string stem = chart.name;
      for (int n = 2; !taken.insert(chart.name).second; ++n) chart.name = stem + "-" + std::to_string(n);
    }
  };
  rename(set.overview);
  for (ChartSection& section : set.sections) rename(section.charts);
  rename(set.boundary_charts);
}

ChartSet make_charts(std::span<const Record> records) {
  ChartSet set;
  set.sections = sections_of(compare(records));
  for (ChartSection& section : set.sections) {
    const Comparison& first = section.comparisons.front();
    const std::span<const Comparison> all = section.comparisons;
    const auto show = [&](ChartTopic topic, Chart chart) { add(section.charts, std::move(chart), topic); };
    show(ChartTopic::throughput, throughput_chart("throughput-" + section.id, "Throughput: " + first.title, all));
    show(ChartTopic::accuracy,
         time_to_accuracy_chart("time-to-accuracy-" + section.id, "Time to accuracy: " + first.title, all));
    show(ChartTopic::accuracy,
         final_metric_chart("final-" + section.id, "Final " + first.metric + ": " + first.title, all));
    show(ChartTopic::accuracy, curves_chart("curves-time-" + section.id, all, CurveAxis::time));
    show(ChartTopic::accuracy, curves_chart("curves-updates-" + section.id, all, CurveAxis::updates));
    show(ChartTopic::scaling,
         rank_scaling_chart("scaling-" + section.id, "Throughput over ranks: " + first.title, all));
    show(ChartTopic::scaling,
         microbatch_scaling_chart("microbatches-" + section.id, "Throughput over micro-batches: " + first.title, all));
    show(ChartTopic::planners, planner_chart("planners-" + section.id, "Planners: " + first.title, all));
    add_per_rank_count(section);
  }
  add(set.overview, validation_chart("validation", validate(validated_cases({records.begin(), records.end()}))));
  add_overview(set);
  add_boundaries(set, records);
  make_names_distinct(set);
  return set;
}

static Json printable(const Json& value) {
  if (value.is_string()) return visible_lines(value.get<std::string>());
  Json copy = value;
  if (value.is_array())
    for (Json& element : copy) element = printable(element);
  if (value.is_object())
    for (const auto& [key, member] : value.items()) copy[key] = printable(member);
  return copy;
}

std::string spec_text(const Chart& chart) { return printable(chart.spec).dump(1) + "\n"; }

}  // namespace sluice
