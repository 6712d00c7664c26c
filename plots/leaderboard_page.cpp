// The leaderboard as one HTML file that needs no network.
#include <fmt/format.h>

#include "plots/leaderboard.h"
#include "plots/page_parts.h"
#include "plots/report.h"

namespace sluice {
namespace {

// Besides the page script's sorting and filtering: the address keeps what was typed and which column sorts, so that a
// link shows the same.
const char* const kScript = R"js(
(function () {
  'use strict';
  var box = document.getElementById('words'), kind = document.getElementById('kind');
  var state = new URLSearchParams(location.hash.slice(1));
  function apply() {
    var words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    document.querySelectorAll('tr[data-system]').forEach(function (row) {
      var text = row.textContent.toLowerCase();
      row.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
    });
    document.querySelectorAll('[data-kind]').forEach(function (part) {
      part.hidden = kind.value !== '' && part.dataset.kind !== kind.value;
    });
  }
  function keep() {
    if (box.value) state.set('words', box.value); else state.delete('words');
    if (kind.value) state.set('kind', kind.value); else state.delete('kind');
    history.replaceState(null, '', '#' + state.toString());
    apply();
  }
  function sort(table, column, rising) {
    var body = table.tBodies[0], rows = Array.from(body.rows);
    function key(row) {
      var value = row.cells[column].dataset.value;
      return value === undefined ? row.cells[column].textContent : Number(value);
    }
    rows.sort(function (a, b) {
      var x = key(a), y = key(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (rising ? 1 : -1);
    });
    rows.forEach(function (row) { body.appendChild(row); });
    table.querySelectorAll('th').forEach(function (head, k) {
      head.setAttribute('aria-sort', k !== column ? 'none' : rising ? 'ascending' : 'descending');
    });
  }
  document.querySelectorAll('table[id]').forEach(function (table) {
    table.querySelectorAll('th').forEach(function (head, column) {
      function press() {
        var rising = head.getAttribute('aria-sort') === 'descending';
        sort(table, column, rising);
        state.set(table.id, column + (rising ? 'r' : ''));
        keep();
      }
      head.tabIndex = 0;
      head.addEventListener('click', press);
      head.addEventListener('keydown', function (event) { if (event.key === 'Enter') press(); });
    });
    var stored = /^([0-9]+)(r?)$/.exec(state.get(table.id) || '');
    if (stored && Number(stored[1]) < table.tHead.rows[0].cells.length)
      sort(table, Number(stored[1]), stored[2] === 'r');
  });
  box.value = state.get('words') || '';
  kind.value = state.get('kind') || '';
  box.addEventListener('input', keep);
  kind.addEventListener('change', keep);
  apply();
})();
)js";

const char* const kStyle = R"css(
.controls{display:flex;flex-wrap:wrap;gap:8px 18px;margin:12px 0}
.controls input,.controls select{font:inherit;color:var(--ink);background:var(--paper);border:1px solid var(--line);
  border-radius:6px;padding:4px 8px}
table[id] th{cursor:pointer;white-space:normal;min-width:5.5em}
td.first{font-weight:700}
td.none{color:var(--soft)}
.badge{display:inline-block;border:1px solid var(--line);border-radius:6px;padding:1px 8px;background:var(--head)}
)css";

std::string cell(const std::string& text, const std::string& attributes = "") {
  return "<td" + attributes + ">" + escape_html(text) + "</td>";
}

// What a share stands for, shown when pointed at.
std::string hint(const BoardColumn& column, const BoardCell& cell) {
  return fmt::format("{}: {:.4g}; {} micro-batches{}", column.metric->heading, cell.value, cell.best->row.microbatches,
                     cell.best->row.options.empty() ? "" : ", " + cell.best->row.options);
}

std::string table(const Leaderboard& board, const std::vector<BoardRow>& rows, const std::string& id) {
  std::string html = "<div class=\"scroll\"><table id=\"" + id +
                     "\"><thead><tr><th>place</th><th class=\"text\">system</th><th>score</th>";
  for (const BoardColumn& column : board.description.columns) html += "<th>" + escape_html(column.heading) + "</th>";
  html += "<th class=\"text\">written from</th></tr></thead><tbody>\n";
  for (const BoardRow& row : rows) {
    html += fmt::format("<tr data-system=\"{}\">", escape_html(row.system));
    html += cell(row.reference ? "–" : std::to_string(row.place), fmt::format(" data-value=\"{}\"", row.place));
    html += cell(row.title, " class=\"text\"");
    html += cell(fmt::format("{:.2f}", row.score), fmt::format(" data-value=\"{}\"", row.score));
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const BoardCell& own = row.cells[c];
      if (!own.best) {
        html += cell(own.shown ? own.missing : "–", " class=\"none\" data-value=\"-1\"");
        continue;
      }
      html += cell(fmt::format("{:.2f}", own.share),
                   fmt::format(" class=\"{}\" data-value=\"{}\" title=\"{}\"", own.place == 1 ? "first" : "", own.share,
                               escape_html(hint(board.description.columns[c], own))));
    }
    html += cell(row.written_from, " class=\"text\"") + "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string leaderboard_html(const Leaderboard& board, const std::string& version) {
  std::string commits;
  for (const std::string& commit : board.commits) commits += (commits.empty() ? "" : ", ") + commit;
  const std::string title = escape_html(board.description.title);
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         title + "</title>\n<style>" + kPageStyle + kStyle + "</style></head>\n<body><main>\n<h1>" + title +
         "</h1>\n<p>" + escape_html(board.description.text) + "</p>\n<p class=\"badge\">" +
         escape_html(fmt::format("{} · sweep {} · records of {}", version, board.description.sweep, commits)) +
         "</p>\n"
         "<p class=\"soft\">A cell is the share of the best figure in its column, for the system's best case; bold "
         "cells share the first place. Point at a cell for its figure. A heading sorts; the address keeps filter and "
         "order.</p>\n"
         "<div class=\"controls\"><label>Filter <input id=\"words\" type=\"search\" placeholder=\"words of a row\">"
         "</label> <label>Systems <select id=\"kind\"><option value=\"\">all</option>"
         "<option value=\"synchronous\">synchronous</option><option value=\"asynchronous\">asynchronous</option>"
         "</select></label></div>\n"
         "<section data-kind=\"synchronous\"><h2>Synchronous systems</h2>\n" +
         table(board, board.synchronous, "synchronous") +
         "</section>\n<section data-kind=\"asynchronous\"><h2>Asynchronous systems</h2>\n<p class=\"soft\">" +
         kStaleNote + "</p>\n" + table(board, board.asynchronous, "asynchronous") + "</section>\n</main>\n<script>" +
         kScript + "</script></body></html>\n";
}

}  // namespace sluice
