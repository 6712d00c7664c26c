// report.html: the answers first, then a section for each workload and clock with its tables and charts, then what was
// measured and how. Every text that comes from records is escaped.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "harness/base/json.h"
#include "harness/base/visible_text.h"
#include "plots/answers.h"
#include "plots/inline_svg.h"
#include "plots/page_files.h"
#include "plots/report.h"
#include "plots/report_tables.h"
#include "plots/style.h"
#include "plots/timeline_ops.h"
#include "results/comparison_rows.h"
#include "results/system_style.h"

namespace sluice {
namespace {

// Writes the page from its parts.
class Page {
 public:
  Page(const ChartSet& charts, std::span<const Record> records, const std::map<std::string, std::string>& pictures,
       const std::vector<PictureFormat>& formats)
      : charts_(charts), records_(records), pictures_(pictures), formats_(formats) {}

  std::string html() {
    std::string sections, parts;
    for (const ChartSection& part : charts_.sections) sections += section(part);
    for (const ReportPart& one : charts_.parts)
      parts += folded_section(one.id, one.heading, one.text,
                              panel("Charts", one.charts.empty() ? "" : grid(one.charts, one.id + "-records")) +
                                  panel("Figures", one.table));
    const std::string note = provenance_of(records_), title = escape_html(charts_.title);
    return filled_page(
        "report.html",
        {{"title", title.empty() ? "" : title + " – "},
         {"style", std::string(page_file("report.css"))},
         {"heading", title.empty() ? "Sluice report" : title},
         {"counts", (title.empty() ? "" : "Sluice report: ") + counts()},
         {"left_out", left_out()},
         {"links", links()},
         {"answers", answers()},
         {"overview",
          charts_.overview.empty() ? "" : "<h2 id=\"overview\">Overview</h2>\n" + grid(charts_.overview, "records")},
         {"sections", sections},
         {"boundaries", boundary_section()},
         {"parts", parts},
         {"provenance",
          note.empty() ? "" : "<p>" + escape_html(note) + " <code>sluice list NAME</code> says more.</p>\n"},
         {"machine", machine_table(records_)},
         {"records", other_records()},
         {"op_kinds", op_kinds()},
         {"script", std::string(page_file("report.js"))},
         {"timelines", std::string(page_file("timelines.js"))}});
  }

 private:
  // "12 records, 3 systems, 1 workload, 2 not ok (listed with their reasons)"
  std::string counts() const {
    std::set<std::string> systems, workloads;
    std::size_t failed = 0, diverged = 0, candidates = 0;
    for (const Record& record : records_) {
      systems.insert(record.system);
      workloads.insert(record.workload);
      const bool is_divergence = record.outcome == RecordOutcome::diverged;
      diverged += is_divergence && record.purpose == Purpose::measure;
      failed += record.outcome != RecordOutcome::ok && !is_divergence;
      candidates += record.purpose == Purpose::tune;
    }
    const auto plural = [](std::size_t n) { return n == 1 ? "" : "s"; };
    return fmt::format("{} record{}, {} system{}, {} workload{}{}{}{}", records_.size(), plural(records_.size()),
                       systems.size(), plural(systems.size()), workloads.size(), plural(workloads.size()),
                       candidates == 0 ? "" : fmt::format(", {} of them to tune learning rates", candidates),
                       diverged == 0 ? "" : fmt::format(", {} diverged (which is a result)", diverged),
                       failed == 0 ? "" : fmt::format(", {} not ok (listed with their reasons)", failed));
  }

  std::string left_out() const {
    if (charts_.left_out.empty()) return "";
    std::string html = "<ul class=\"soft\" id=\"left-out\">";
    for (const std::string& sentence : charts_.left_out) html += "<li>" + escape_html(sentence) + "</li>";
    return html + "</ul>\n";
  }

