// The tables of report.html: see report_tables.h.
#include "plots/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "harness/base/json.h"
#include "harness/base/quantities.h"
#include "harness/base/visible_text.h"
#include "plots/report.h"
#include "plots/row_outcome.h"
#include "plots/style.h"
#include "results/comparison_rows.h"
#include "results/fields.h"
#include "results/metrics.h"
#include "results/system_style.h"
#include "results/tell_apart.h"

namespace sluice {
namespace {

// What stands behind a line end is written small, below.
std::string cell(const std::string& text, const char* attributes = "") {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string html = text.empty() ? "–" : escape_html(text.substr(0, end));
  if (end < text.size()) html += "<br><small>" + escape_html(text.substr(end + 1)) + "</small>";
  return fmt::format("<td{}>{}</td>", attributes, html);
}

// A figure of theory or observation: a number, a list of one a rank, a text.
std::string figure_text(const Json& value, bool share) {
  if (value.is_null()) return "";
  if (value.is_number() && share) return fmt::format("{:.1f} %", 100 * value.get<double>());
  if (value.is_number()) return fmt::format("{:.4g}", value.get<double>());
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::vector<std::string> texts;
    for (const Json& element : value) texts.push_back(figure_text(element, share));
    return folded_list(texts);
  }
  return value.dump();
}

std::string figure_text(const Json& object, const std::string& name, bool share) {
  const auto found = object.find(name);
  return !found ? "" : figure_text(*found, share);
}

// The median, and where the seeds differ the smallest and the largest.
template <class Text>
std::string spread_text(const std::optional<Spread>& spread, Text text) {
  if (!spread) return "";
  const std::string low = text(spread->min), high = text(spread->max);
  return text(spread->median) + (low == high ? "" : "\n" + low + " – " + high);
}

std::string seconds_text(double value) { return to_text(Seconds(value)); }

std::string time_text(const ComparisonRow& row) {
  if (!row.time_to_accuracy) {
    if (!row.final_metric && row.diverged == 0) return "";
    return row.attempts > 1 ? fmt::format("not reached, 0/{}", row.attempts) : "not reached";
  }
  std::string text = spread_text(row.time_to_accuracy, seconds_text);
  if (row.reached == row.attempts) return text;
  const std::size_t end = std::min(text.find('\n'), text.size());
  return text.insert(end, fmt::format(", {}/{}", row.reached, row.attempts));
}

std::string name_cell(const ComparisonRow& row) {
  return fmt::format("<td><span class=\"swatch\" style=\"background:{}\"></span>{}</td>",
                     system_style(row.system).color, breakable_name(title_of(row)));
}

std::string ratio_text(const ComparisonRow& row) {
  if (!row.throughput_ratio) return "";
  std::string text = fmt::format("{:.2f}×", *row.throughput_ratio);
  if (row.baseline) return text;
  if (!row.differs) return text + " ?";
  return *row.differs ? text : text + " ~";
}

std::string outcome_text(const ComparisonRow& row) {
  std::string text = outcome_words(row.outcome);
  if (row.diverged > 1)
    return fmt::format("{} of {} seeds diverged, the first at update {}", row.diverged, row.records.size(),
                       row.first_divergence.value_or(0));
  if (row.outcome == RecordOutcome::diverged) return text + " " + row.reason;
  return row.reason.empty() ? text : text + ": " + shortened(row.reason, 300);
}

void flatten(const Json& value, const std::string& name, std::map<std::string, std::set<std::string>>& into) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) flatten(inner, name.empty() ? key : name + "." + key, into);
  } else if (!value.is_null()) {
    into[name].insert(value.is_number() ? fmt::format("{:.4g}", value.get<double>()) : value.text());
  }
}

}  // namespace

std::string escape_html(const std::string& text) {
  static const std::map<char, std::string> escapes = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string result;
  for (const char c : text) {
    const auto escape = escapes.find(c);
    result += escape == escapes.end() ? std::string(1, c) : escape->second;
  }
  return result;
}

