// report.html: what was measured and how, then a section for each workload and clock with its tables and charts. Every
// text that comes from records is escaped; charts are drawn when they come into view, because a page with fifty of them
// should open at once.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "plots/report.h"
#include "plots/report_tables.h"
#include "plots/style.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr const char* kCss = R"css(
:root{--ink:#1d2530;--soft:#5a6472;--line:#dfe3e8;--back:#f7f8fa;--accent:#2f5d8a}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);
  font:16px/1.55 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
main{max-width:1280px;margin:0 auto;padding:32px 24px 80px}
h1{font-size:30px;margin:0 0 4px}
h2{font-size:23px;margin:52px 0 6px;padding-top:14px;border-top:2px solid var(--line)}
h3{font-size:17px;margin:30px 0 8px}
p{max-width:78ch;margin:8px 0}
.soft{color:var(--soft);font-size:14px}
nav a{display:inline-block;margin:0 14px 4px 0}
a{color:var(--accent)}
.scroll{overflow-x:auto;background:#fff;border:1px solid var(--line);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
small{color:var(--soft);font-weight:400}
th,td{padding:6px 8px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{background:#eef1f5;font-weight:600;vertical-align:bottom}
tr:first-child th:first-child,td:first-child,td.text,th.text{text-align:left}
th[colspan]{text-align:center}
td.text{white-space:normal;max-width:46ch;overflow-wrap:anywhere}
td.bad{min-width:26ch}
tr:last-child td{border-bottom:0}
tr.reference td{background:#f2f4f7;font-weight:600}
.bad{color:#b3261e}
.swatch{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:7px}
figure{margin:18px 0;padding:14px;background:#fff;border:1px solid var(--line);border-radius:8px}
.chart{min-height:140px;overflow-x:auto;width:100%}
figcaption{font-size:13px;color:var(--soft);margin-top:4px}
details{margin:14px 0}
summary{cursor:pointer;font-weight:600}
@media print{body{background:#fff}figure{break-inside:avoid}}
)css";

// Draws a chart when it is near the screen; all of them before printing.
constexpr const char* kScript = R"js(
(function () {
  var options = {renderer: 'svg', logLevel: 1,
    actions: {export: true, source: false, compiled: false, editor: false}};
  function draw(element) {
    if (element.dataset.drawn) return;
    element.dataset.drawn = '1';
    var spec = JSON.parse(document.getElementById(element.dataset.spec).textContent);
    vegaEmbed(element, spec, options).catch(function (error) { element.textContent = String(error); });
  }
  var charts = document.querySelectorAll('.chart');
  if ('IntersectionObserver' in window) {
    var seen = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) { if (entry.isIntersecting) draw(entry.target); });
    }, {rootMargin: '600px'});
    charts.forEach(function (chart) { seen.observe(chart); });
  } else {
    charts.forEach(draw);
  }
  window.addEventListener('beforeprint', function () { charts.forEach(draw); });
})();
)js";

// JSON inside <script>: no text in it may end the element.
std::string script_json(const json& value) {
  std::string result;
  for (const char c : value.dump(-1, ' ', false, json::error_handler_t::replace))
    result += c == '<' ? "\\u003c" : std::string(1, c);
  return result;
}

std::string script_source(std::string source) {
  for (std::size_t at = 0; (at = source.find("</", at)) != std::string::npos; at += 3)
    if (source.compare(at + 2, 6, "script") == 0) source.replace(at, 2, "<\\/");
  return source;
}

std::string figure(const Chart& chart) {
  const std::string name = escape_html(chart.name);
  std::string links;
  for (const char* ending : {"svg", "png", "pdf", "vl.json"})
    links += fmt::format(" <a href=\"charts/{0}.{1}\">{1}</a>", name, ending);
  return fmt::format(
      "<figure><div class=\"chart\" role=\"img\" aria-label=\"{}\" data-spec=\"spec-{}\"></div>"
      "<script type=\"application/json\" id=\"spec-{}\">{}</script>"
      "<figcaption>{}:{}</figcaption></figure>\n",
      escape_html(chart.title), name, name, script_json(chart.spec), name, links);
}

std::string boundary_section(const ChartSet& charts) {
  if (charts.boundary_charts.empty()) return "";
  std::string html = R"(<h2 id="boundaries">Divergence boundaries</h2>
<p>The largest learning rate that each system stands, on a grid of rates: the cheapest measure of what
stale weights cost. It and every smaller rate of the grid is stable for all seeds; beyond it at least one
seed diverges or does not learn.</p>
)";
  for (const Chart& chart : charts.boundary_charts) html += figure(chart);
  for (const StableRates& b : charts.boundaries) {
    html += fmt::format("<p class=\"soft\">{}, {} clock on {}, {}: ", escape_html(b.title), escape_html(b.clock),
                        escape_html(b.cluster), ranks_text(b.ranks));
    std::string rows;
    for (const StableRateRow& row : b.rows) rows += (rows.empty() ? "" : "; ") + row.label + " " + rate_text(row, b);
    html += escape_html(rows) + ".</p>\n";
  }
  return html;
}

std::string introduction(const ChartSet& charts, std::span<const Record> records) {
  std::set<std::string> systems, workloads;
  std::size_t failed = 0, diverged = 0, candidates = 0;
  for (const Record& record : records) {
    systems.insert(record.system);
    workloads.insert(record.workload);
    const bool is_divergence = record.outcome == "diverged";
    diverged += is_divergence && record.purpose == "measure";
    failed += record.outcome != "ok" && !is_divergence;
    candidates += record.purpose == "tune";
  }
  std::string html = fmt::format(
      "<h1>Sluice report</h1>\n<p class=\"soft\">{} record{}, {} system{}, {} "
      "workload{}{}{}{}</p>\n",
      records.size(), records.size() == 1 ? "" : "s", systems.size(), systems.size() == 1 ? "" : "s", workloads.size(),
      workloads.size() == 1 ? "" : "s",
      candidates == 0 ? "" : fmt::format(", {} of them to tune learning rates", candidates),
      diverged == 0 ? "" : fmt::format(", {} diverged (which is a result)", diverged),
      failed == 0 ? "" : fmt::format(", {} not ok (listed with their reasons)", failed));
  html += "<nav>";
  for (const ChartSection& section : charts.sections)
    html += fmt::format("<a href=\"#{}\">{}</a>", escape_html(section.id), escape_html(section.heading));
  if (!charts.boundary_charts.empty()) html += "<a href=\"#boundaries\">Divergence boundaries</a>";
  html += R"(</nav>
<h3>What was measured, and how fair it is</h3>
<p>In one section all systems train on the same global batch, in the same data order, from the same
initial weights. Samples per update and updates per epoch stand beside every result, because a system
that updates more often on fewer samples learns differently. The single_device row is always shown:
it is what no parallel run may lose against unnoticed. A run that failed is a row with its reason; one
that <b>diverged</b> (its loss stopped being a finite number) is a result, and counts as not reaching the
target. Results at a learning rate that all systems share and at each system's own tuned one stand side
by side and are never mixed.</p>
<p>Figures are medians over the seeds with the smallest and the largest; <b>4/5</b> says how many seeds
reached the target. Two systems <b>cannot be told apart</b> on a metric where the ranges of five or more
seeds overlap: of two equal systems, five seeds each fall apart in 1 of 126 cases. With fewer seeds nothing
is said.</p>
<p><b>Throughput</b> is the samples of a step over the median step time after the warm-up, with a
distribution-free 95&nbsp;% interval; <b>~</b> marks what cannot be told apart from the baseline
because the ranges over seeds (with fewer than five: the intervals) overlap, <b>?</b> where there are too
few steps to say. <b>Peak memory</b> is the
largest rank's. <b>Time to target</b> is training time until the metric first reaches the target:
evaluation is excluded, draining the pipeline is included; <b>without drain</b> is the same in a pipe that
is never emptied for an evaluation. The <b>wall clock</b> times real execution
on this machine; the <b>virtual clock</b> is a simulation of the named cluster. No chart or table mixes
the two.</p>
<details><summary>The machine</summary>
)";
  return html + machine_table(records) + "</details>\n";
}

}  // namespace