  std::string links() const {
    std::string html;
    const auto link = [&](const std::string& id, const std::string& text) {
      html += fmt::format("<a href=\"#{}\">{}</a>", escape_html(id), escape_html(text));
    };
    if (!charts_.overview.empty()) link("overview", "Overview");
    if (charts_.sections.size() <= 8)
      for (const ChartSection& part : charts_.sections) link(part.id, part.heading);
    if (!charts_.boundary_charts.empty()) link("boundaries", "Divergence boundaries");
    for (const ReportPart& part : charts_.parts) link(part.id, part.heading);
    link("fairness", "How fair is this?");
    link("machine", "The machine");
    return html;
  }

  std::string winner(const Win& win) const {
    return fmt::format("<span class=\"swatch\" style=\"background:{}\"></span><b>{}</b>",
                       system_style(win.row->system).color, escape_html(win.name));
  }

  static std::string small(const std::string& text, const char* attributes = "") {
    return text.empty() ? "" : fmt::format("<br><small{}>{}</small>", attributes, breakable_name(text));
  }

  static std::string confidence_text(const Win& win) {
    static const std::map<Confidence, const char*> words = {
        {Confidence::sure, "sure: "},       {Confidence::likely, "likely: "},     {Confidence::tie, ""},
        {Confidence::unsure, "not sure: "}, {Confidence::unknown, "not known: "},
    };
    if (win.confidence == Confidence::none) return "";
    return small(words.at(win.confidence) + win.why, win.confidence == Confidence::sure ? " class=\"sure\"" : "");
  }

  static std::string unfinished(const Answer& answer) {
    if (answer.unfinished.empty()) return "all finished";
    std::string html;
    for (const Unfinished& group : answer.unfinished) {
      const std::size_t count = group.names.size();
      const std::string names = escape_html(fmt::format("{}", fmt::join(group.names, "; ")));
      const std::string what = fmt::format("{} {}", count, escape_html(group.outcome));
      const std::string why = small((count > 1 ? "the first: " : "") + shortened(group.reason, 160));
      constexpr std::size_t kUnfolded = 3;
      html += count <= kUnfolded
                  ? fmt::format("<div>{}: {}{}</div>", what, names, why)
                  : fmt::format("<details class=\"why\"><summary>{}</summary>{}{}</details>", what, names, why);
    }
    return html;
  }

  // A cell of the answers; without a value it is sorted last. "–" for no html.
  static std::string answer_cell(const char* name, const std::string& html, std::optional<double> value = {}) {
    return fmt::format("<td data-name=\"{}\"{}>{}</td>", name, value ? fmt::format(" data-v=\"{:.9g}\"", *value) : "",
                       html.empty() ? "–" : html);
  }

  std::string answer_row(const ChartSection& part, const Comparison& c, const Answer& answer, bool several,
                         bool targets, bool qualities) const {
    std::string setting = clock_text(c) + " · " + c.cluster + " · " + panel_title(c, part.comparisons);
    for (const std::string& more : {part.apart, options_text(c)})
      if (!more.empty()) setting += " · " + more;
    const std::string kind = !several ? "" : answer.asynchronous ? "asynchronous systems" : "synchronous systems";
    std::string html = fmt::format("<tr><td><a href=\"#{}\">{}</a>{}{}</td>", escape_html(part.id),
                                   escape_html(c.title), small(setting), small(kind));
    const Win &fastest = answer.fastest, &soonest = answer.soonest, &least = answer.min_memory;
    std::string first;
    if (fastest.row)
      first = winner(fastest) +
              small(fastest.value + (answer.over_one_device.empty() ? "" : ", " + answer.over_one_device));
    else if (!answer.faster_but_missed.empty())
      first = "none reaches the target";
    for (const std::string& missed : answer.faster_but_missed) first += small(missed, " class=\"bad\"");
    html += answer_cell("Fastest", first, fastest.row ? middle(fastest.row->throughput) : std::nullopt);
    html += answer_cell("By how much", !fastest.row ? ""
                                       : fastest.lead.empty() && fastest.confidence == Confidence::none
                                           ? "the only one"
                                           : escape_html(fastest.lead) + confidence_text(fastest));
    if (qualities) html += answer_cell("Its quality", escape_html(answer.quality) + small(answer.reached));
    html += answer_cell("Its peak memory", escape_html(answer.peak_memory),
                        fastest.row ? middle(fastest.row->peak_memory) : std::nullopt);
    if (targets)
      html += soonest.row ? answer_cell("Soonest at its target",
                                        winner(soonest) +
                                            small(soonest.value + (soonest.lead.empty() ? "" : "; " + soonest.lead)) +
                                            confidence_text(soonest),
                                        middle(soonest.row->time_to_accuracy))
                          : answer_cell("Soonest at its target", "");
    html += least.row ? answer_cell("Least memory", winner(least) + small(least.value + " on its fullest rank"),
                                    middle(least.row->peak_memory))
                      : answer_cell("Least memory", "");
    return html + answer_cell("Did not finish", unfinished(answer)) + "</tr>\n";
  }