std::string breakable_name(const std::string& name) {
  std::string html;
  const std::string text = escape_html(name);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool joins = text.compare(i, 2, " %") == 0 || text.compare(i, 6, " ranks") == 0;
    html += joins ? "&nbsp;" : std::string(1, text[i]);
    if (text[i] == '_' || text[i] == '=' || text[i] == ',') html += "<wbr>";
  }
  return html;
}

static std::optional<long> whole_number(const std::string& text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("-0123456789") != std::string::npos)
    return std::nullopt;
  return std::strtol(text.c_str(), nullptr, 10);
}

std::string folded_list(const std::vector<std::string>& texts) {
  std::string result;
  for (std::size_t from = 0; from < texts.size();) {
    // The longest run of equal texts, or of numbers one apart.
    std::size_t equal = from + 1, steps = from + 1;
    while (equal < texts.size() && texts[equal] == texts[from]) ++equal;
    const auto first = whole_number(texts[from]);
    const auto second = from + 1 < texts.size() ? whole_number(texts[from + 1]) : std::nullopt;
    const long step = first && second ? *second - *first : 0;
    if (step == 1 || step == -1)
      while (steps < texts.size() &&
             whole_number(texts[steps]) == first.value() + step * static_cast<long>(steps - from))
        ++steps;
    if (!result.empty()) result += ", ";
    if (steps - from >= 3) {
      result += texts[from] + " to " + texts[steps - 1];
      from = steps;
    } else if (equal - from >= 3) {
      result += fmt::format("{} × {}", equal - from, texts[from]);
      from = equal;
    } else {
      result += texts[from++];
    }
  }
  return result;
}

