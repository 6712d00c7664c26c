// The set of charts that a list of records gives.
#include "plots/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
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

// Equal headings get what differs between their sections: cluster, batch, duration.
void tell_headings_apart(std::vector<ChartSection>& sections) {
  std::map<std::string, std::vector<ChartSection*>> by_heading;
  for (ChartSection& section : sections) by_heading[section.heading].push_back(&section);
  using Text = std::string (*)(const Comparison&);
  constexpr Text cluster = [](const Comparison& c) { return c.cluster; };
  constexpr Text kTexts[] = {cluster, [](const Comparison& c) { return fmt::format("batch {}", c.batch); },
                             [](const Comparison& c) { return c.duration; }};
  for (const auto& [heading, alike] : by_heading)
    for (const Text text : kTexts) {
      const auto of = [&](const ChartSection* s) { return text(s->comparisons.front()); };
      if (std::ranges::all_of(alike, [&](const ChartSection* s) { return of(s) == of(alike.front()); })) continue;
      for (ChartSection* section : alike) {
        const std::string more = of(section);
        if (more.empty()) continue;
        section->heading += ", " + more;
        if (text != cluster) section->apart += (section->apart.empty() ? "" : ", ") + more;
      }
    }
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
  tell_headings_apart(sections);
  return sections;
}

// Charts of all sections, made until there are kMaxCharts of them: throughput of every section first, then what
// follows in ChartPlan::Rank.
class ChartPlan {
 public:
  enum class Rank { throughput, accuracy, scaling, planners, trade_off, memory, over_time, communication };

  void add(ChartSection& section, ChartTopic topic, Rank rank, std::function<Chart()> make) {
    entries_.push_back({&section, topic, rank, std::move(make), std::nullopt});
  }
  // Into the sections, in the order in which they were added. Returns for how many there was no room.
  std::size_t make() {
    std::vector<Entry*> by_rank;
    for (Entry& entry : entries_) by_rank.push_back(&entry);
    std::ranges::stable_sort(by_rank, {}, &Entry::rank);
    std::size_t made = 0, left = 0;
    for (Entry* entry : by_rank) {
      if (made == kMaxCharts) {
        ++left;
        continue;
      }
      entry->chart = entry->make();
      made += !entry->chart->spec.is_null();
    }
    for (Entry& entry : entries_)
      if (entry.chart) sluice::add(entry.section->charts, std::move(*entry.chart), entry.topic);
    return left;
  }

 private:
  struct Entry {
    ChartSection* section;
    ChartTopic topic;
    Rank rank;
    std::function<Chart()> make;
    std::optional<Chart> chart;
  };
  std::vector<Entry> entries_;
};

// The comparisons of each rank count.
std::vector<std::span<const Comparison>> by_rank_count(std::span<const Comparison> all) {
  std::vector<std::span<const Comparison>> result;
  for (std::size_t from = 0; from < all.size();) {
    std::size_t to = from;
    while (to < all.size() && all[to].ranks == all[from].ranks) ++to;
    result.push_back(all.subspan(from, to - from));
    from = to;
  }
  return result;
}

// Memory and what is sent do not depend on the learning rate: one of each for every rank count, from wherever a run of
// that system was whole.
void plan_per_rank_count(ChartPlan& plan, ChartSection& section) {
  using enum ChartPlan::Rank;
  const auto measured = [](const Comparison& c) {
    return std::count_if(c.rows.begin(), c.rows.end(),
                         [](const ComparisonRow& row) { return row.peak_memory.has_value(); });
  };
  for (const auto same_ranks : by_rank_count(section.comparisons)) {
    const std::string suffix = fmt::format("{}-r{}", section.id, same_ranks.front().ranks);
    const Comparison& fullest = *std::ranges::max_element(same_ranks, {}, measured);
    const Comparison& first = same_ranks.front();
    const auto show = [&](ChartTopic topic, ChartPlan::Rank rank, auto chart, const char* name, const Comparison& of) {
      plan.add(section, topic, rank, [chart, name = name + suffix, &of] { return chart(name, of); });
    };
    show(ChartTopic::memory, trade_off, memory_throughput_chart, "pareto-", fullest);
    show(ChartTopic::memory, memory, memory_chart, "memory-", fullest);
    show(ChartTopic::memory, over_time, memory_over_time_chart, "activations-", first);
    show(ChartTopic::communication, communication, communication_chart, "communication-", fullest);
  }
}

void plan_section(ChartPlan& plan, ChartSection& section, Chart over_microbatches) {
  using enum ChartPlan::Rank;
  const std::span<const Comparison> all = section.comparisons;
  const std::string id = section.id, title = all.front().title, metric = all.front().metric;
  const auto show = [&](ChartTopic topic, ChartPlan::Rank rank, std::function<Chart()> make) {
    plan.add(section, topic, rank, std::move(make));
  };
  show(ChartTopic::throughput, throughput,
       [=] { return throughput_chart("throughput-" + id, "Throughput: " + title, all); });
  show(ChartTopic::accuracy, accuracy,
       [=] { return time_to_accuracy_chart("time-to-accuracy-" + id, "Time to accuracy: " + title, all); });
  show(ChartTopic::accuracy, accuracy,
       [=] { return final_metric_chart("final-" + id, "Final " + metric + ": " + title, all); });
  show(ChartTopic::accuracy, accuracy, [=] { return curves_chart("curves-time-" + id, all, CurveAxis::time); });
  show(ChartTopic::accuracy, accuracy, [=] { return curves_chart("curves-updates-" + id, all, CurveAxis::updates); });
  show(ChartTopic::scaling, scaling,
       [=] { return rank_scaling_chart("scaling-" + id, "Throughput over ranks: " + title, all); });
  show(ChartTopic::scaling, scaling, [chart = std::move(over_microbatches)] { return chart; });
  show(ChartTopic::planners, planners, [=] { return planner_chart("planners-" + id, "Planners: " + title, all); });
  plan_per_rank_count(plan, section);
}