  // A row for the synchronous systems of every comparison and one for the asynchronous ones: the winner, by how much,
  // how sure, at what quality and memory, and what has no result.
  std::string answers() const {
    std::map<std::string, std::vector<Comparison>> by_clock;
    bool targets = false, qualities = false;
    for (const ChartSection& part : charts_.sections)
      for (const Comparison& c : part.comparisons) {
        by_clock[c.clock].push_back(c);
        for (const Answer& answer : answers_of(c)) {
          targets |= answer.soonest.row != nullptr;
          qualities |= !answer.quality.empty() || !answer.reached.empty();
        }
      }
    if (by_clock.empty()) return "";
    std::string rows;
    for (const ChartSection& part : charts_.sections)
      for (const Comparison& c : part.comparisons) {
        const std::vector<Answer> all = answers_of(c);
        for (const Answer& answer : all)
          rows += answer_row(part, c, answer, all.size() > 1 || answer.asynchronous, targets, qualities);
      }
    std::string html = "<h2 id=\"answers\">Answers</h2>\n";
    for (const auto& [clock, comparisons] : by_clock)
      for (const bool asynchronous : {false, true})
        if (const std::string text = wins_text(comparisons, asynchronous); !text.empty())
          html += fmt::format("<p>Fastest {}synchronous system on the {} clock: {}.</p>\n", asynchronous ? "a" : "",
                              escape_html(clock), escape_html(text));
    return html + "<div class=\"scroll\"><table class=\"answers sort\"><thead><tr><th>Workload</th><th>Fastest</th>" +
           "<th>By how much, and how sure</th>" + (qualities ? "<th>Its quality</th>" : "") +
           "<th>Its peak memory</th>" + (targets ? "<th>Soonest at its target</th>" : "") +
           "<th>Least memory</th><th>Did not finish</th></tr></thead><tbody>\n" + rows + "</tbody></table></div>\n";
  }

  std::string figure(const Chart& chart, const std::string& records_id) const {
    const std::string name = escape_html(chart.name);
    std::string links = fmt::format("<a href=\"#{}\" data-records=\"{}\">records</a>", escape_html(records_id),
                                    escape_html(chart.records));
    const auto link = [&](const std::string& ending) {
      links += fmt::format(" <a href=\"charts/{0}.{1}\">{1}</a>", name, ending);
    };
    link("svg");
    for (const PictureFormat format : formats_)
      if (format != PictureFormat::svg) link(choice_name(format));
    link("vl.json");
    const auto found = pictures_.find(chart.name);
    const InlineSvg picture = found == pictures_.end() ? InlineSvg{} : inline_svg(found->second, chart.name);
    return fmt::format(
        "<figure id=\"figure-{}\" style=\"--w:{:.0f}px\"><div class=\"chart\" role=\"img\" "
        "aria-label=\"{}\">{}</div>"
        "<figcaption>{}</figcaption></figure>\n",
        name, picture.width, escape_html(chart.title), picture.markup, links);
  }

