// report.html: what was measured and how, then a section for each workload and clock with its
// tables and charts. Every text that comes from records is escaped; charts are drawn when they come
// into view, because a page with fifty of them should open at once.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "harness/core/units.h"
#include "plots/report.h"
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
th,td{padding:7px 9px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
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

std::string cell(const std::string& text, const char* attributes = "") {
  return fmt::format("<td{}>{}</td>", attributes, text.empty() ? "–" : escape_html(text));
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

// A figure of theory or observation: a number, a list of one a rank, a text.
std::string figure_text(const json& value, bool share) {
  if (value.is_null()) return "";
  if (value.is_number() && share) return fmt::format("{:.1f} %", 100 * value.get<double>());
  if (value.is_number()) return fmt::format("{:.4g}", value.get<double>());
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string text;
    for (const json& element : value)
      text += (text.empty() ? "" : ", ") + figure_text(element, share);
    return text;
  }
  return value.dump();
}

std::string figure_text(const json& object, const std::string& name, bool share) {
  const auto found = object.find(name);
  return found == object.end() ? "" : figure_text(*found, share);
}

// The median, and where the seeds differ the smallest and the largest.
template <class Text>
std::string spread_text(const std::optional<Spread>& spread, Text text) {
  if (!spread) return "";
  const std::string low = text(spread->min), high = text(spread->max);
  return text(spread->median) + (low == high ? "" : " (" + low + "–" + high + ")");
}

std::string seconds_text(double value) { return to_text(Seconds(value)); }

std::string time_text(const ComparisonRow& row) {
  if (!row.time_to_accuracy) {
    if (!row.final_metric && row.diverged == 0) return "";
    return row.attempts > 1 ? fmt::format("not reached, 0/{}", row.attempts) : "not reached";
  }
  std::string text = spread_text(row.time_to_accuracy, seconds_text);
  if (row.reached < row.attempts) text += fmt::format(" {}/{}", row.reached, row.attempts);
  return text;
}

std::string name_cell(const ComparisonRow& row, const Palette& palette) {
  return fmt::format("<td><span class=\"swatch\" style=\"background:{}\"></span>{}</td>",
                     palette.color(row.system), escape_html(row.label));
}

std::string ratio_text(const ComparisonRow& row) {
  if (!row.throughput_ratio) return "";
  std::string text = fmt::format("{:.2f}×", *row.throughput_ratio);
  if (row.baseline) return text;
  if (!row.differs) return text + " ?";
  return *row.differs ? text : text + " ~";
}

std::string outcome_text(const ComparisonRow& row) {
  std::string text = row.outcome;
  std::replace(text.begin(), text.end(), '_', ' ');
  if (row.diverged > 1)
    return fmt::format("{} of {} seeds diverged, the first at update {}", row.diverged,
                       row.records.size(), row.first_divergence.value_or(0));
  if (row.outcome == "diverged") return text + " " + row.reason;
  return row.reason.empty() ? text : text + ": " + shortened(row.reason, 300);
}

// Columns that nothing fills are left out, so that the table keeps to the page.
std::string results_table(const Comparison& c, const Palette& palette) {
  using Row = const ComparisonRow&;
  const bool drains = std::any_of(c.rows.begin(), c.rows.end(), [](Row row) {
    return row.time_without_drain && row.time_without_drain->median < row.time_to_accuracy->median;
  });
  const auto peak = [](const std::vector<std::int64_t>& peaks) {
    return peaks.empty() ? "" : to_text(Bytes(*std::max_element(peaks.begin(), peaks.end())));
  };
  const bool seeds =
      std::any_of(c.rows.begin(), c.rows.end(), [](Row row) { return row.records.size() > 1; });
  struct Column {
    std::string head;
    std::function<std::string(Row)> text;
  };
  const std::vector<Column> columns = {
      {"ranks", [](Row row) { return std::to_string(row.ranks); }},
      {"micro-<br>batches", [](Row row) { return std::to_string(row.microbatches); }},
      {"samples/<br>update", [](Row row) { return std::to_string(row.samples_per_update); }},
      {"updates/<br>epoch",
       [](Row row) {
         return row.updates_per_epoch > 0 ? std::to_string(row.updates_per_epoch) : "";
       }},
      {"tuned<br>rate",
       [&](Row row) {
         return c.tuned && row.learning_rate ? fmt::format("{:g}", *row.learning_rate) : "";
       }},
      {"samples/s",
       [](Row row) {
         return spread_text(row.throughput, [](double rate) { return rate_text(rate); });
       }},
      {"95&nbsp;% interval",
       [](Row row) {
         return row.interval ? rate_text(row.interval->low) + "–" + rate_text(row.interval->high)
                             : "";
       }},
      {"ratio", ratio_text},
      {"peak/rank<br>measured", [&](Row row) { return peak(row.measured_peaks); }},
      {"peak/rank<br>predicted", [&](Row row) { return peak(row.predicted_peaks); }},
      {c.target ? fmt::format("time to<br>{:g}", *c.target) : "time to<br>target",
       [&](Row row) { return c.target ? time_text(row) : ""; }},
      {"without<br>drain",
       [&](Row row) { return drains ? spread_text(row.time_without_drain, seconds_text) : ""; }},
      {"final<br>" + escape_html(c.metric),
       [](Row row) {
         return spread_text(row.final_metric, [](double v) { return fmt::format("{:.4g}", v); });
       }},
      {"seeds<br>ok",
       [&](Row row) {
         return seeds ? fmt::format("{}/{}", row.succeeded, row.records.size()) : "";
       }},
  };
  std::string head = "<th>system</th>";
  std::vector<std::string> lines;
  for (Row row : c.rows) lines.push_back(name_cell(row, palette));
  for (const Column& column : columns) {
    std::vector<std::string> texts;
    for (Row row : c.rows) texts.push_back(column.text(row));
    if (std::all_of(texts.begin(), texts.end(), [](const auto& text) { return text.empty(); }))
      continue;
    head += "<th>" + column.head + "</th>";
    for (std::size_t i = 0; i < texts.size(); ++i) lines[i] += cell(texts[i]);
  }
  std::string html = "<div class=\"scroll\"><table><thead><tr>" + head +
                     "<th class=\"text\">outcome</th></tr></thead><tbody>\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Row row = c.rows[i];
    html += row.reference ? "<tr class=\"reference\">" : "<tr>";
    html += lines[i];
    html +=
        cell(outcome_text(row), row.outcome == "ok" ? " class=\"text\"" : " class=\"text bad\"");
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// What the tables say in words: which systems five seeds cannot tell apart.
std::string verdict_list(const Comparison& c) {
  if (c.verdicts.empty()) return "";
  std::string html = "<ul class=\"soft\">\n";
  for (const Verdict& verdict : c.verdicts)
    html += "<li>" + escape_html(to_text(verdict)) + "</li>\n";
  return html + "</ul>\n";
}

// The searches behind a comparison at tuned rates: what was tried, and what was chosen.
std::string tuning_table(const Comparison& c, const Palette& palette) {
  std::string rows;
  for (const ComparisonRow& row : c.rows) {
    const auto results = row.tuning.find("results");
    if (results == row.tuning.end() || !results->is_array()) continue;
    std::string tried;
    for (const json& result : *results) {
      const json value = result.value("value", json(nullptr));
      const std::string text =
          fmt::format("{:g}: {}", result.value("learning_rate", 0.0),
                      value.is_number() ? fmt::format("{:.4g}", value.get<double>())
                                        : result.value("outcome", std::string("?")));
      const bool chosen =
          result.value("learning_rate", json(nullptr)) == row.tuning.value("chosen", json(-1));
      tried += (tried.empty() ? "" : " · ") +
               (chosen ? "<b>" + escape_html(text) + "</b>" : escape_html(text));
    }
    const std::string length = row.tuning.contains("epochs")
                                   ? row.tuning["epochs"].dump() + " epochs"
                                   : row.tuning.value("steps", json(0)).dump() + " updates";
    rows += "<tr>" + name_cell(row, palette) + "<td class=\"text\" style=\"max-width:none\">" +
            tried + "</td>" + cell(row.tuning.value("criterion", std::string())) + cell(length) +
            cell(row.tuning.value("seed", json(0)).dump()) + "</tr>\n";
  }
  if (rows.empty()) return "";
  return "<details><summary>How the learning rates were tuned</summary>"
         "<div class=\"scroll\"><table><thead><tr><th>system</th><th class=\"text\">rate: result "
         "(chosen in bold)</th><th>by "
         "final</th><th>length</th><th>seed</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div></details>\n";
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
    html += fmt::format("<p class=\"soft\">{}, {} clock on {}, {}: ", escape_html(b.title),
                        escape_html(b.clock), escape_html(b.cluster), ranks_text(b.ranks));
    std::string rows;
    for (const StableRateRow& row : b.rows)
      rows += (rows.empty() ? "" : "; ") + row.label + " " + rate_text(row, b);
    html += escape_html(rows) + ".</p>\n";
  }
  return html;
}

std::string theory_table(const Comparison& c, const Palette& palette) {
  struct Line {
    const char *title, *promised, *seen;
    bool share;
  };
  constexpr Line kLines[] = {{"bubble", "bubble", "bubble_ratio", true},
                             {"in flight", "in_flight", "in_flight", false},
                             {"weight versions", "weight_versions", "weight_versions", false},
                             {"staleness", "staleness", "staleness", false}};
  std::string rows;
  for (const ComparisonRow& row : c.rows) {
    const Record& record = row.records.front();
    std::string cells;
    bool any = false;
    for (const Line& line : kLines) {
      const std::string promised = figure_text(record.theory, line.promised, line.share);
      const std::string seen = figure_text(record.observed, line.seen, line.share);
      any |= !promised.empty() || !seen.empty();
      cells += cell(promised) + cell(seen);
    }
    const std::string span = figure_text(record.observed, "span_bubble", true);
    if (any) rows += "<tr>" + name_cell(row, palette) + cells + cell(span) + "</tr>\n";
  }
  if (rows.empty()) return "";
  std::string head = "<tr><th rowspan=\"2\">system</th>", second = "<tr>";
  for (const Line& line : kLines) {
    head += fmt::format("<th colspan=\"2\">{}</th>", line.title);
    second += "<th>theory</th><th>observed</th>";
  }
  head += "<th rowspan=\"2\">bubble over<br>own span</th></tr>";
  return "<div class=\"scroll\"><table><thead>" + head + second + "</tr></thead><tbody>\n" + rows +
         "</tbody></table></div>\n";
}

void flatten(const json& value, const std::string& name,
             std::map<std::string, std::set<std::string>>& into) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      flatten(inner, name.empty() ? key : name + "." + key, into);
  } else {
    into[name].insert(value.is_string() ? value.get<std::string>() : value.dump());
  }
}