// Up to kMaxTimelineOps ops of all sections. Returns how many timelines were left out.
std::size_t add_timelines(ChartSet& set) {
  std::size_t ops = 0, left = 0;
  for (ChartSection& section : set.sections) {
    bool reference_drawn = false;
    for (const auto same_ranks : by_rank_count(section.comparisons)) {
      const std::string suffix = fmt::format("{}-r{}", section.id, same_ranks.front().ranks);
      std::set<std::string> drawn;
      for (const Comparison& c : same_ranks)
        for (const ComparisonRow* row : drawing_order(c)) {
          if (row->reference && reference_drawn) continue;  // the same run in every rank count
          if (drawn.contains(row->label)) continue;
          Timeline timeline = timeline_of_row("timeline-" + suffix + "-" + slug(row->label), *row);
          if (timeline.data.is_null()) continue;
          drawn.insert(row->label);
          reference_drawn |= row->reference;
          if (ops + timeline.ops > kMaxTimelineOps) {
            ++left;
            continue;
          }
          ops += timeline.ops;
          timeline.group = suffix + (row->reference ? "-device" : row->asynchronous ? "-batches" : "-update");
          section.timelines.push_back(std::move(timeline));
        }
    }
  }
  return left;
}

// Keeps the best row of each system, and the reference's.
void keep_best_rows(Comparison& c) {
  std::set<std::string> seen;  // rows are sorted, best first
  std::erase_if(c.rows, [&](const ComparisonRow& row) { return !seen.insert(row.system).second; });
}

std::size_t rows_of(const ChartSet& set) {
  std::size_t rows = 0;
  for (const ChartSection& section : set.sections)
    for (const Comparison& c : section.comparisons) rows += c.rows.size();
  return rows;
}

// Why there are runs without a timeline.
std::string missing_timelines(const ChartSet& set) {
  std::size_t runs = 0, without = 0;
  for (const ChartSection& section : set.sections)
    for (const Comparison& c : section.comparisons)
      for (const ComparisonRow& row : c.rows) {
        if (row.records.front().outcome != RecordOutcome::ok) continue;
        ++runs;
        without += std::ranges::all_of(row.records, [](const Record& r) { return r.timeline.empty(); });
      }
  if (without == 0) return "";
  return fmt::format(
      "{} of {} rows have no timeline: by default sluice run keeps them in sweeps of up to 50 cases; "
      "--timelines best keeps those of each system's fastest run.",
      without, runs);
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
  const auto rename = [&](auto& charts) {
    for (auto& chart : charts) {
      const std::string stem = chart.name;
      for (int n = 2; !taken.insert(chart.name).second; ++n) chart.name = stem + "-" + std::to_string(n);
    }
  };
  rename(set.overview);
  for (ChartSection& section : set.sections) {
    rename(section.charts);
    rename(section.timelines);
  }
  rename(set.boundary_charts);
}

ChartSet make_charts(std::span<const Record> records) {
  const std::string part = "sluice report FILE --filter workload=NAME makes a report of a part.";
  ChartSet set;
  set.sections = sections_of(compare(records));
  if (set.sections.size() > kMaxSections) {
    set.left_out.push_back(fmt::format("{} of {} experiments are shown, the first by workload. {}", kMaxSections,
                                       set.sections.size(), part));
    set.sections.erase(set.sections.begin() + kMaxSections, set.sections.end());
  }
  std::vector<Chart> over_microbatches;  // of all rows, before the best ones alone are kept
  for (const ChartSection& section : set.sections)
    over_microbatches.push_back(microbatch_scaling_chart(
        "microbatches-" + section.id, "Throughput over micro-batches: " + section.comparisons.front().title,
        section.comparisons));
  if (const std::size_t rows = rows_of(set); rows > kMaxRows) {
    for (ChartSection& section : set.sections) std::ranges::for_each(section.comparisons, keep_best_rows);
    set.left_out.push_back(
        fmt::format("{} of {} rows are shown: the best of each system in each comparison. sluice "
                    "compare and sluice export show all.",
                    rows_of(set), rows));
  }
  ChartPlan plan;
  for (std::size_t k = 0; k < set.sections.size(); ++k)
    plan_section(plan, set.sections[k], std::move(over_microbatches[k]));
  if (const std::size_t left = plan.make(); left > 0)
    set.left_out.push_back(fmt::format(
        "{} charts are drawn, up to {} are not: those of memory and communication first. {}", kMaxCharts, left, part));
  if (const std::size_t left = add_timelines(set); left > 0)
    set.left_out.push_back(fmt::format("{} timelines are not drawn, for the size of the page. {}", left, part));
  if (std::string missing = missing_timelines(set); !missing.empty()) set.left_out.push_back(std::move(missing));
  add(set.overview, validation_chart("validation", validate(validated_cases(records))));
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

std::string spec_text(const Json& spec) { return printable(spec).dump(1) + "\n"; }

}  // namespace sluice