  std::string grid(const std::vector<Chart>& charts, const std::string& records_id) const {
    std::string html = "<div class=\"grid\">\n";
    for (const Chart& chart : charts) html += figure(chart, records_id);
    return html + "</div>\n";
  }

  // The script draws them, each once it is in sight; op_kinds() has their colours.
  static std::string timelines(const ChartSection& part) {
    if (part.timelines.empty()) return "";
    std::map<std::string, double> longest;  // seconds, of a group
    for (const Timeline& t : part.timelines) longest[t.group] = std::max(longest[t.group], t.seconds);
    std::string html =
        "<noscript><p>A script draws the timelines.</p></noscript>\n"
        "<p class=\"soft\">Bubble: the share of the ranks' time in which they do not compute; theory: what the "
        "system's paper promises for equal stages without messages. Timelines of an update share one time axis for "
        "each number of ranks, and "
        "so do those of asynchronous systems, which show their first batches.</p>\n<div class=\"grid\">\n";
    for (const Timeline& t : part.timelines) {
      Json data = t.data;
      data["axis"] = longest[t.group];
      std::string notes;
      for (const std::string& note : t.notes) notes += (notes.empty() ? "" : " · ") + escape_html(note);
      html += fmt::format(
          "<figure class=\"timeline\" id=\"figure-{}\"><h4>{}</h4><p class=\"soft\">{}</p>"
          "<div class=\"chart\"><canvas role=\"img\" aria-label=\"Timeline of {}\"></canvas></div>"
          "<script type=\"application/json\">{}</script>"
          "<figcaption><a href=\"#{}-records\" data-records=\"{}\">records</a></figcaption></figure>\n",
          escape_html(t.name), escape_html(t.title), notes, escape_html(t.title), script_json(data),
          escape_html(part.id), escape_html(t.records));
    }
    return html + "</div>\n";
  }

  static std::string op_kinds() {
    Json kinds = Json::array();
    for (const OpLook& look : kOpKinds) kinds.push_back(Json::array({look.title, look.color, look.ink}));
    return kinds.dump();
  }

  static std::string folded_section(const std::string& id, const std::string& heading, const std::string& text,
                                    const std::string& panels) {
    return fmt::format(
        "<details class=\"section\" open id=\"{}\"><summary><h2>{}</h2></summary>\n<p class=\"soft\">{}</p>\n"
        "{}</details>\n",
        escape_html(id), escape_html(heading), escape_html(text), panels);
  }

  static std::string panel(const std::string& tab, const std::string& content) {
    if (content.empty()) return "";
    return fmt::format("<div class=\"panel\" data-tab=\"{0}\"><h3 class=\"tab\">{0}</h3>\n{1}</div>\n", tab, content);
  }

  std::string charts_of(const ChartSection& part, ChartTopic topic) const {
    std::vector<Chart> chosen;
    std::ranges::copy_if(part.charts, std::back_inserter(chosen), [&](const Chart& c) { return c.topic == topic; });
    return chosen.empty() ? "" : grid(chosen, part.id + "-records");
  }

  std::string results(const ChartSection& part) const {
    std::string html;
    for (const Comparison& c : part.comparisons) {
      html += "<h3>Results, " + escape_html(panel_title(c, part.comparisons)) + "</h3>\n<div>" + results_table(c) +
              "</div>" + verdict_list(c) + tuning_table(c);
      if (const std::string baseline = baseline_title(c); !baseline.empty())
        html += "<p class=\"soft\">Ratio: throughput relative to " + escape_html(baseline) + ".</p>\n";
    }
    return html;
  }

  std::string planners(const ChartSection& part) const {
    std::string html = charts_of(part, ChartTopic::planners);
    for (const Comparison& c : part.comparisons)
      if (const std::string table = planner_table(c); !table.empty())
        html += "<h3>Planners, " + escape_html(panel_title(c, part.comparisons)) + "</h3>\n" + table +
                "<p class=\"soft\">Each planner minimises its own objective; one simulator evaluates all "
                "plans. Depth: stages on the longest path. Peak: the largest rank's.</p>\n";
    return html;
  }