// Columns that nothing fills are left out, so that the table keeps to the page.
std::string results_table(const Comparison& c) {
  using Row = const ComparisonRow&;
  const bool drains = std::any_of(c.rows.begin(), c.rows.end(), [](Row row) {
    return row.time_without_drain && row.time_without_drain->median < row.time_to_accuracy->median;
  });
  const auto peak = [](const std::vector<std::int64_t>& peaks) {
    return peaks.empty() ? "" : to_text(Bytes(*std::max_element(peaks.begin(), peaks.end())));
  };
  const bool seeds = std::any_of(c.rows.begin(), c.rows.end(), [](Row row) { return row.records.size() > 1; });
  struct Column {
    std::string head;
    std::function<std::string(Row)> text;
  };
  const auto of_field = [](const char* name) {
    return [&field = *find_field(name)](Row row) {
      return spread_text(row.figure(field), [&](double value) { return to_text(field.unit, value); });
    };
  };
  const std::vector<Column> columns = {
      // What a narrow screen shows without scrolling comes first.
      {"samples/s",
       [](Row row) {
         return row.throughput ? spread_text(row.throughput, [](double rate) { return rate_text(rate); })
                               : short_outcome(row);
       }},
      {"ratio", ratio_text},
      {"peak/rank<br>measured", [&](Row row) { return peak(row.measured_peaks); }},
      {"peak/rank<br>predicted", [&](Row row) { return peak(row.predicted_peaks); }},
      {c.target ? fmt::format("time to<br>{:g}", *c.target) : "time to<br>target",
       [&](Row row) { return c.target ? time_text(row) : ""; }},
      {"without<br>drain", [&](Row row) { return drains ? spread_text(row.time_without_drain, seconds_text) : ""; }},
      {"final<br>" + escape_html(c.metric), [](Row row) { return spread_text(row.final_metric, metric_text); }},
      {"seeds<br>ok", [&](Row row) { return seeds ? fmt::format("{}/{}", row.succeeded, row.records.size()) : ""; }},
      {"tokens/s",
       [&field = *find_field("tokens_per_second")](Row row) {
         return spread_text(row.figure(field), [](double rate) { return rate_text(rate); });
       }},
      {"MFU", of_field("mfu")},
      {"95&nbsp;% interval",
       [](Row row) {
         const auto& interval = row.interval;
         return interval ? rate_text(interval->low) + "–" + rate_text(interval->high) : "";
       }},
      {"ranks", [](Row row) { return std::to_string(row.ranks); }},
      {"micro-<br>batches", [](Row row) { return std::to_string(row.microbatches); }},
      {"samples/<br>update", [](Row row) { return std::to_string(row.samples_per_update); }},
      {"updates/<br>epoch",
       [](Row row) { return row.updates_per_epoch > 0 ? std::to_string(row.updates_per_epoch) : ""; }},
      {"tuned<br>rate",
       [&](Row row) { return c.tuned && row.learning_rate ? fmt::format("{:g}", *row.learning_rate) : ""; }},
  };
  std::string head = "<th>system</th>";
  std::vector<std::string> lines;
  for (Row row : c.rows) lines.push_back(name_cell(row));
  for (const Column& column : columns) {
    std::vector<std::string> texts;
    for (Row row : c.rows) texts.push_back(column.text(row));
    if (std::all_of(texts.begin(), texts.end(), [](const auto& text) { return text.empty(); })) continue;
    head += "<th>" + column.head + "</th>";
    for (std::size_t i = 0; i < texts.size(); ++i) lines[i] += cell(texts[i]);
  }
  std::string html = "<div class=\"scroll\"><table class=\"sort\"><thead><tr>" + head +
                     "<th class=\"text\">outcome</th></tr></thead><tbody>\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Row row = c.rows[i];
    html += row.reference ? "<tr class=\"reference\">" : "<tr>";
    html += lines[i];
    html += cell(outcome_text(row), row.outcome == RecordOutcome::ok ? " class=\"text\"" : " class=\"text bad\"");
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// What the tables say in words: which systems the model's error or five seeds cannot tell apart.
std::string verdict_list(const Comparison& c) {
  std::vector<std::string> sentences;
  if (const std::string places = places_text(c, title_of); !places.empty()) sentences.push_back(places);
  for (const Verdict& verdict : verdicts(c, title_of)) sentences.push_back(to_text(verdict));
  std::string items;
  for (const std::string& sentence : sentences) items += "<li>" + escape_html(sentence) + "</li>\n";
  return items.empty() ? "" : "<ul class=\"soft\">\n" + items + "</ul>\n";
}

static std::string length_text(std::int64_t epochs, std::int64_t steps) {
  return epochs > 0 ? fmt::format("{} epochs", epochs) : fmt::format("{} updates", steps);
}

// The searches behind a comparison at tuned rates: what was tried, and what was chosen.
std::string tuning_table(const Comparison& c) {
  std::string rows;
  for (const ComparisonRow& row : c.rows) {
    if (!row.tuning) continue;
    const Tuning& tuning = row.tuning.value();
    std::string tried;
    int round = 0;
    for (const Tuning::Candidate& candidate : tuning.results) {
      if (candidate.round != round) tried += " → ";
      const std::string text =
          fmt::format("{:g}: {}", candidate.learning_rate,
                      candidate.value ? fmt::format("{:.4g}", *candidate.value) : outcome_words(candidate.outcome));
      const bool chosen = candidate.learning_rate == tuning.chosen;
      tried += (tried.empty() || candidate.round != round ? "" : " · ") +
               (chosen ? "<b>" + escape_html(text) + "</b>" : escape_html(text));
      round = candidate.round;
    }
    std::string length;
    for (const Tuning::Round& r : tuning.rounds) length += length_text(r.epochs, r.steps) + " → ";
    length += length_text(tuning.epochs, tuning.steps);
    const std::string seeds =
        tuning.seeds.empty() ? std::to_string(tuning.seed) : fmt::format("{}", fmt::join(tuning.seeds, ", "));
    rows += "<tr>" + name_cell(row) + "<td class=\"text\">" + tried + "</td>" + cell(tuning.criterion) + cell(length) +
            cell(seeds) + "</tr>\n";
  }
  if (rows.empty()) return "";
  return "<details><summary>How the learning rates were tuned</summary>"
         "<div class=\"scroll\"><table><thead><tr><th>system</th><th class=\"text\">rate: result "
         "(chosen in bold)</th><th>by "
         "final</th><th>length</th><th>seed</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div></details>\n";
}

// What the rank that sends most sends of a kind in an update; "" where the record does not say.
static std::string sent_text(const Record& record, SentKind kind) {
  const auto most = max_sent(record, kind);
  if (!most) return "";
  return *most == 0 ? "–" : to_text(Bytes(*most));
}

std::string theory_table(const Comparison& c) {
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
    const Json theory = record.theory ? to_json(*record.theory) : Json(), observed = to_json(record.observed);
    std::string cells;
    bool any = false;
    for (const Line& line : kLines) {
      const std::string promised = figure_text(theory, line.promised, line.share);
      const std::string seen = figure_text(observed, line.seen, line.share);
      any |= !promised.empty() || !seen.empty();
      cells += cell(promised) + cell(seen);
    }
    const std::string span = figure_text(observed, "span_bubble", true);
    cells += cell(span);
    for (const SentKind kind : kSentKinds) cells += cell(sent_text(record, kind));
    if (any) rows += "<tr>" + name_cell(row) + cells + "</tr>\n";
  }
  if (rows.empty()) return "";
  std::string head = "<tr><th rowspan=\"2\">system</th>", second = "<tr>";
  for (const Line& line : kLines) {
    head += fmt::format("<th colspan=\"2\">{}</th>", line.title);
    second += "<th>theory</th><th>observed</th>";
  }
  head +=
      "<th rowspan=\"2\">bubble over<br>own span</th>"
      "<th colspan=\"3\">sent by a rank in an update, at most</th></tr>";
  second += "<th>messages</th><th>gathers</th><th>reductions</th>";
  return "<div class=\"scroll\"><table><thead>" + head + second + "</tr></thead><tbody>\n" + rows +
         "</tbody></table></div>\n";
}