std::string report_html(const ChartSet& charts, std::span<const Record> records, const std::string& bundle) {
  const Palette palette(records);
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>Sluice report</title>\n<style>";
  html += kCss;
  html += "</style></head>\n<body><main>\n" + introduction(charts, records);
  if (!charts.overview.empty()) html += "<h2>Overview</h2>\n";
  for (const Chart& chart : charts.overview) html += figure(chart);
  for (const ChartSection& section : charts.sections) {
    html += fmt::format("<h2 id=\"{}\">{}</h2>\n<p class=\"soft\">{}</p>\n", escape_html(section.id),
                        escape_html(section.heading), escape_html(setting(section.comparisons.front())));
    for (const Comparison& c : section.comparisons) {
      html += "<h3>Results, " + escape_html(panel_title(c, section.comparisons)) + "</h3>\n" +
              results_table(c, palette) + verdict_list(c) + tuning_table(c, palette);
      if (!c.baseline.empty())
        html += "<p class=\"soft\">Ratio: throughput relative to " + escape_html(c.baseline) + ".</p>\n";
    }
    for (const Comparison& c : section.comparisons)
      if (const std::string table = planner_table(c, palette); !table.empty())
        html += "<h3>Planners, " + escape_html(panel_title(c, section.comparisons)) + "</h3>\n" + table +
                "<p class=\"soft\">Each planner minimises its own objective; one simulator evaluates all "
                "plans. Depth: stages on the longest path. Peak: the largest rank's.</p>\n";
    std::string timelines;
    for (const Chart& chart : section.charts) {
      if (chart.kind == ChartKind::timeline) {
        timelines += figure(chart);
      } else {
        html += figure(chart);
      }
    }
    // Theory does not depend on the learning rate: once for every rank count.
    std::set<int> shown;
    for (const Comparison& c : section.comparisons)
      if (const std::string table = theory_table(c, palette); !table.empty() && shown.insert(c.ranks).second)
        html += "<h3>Theory and observation, " + ranks_text(c.ranks) + "</h3>\n" + table;
    if (!timelines.empty()) html += "<details><summary>Timelines</summary>\n" + timelines + "</details>\n";
  }
  html += boundary_section(charts);
  html += "</main>\n<script>" + script_source(bundle) + "</script>\n<script>";
  html += kScript;
  html += "</script>\n</body></html>\n";
  return html;
}

}  // namespace sluice