  // Theory does not depend on the learning rate: once for every rank count.
  std::string theory(const ChartSection& part) const {
    std::string html;
    std::set<int> shown;
    for (const Comparison& c : part.comparisons)
      if (const std::string table = theory_table(c); !table.empty() && shown.insert(c.ranks).second)
        html += "<h3>Theory and observation, " + ranks_text(c.ranks) + "</h3>\n" + table;
    return html;
  }

  std::string section(const ChartSection& part) {
    std::vector<const Record*> own;
    std::set<std::string_view> seen;
    for (const Comparison& c : part.comparisons)
      for (const ComparisonRow& row : c.rows)
        for (const Record& record : row.records)
          if (seen.insert(record.digest).second) own.push_back(&record);
    for (const Record* record : own) shown_.insert(record->digest);
    return folded_section(
        part.id, part.heading, setting(part.comparisons),
        panel("Results", results(part)) + panel("Throughput", charts_of(part, ChartTopic::throughput)) +
            panel("Accuracy", charts_of(part, ChartTopic::accuracy)) +
            panel("Memory", charts_of(part, ChartTopic::memory)) +
            panel("Scaling", charts_of(part, ChartTopic::scaling)) + panel("Planners", planners(part)) +
            panel("Communication", charts_of(part, ChartTopic::communication)) + panel("Theory", theory(part)) +
            panel("Timelines", timelines(part)) +
            panel("Records", "<div>" + record_table(own, part.id + "-records") + "</div>"));
  }

  std::string boundary_section() const {
    if (charts_.boundary_charts.empty()) return "";
    std::string html;
    for (const StableRates& b : charts_.boundaries) {
      html += fmt::format("<p class=\"soft\">{}, {} clock on {}, {}: ", escape_html(b.title), escape_html(b.clock),
                          escape_html(b.cluster), ranks_text(b.ranks));
      std::string rows;
      for (const StableRateRow& row : b.rows)
        rows += (rows.empty() ? "" : "; ") + title_of(row) + " " + rate_text(row, b);
      html += escape_html(rows) + ".</p>\n";
    }
    return filled_page("boundaries.html", {{"charts", grid(charts_.boundary_charts, "records")}, {"rates", html}});
  }

  // Links to the sections' records, and those that no section has: of tuning and of boundaries.
  std::string other_records() const {
    std::string html = "<h2 id=\"records\">Records</h2>\n<p>A row's digest finds its line in the file of records.";
    for (const ChartSection& part : charts_.sections)
      html += fmt::format(" <a href=\"#{}-records\">{}</a>", escape_html(part.id), escape_html(part.heading));
    html += "</p>\n";
    std::vector<const Record*> others;
    for (const Record& record : records_)
      if (!shown_.contains(record.digest)) others.push_back(&record);
    if (others.empty()) return html;
    const std::size_t count = others.size();
    others.resize(std::min(count, kMaxRows));
    const std::string what = count > kMaxRows
                                 ? fmt::format("The first {} of {} other records", kMaxRows, count)
                                 : fmt::format("{} records of tuning, boundaries and earlier results", count);
    return html + "<details open><summary>" + what + "</summary>" + record_table(others, "other-records") +
           "</details>\n";
  }

  const ChartSet& charts_;
  std::span<const Record> records_;
  const std::map<std::string, std::string>& pictures_;
  const std::vector<PictureFormat>& formats_;
  std::set<std::string> shown_;  // digests of the records in the sections' tables
};

}  // namespace

std::string report_html(const ChartSet& charts, std::span<const Record> records,
                        const std::map<std::string, std::string>& pictures, const std::vector<PictureFormat>& formats) {
  return Page(charts, records, pictures, formats).html();
}

}  // namespace sluice