std::string record_table(const std::vector<const Record*>& records, const std::string& id) {
  if (records.empty()) return "";
  std::string html = fmt::format(
      "<div class=\"scroll\" id=\"{}\"><table class=\"sort records\"><thead><tr><th>system</th><th>samples/s</th>"
      "<th>peak/rank</th><th>bubble</th><th>final</th><th>ranks</th><th>micro-<br>batches</th><th>seed</th>"
      "<th class=\"text\">options</th><th>record</th><th class=\"text\">outcome</th></tr></thead>"
      "<tbody>\n",
      escape_html(id));
  for (const Record* r : records) {
    std::string options = r->purpose == Purpose::measure ? "" : choice_name(r->purpose) + " ";
    for (const auto& [name, value] : r->options) options += name + "=" + value + " ";
    if (const auto rate = learning_rate(*r)) options += fmt::format("rate={:g}", *rate);
    const auto rate = throughput(*r);
    const auto bubble = bubble_ratio(*r);
    const auto peak = peak_memory(*r);
    const auto metric = final_metric(*r);
    const auto number = [](const std::string& text, std::optional<double> value) {
      return value ? fmt::format("<td data-v=\"{:.9g}\">{}</td>", *value, escape_html(text)) : cell("");
    };
    html += "<tr><td>" + breakable_name(r->system) + "</td>" +
            (rate ? number(rate_text(rate->samples_per_second), rate->samples_per_second) : cell(short_outcome(*r))) +
            (peak ? number(to_text(Bytes(*peak)), static_cast<double>(*peak)) : cell("")) +
            (bubble ? number(fmt::format("{:.1f} %", 100 * *bubble), bubble) : cell("")) +
            cell(metric ? fmt::format("{:.4g}", *metric) : "") + cell(std::to_string(r->ranks)) +
            cell(std::to_string(r->microbatches)) + cell(std::to_string(r->seed)) +
            cell(shortened(options, 120), " class=\"text\"") + "<td><code>" + escape_html(r->digest) + "</code></td>" +
            cell(r->outcome == RecordOutcome::ok ? "ok" : outcome_words(r->outcome) + ": " + shortened(r->reason, 120),
                 r->outcome == RecordOutcome::ok ? " class=\"text\"" : " class=\"text bad\"") +
            "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// What the records say about the machine; a value that differs between runs is listed.
std::string machine_table(std::span<const Record> records) {
  std::map<std::string, std::set<std::string>> facts;
  for (const Record& record : records) flatten(to_json(record.environment), "", facts);
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
    html += "<tr>" + cell(name) + cell(text, " class=\"text\"") + "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace sluice