// What the records say about the machine; a value that differs between runs is listed.
std::string machine_table(std::span<const Record> records) {
  std::map<std::string, std::set<std::string>> facts;
  for (const Record& record : records) flatten(record.environment, "", facts);
  if (facts.empty()) return "<p class=\"soft\">The records do not describe the machine.</p>\n";
  std::string html = "<div class=\"scroll\"><table><tbody>\n";
  for (const auto& [name, values] : facts) {
    std::string text;
    std::size_t count = 0;
    for (const std::string& value : values) {
      if (++count > 4) break;
      text += (text.empty() ? "" : "; ") + shortened(value, 160);
    }
    if (values.size() > 4) text += fmt::format("; … ({} values)", values.size());
    html +=
        "<tr>" + cell(name) + cell(text, " class=\"text\" style=\"max-width:none\"") + "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
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
      records.size(), records.size() == 1 ? "" : "s", systems.size(),
      systems.size() == 1 ? "" : "s", workloads.size(), workloads.size() == 1 ? "" : "s",
      candidates == 0 ? "" : fmt::format(", {} of them to tune learning rates", candidates),
      diverged == 0 ? "" : fmt::format(", {} diverged (which is a result)", diverged),
      failed == 0 ? "" : fmt::format(", {} not ok (listed with their reasons)", failed));
  html += "<nav>";
  for (const ChartSection& section : charts.sections)
    html += fmt::format("<a href=\"#{}\">{}</a>", escape_html(section.id),
                        escape_html(section.heading));
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

std::string escape_html(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string report_html(const ChartSet& charts, std::span<const Record> records,
                        const std::string& bundle) {
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
    html += fmt::format("<h2 id=\"{}\">{}</h2>\n<p class=\"soft\">{}</p>\n",
                        escape_html(section.id), escape_html(section.heading),
                        escape_html(setting(section.comparisons.front())));
    for (const Comparison& c : section.comparisons) {
      html += "<h3>Results, " + escape_html(panel_title(c, section.comparisons)) + "</h3>\n" +
              results_table(c, palette) + verdict_list(c) + tuning_table(c, palette);
      if (!c.baseline.empty())
        html += "<p class=\"soft\">Ratio: throughput relative to " + escape_html(c.baseline) +
                ".</p>\n";
    }
    std::string timelines;
    for (const Chart& chart : section.charts) {
      if (chart.name.starts_with("timeline-")) {
        timelines += figure(chart);
      } else {
        html += figure(chart);
      }
    }
    // Theory does not depend on the learning rate: once for every rank count.
    std::set<int> shown;
    for (const Comparison& c : section.comparisons)
      if (const std::string table = theory_table(c, palette);
          !table.empty() && shown.insert(c.ranks).second)
        html += "<h3>Theory and observation, " + ranks_text(c.ranks) + "</h3>\n" + table;
    if (!timelines.empty())
      html += "<details><summary>Timelines</summary>\n" + timelines + "</details>\n";
  }
  html += boundary_section(charts);
  html += "</main>\n<script>" + script_source(bundle) + "</script>\n<script>";
  html += kScript;
  html += "</script>\n</body></html>\n";
  return html;
}

}  // namespace sluice
