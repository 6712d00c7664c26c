// The leaderboard as one HTML file that needs no network.
#include <fmt/format.h>

#include "plots/leaderboard.h"
#include "plots/page_files.h"
#include "plots/report.h"

namespace sluice {
namespace {

std::string cell(const std::string& text, const std::string& attributes = "") {
  return "<td" + attributes + ">" + escape_html(text) + "</td>";
}

// What a cell stands for, shown when pointed at.
std::string hint(const BoardColumn& column, const BoardCell& cell) {
  if (!cell.best) return cell.missing;
  return fmt::format("{}: {:.4g}; {} micro-batches{}", column.metric->heading, cell.value, cell.best->row.microbatches,
                     cell.best->row.options.empty() ? "" : ", " + cell.best->row.options);
}

// "BERT-Large, 16 A100" on two lines; a number stays with its unit.
std::string in_lines(const std::string& heading) {
  std::string html;
  bool unit = false;  // in the word behind a number
  char before = 0;
  for (const char c : escape_html(heading)) {
    if (c == ' ' || c == ',') unit = c == ' ' && before >= '0' && before <= '9';
    html += c == ',' ? ",<br>" : unit && c == ' ' ? "&nbsp;" : unit && c == '-' ? "&#8209;" : std::string(1, c);
    before = c;
  }
  return html;
}

std::string table(const Leaderboard& board, const std::vector<BoardRow>& rows, const std::string& id) {
  std::string html = "<div class=\"scroll\"><table id=\"" + id +
                     "\"><thead><tr><th class=\"text\">system</th><th>place</th><th>score</th>";
  for (const BoardColumn& column : board.description.columns) html += "<th>" + in_lines(column.heading) + "</th>";
  html += "<th class=\"text\">written from</th></tr></thead><tbody>\n";
  for (const BoardRow& row : rows) {
    html += fmt::format("<tr data-system=\"{}\">", escape_html(row.system));
    html += cell(row.title, " class=\"text\"");
    html += cell(row.reference ? "–" : std::to_string(row.place), fmt::format(" data-value=\"{}\"", row.place));
    html += cell(fmt::format("{:.2f}", row.score), fmt::format(" data-value=\"{}\"", row.score));
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const BoardCell& own = row.cells[c];
      const std::string look = own.best ? fmt::format("class=\"share{}\" style=\"--share:{:.3f}\" data-value=\"{}\"",
                                                      own.place == 1 ? " first" : "", own.share, own.share)
                                        : "class=\"none\" data-value=\"-1\"";
      html +=
          cell(own.text(), fmt::format(" {} title=\"{}\"", look, escape_html(hint(board.description.columns[c], own))));
    }
    html += cell(row.written_from, " class=\"text\"") + "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string leaderboard_html(const Leaderboard& board, const std::string& version) {
  std::string commits;
  for (const std::string& commit : board.commits) commits += (commits.empty() ? "" : ", ") + commit;
  const BoardDescription& d = board.description;
  const std::string title = escape_html(d.title);
  const std::string source = fmt::format("{} · sweep {} · records of {}", version, d.sweep, commits);
  return filled_page("leaderboard.html", {{"title", title},
                                          {"report_style", std::string(page_file("report.css"))},
                                          {"style", std::string(page_file("leaderboard.css"))},
                                          {"text", escape_html(d.text)},
                                          {"source", escape_html(source)},
                                          {"synchronous", table(board, board.synchronous, "synchronous")},
                                          {"cell_note", kCellNote},
                                          {"stale_note", kStaleNote},
                                          {"asynchronous", table(board, board.asynchronous, "asynchronous")},
                                          {"script", std::string(page_file("leaderboard.js"))}});
}

}  // namespace sluice
