#include "plots/leaderboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/markdown_text.h"
#include "harness/base/visible_text.h"
#include "harness/pipeline/provenance.h"
#include "harness/pipeline/system.h"
#include "plots/markdown.h"
#include "plots/row_outcome.h"
#include "results/metrics.h"
#include "results/model_error.h"
#include "results/system_style.h"

namespace sluice {
namespace {

bool higher_wins(const BoardColumn& column) { return column.metric->better == Better::higher; }

bool is_time_to_target(const Field& metric) { return metric.name == "time_to_accuracy"; }
constexpr const char* kMisses = "misses its target";

std::map<std::uint64_t, double> times_by_seed(const ComparisonRow& row) {
  std::map<std::uint64_t, double> times;
  for (const Record& record : row.records)
    if (const auto time = time_or_miss(record)) times[record.seed] = *time;
  return times;
}

// The median over the seeds. Of times to a target it counts all seeds, so that it is infinite where most miss.
std::optional<double> figure_of(const Field& metric, const ComparisonRow& row) {
  if (!is_time_to_target(metric)) return middle(row.figure(metric));
  std::vector<double> times;
  for (const auto& [seed, time] : times_by_seed(row)) times.push_back(time);
  if (times.empty()) return std::nullopt;
  std::ranges::sort(times);
  return times[times.size() / 2];
}

// Seeds give two systems the same data and initial weights. So times to a target tie where a seed has them within the
// error, or the other way round.
bool tied_by_seed(const ComparisonRow& first, const ComparisonRow& other, double error) {
  const std::map<std::uint64_t, double> x = times_by_seed(first), y = times_by_seed(other);
  return std::ranges::any_of(x, [&](const auto& of_seed) {
    const auto [seed, time] = of_seed;
    const auto found = y.find(seed);
    return found != y.end() && (found->second <= time || within_model_error(time, found->second, error));
  });
}

// Whether two figures of a column are a tie: their ranges over the seeds overlap; of single figures on the wall clock,
// their intervals; on the virtual clock, they are within the model's error.
bool tied(const Field& metric, const StudyRun& a, const StudyRun& b) {
  const auto x = a.row.figure(metric), y = b.row.figure(metric);
  if (!x || !y) return false;
  const Record& record = a.row.records.front();
  if (record.clock == Clock::virtual_clock) {
    const double error = model_error(record.cost_source);
    if (is_time_to_target(metric)) return tied_by_seed(a.row, b.row, error);
    if (within_model_error(x->median, y->median, error)) return true;
  }
  if (metric.name == "throughput" && a.row.interval && b.row.interval)
    return a.row.interval->low <= b.row.interval->high && b.row.interval->low <= a.row.interval->high;
  return x->min <= y->max && y->min <= x->max;
}

std::string outcome_text(const ComparisonRow& row, bool missed) {
  if (missed || row.misses_target()) return kMisses;
  return row.outcome == RecordOutcome::ok ? "no figure" : outcome_words(row.outcome);
}

BoardCell cell_of(const BoardColumn& column, const std::string& system, std::span<const StudyRun> runs) {
  BoardCell cell;
  for (const StudyRun& run : runs) {
    if (run.row.system != system || !matches(run, column.where)) continue;
    const auto value = figure_of(*column.metric, run.row);
    const bool missed = value && !std::isfinite(*value);
    if (!value || missed || run.row.misses_target()) {
      if (cell.missing.empty() || run.row.outcome == RecordOutcome::out_of_memory) {
        cell.shown = &run;
        cell.missing = outcome_text(run.row, missed);
      }
      continue;
    }
    if (cell.best && (higher_wins(column) ? *value <= cell.value : *value >= cell.value)) continue;
    cell.best = &run;
    cell.value = *value;
  }
  if (cell.best) cell.shown = cell.best;
  return cell;
}

// Shares and places of a column among these rows.
void rank_column(const BoardColumn& column, std::size_t c, std::vector<BoardRow>& rows) {
  std::vector<BoardCell*> best_first;
  for (BoardRow& row : rows)
    if (row.cells[c].best) best_first.push_back(&row.cells[c]);
  const bool higher = higher_wins(column);
  std::ranges::stable_sort(best_first, [&](const BoardCell* a, const BoardCell* b) {
    return higher ? a->value > b->value : a->value < b->value;
  });
  const BoardCell* first = nullptr;  // of the current place
  for (std::size_t k = 0; k < best_first.size(); ++k) {
    BoardCell& cell = *best_first[k];
    const double best = best_first.front()->value;
    cell.share = higher ? cell.value / best : best / cell.value;
    if (first && tied(*column.metric, *first->best, *cell.best)) {
      cell.place = first->place;
    } else {
      cell.place = static_cast<int>(k) + 1;
      first = &cell;
    }
  }
}

void rank(const BoardDescription& description, std::vector<BoardRow>& rows) {
  for (std::size_t c = 0; c < description.columns.size(); ++c) rank_column(description.columns[c], c, rows);
  for (BoardRow& row : rows) {
    double sum = 0;
    for (const BoardCell& cell : row.cells) sum += cell.share;
    row.score = sum / static_cast<double>(description.columns.size());
  }
  std::ranges::stable_sort(rows, [](const BoardRow& a, const BoardRow& b) {
    return a.reference != b.reference ? a.reference : a.score > b.score;
  });
  std::vector<double> scores;
  for (const BoardRow& row : rows)
    if (!row.reference) scores.push_back(row.score);
  const std::vector<int> places = shared_places(scores, model_error("calibrated"));
  for (std::size_t k = 0, place = 0; k < rows.size(); ++k)
    if (!rows[k].reference) rows[k].place = places[place++];
}

std::string figure_text(const Field& metric, const StudyRun& run) {
  const auto value = figure_of(metric, run.row);
  if (!value) return "-";
  return metric.unit == Unit::rate ? fmt::format("{:.4g}", *value) : to_text(metric.unit, *value);
}

// A column's systems, best first, with what each chose.
TextTable details(const Leaderboard& board, std::size_t c) {
  const BoardColumn& column = board.description.columns[c];
  std::vector<const BoardRow*> rows;
  for (const auto* kind : {&board.synchronous, &board.asynchronous})
    for (const BoardRow& row : *kind)
      if (row.cells[c].best && !(row.reference && kind == &board.asynchronous)) rows.push_back(&row);
  std::ranges::stable_sort(rows, [&](const BoardRow* a, const BoardRow* b) {
    return higher_wins(column) ? a->cells[c].value > b->cells[c].value : a->cells[c].value < b->cells[c].value;
  });
  TextTable table{.columns = {{"system", false, {}}, {"asynchronous", false, {}}, {column.metric->heading, true, {}}},
                  .rows = rows.size()};
  std::vector<const Field*> shown;
  for (const Field* field : board.description.details)
    if (std::ranges::any_of(rows,
                            [&](const BoardRow* row) { return row->cells[c].best->row.figure(*field).has_value(); }))
      shown.push_back(field);
  for (const Field* field : shown) table.columns.push_back({field->heading, true, {}});
  table.columns.push_back({"micro-batches", true, {}});
  table.columns.push_back({"chosen options", false, {}});
  for (const BoardRow* row : rows) {
    const StudyRun& run = *row->cells[c].best;
    std::size_t k = 0;
    const auto put = [&](std::string text) { table.columns[k++].cells.push_back(std::move(text)); };
    put(row->title);
    put(row->asynchronous ? "yes" : "");
    put(figure_text(*column.metric, run));
    for (const Field* field : shown) put(figure_text(*field, run));
    put(std::to_string(run.row.microbatches));
    put(run.row.options);
  }
  return table;
}

std::string kinds_text(const Leaderboard& board) {
  return fmt::format("{} synchronous and {} asynchronous systems, {} columns", board.synchronous.size(),
                     board.asynchronous.size(), board.description.columns.size());
}

}  // namespace

BoardDescription read_board(const std::filesystem::path& path) {
  const Json document = parse_json_file(path.string());
  JsonReader in(document, path.string());
  BoardDescription board{.title = in.text("title"),
                         .text = in.text("text"),
                         .sweep = in.text("sweep"),
                         .records = path.parent_path() / in.text("records"),
                         .columns = {},
                         .details = {}};
  for (JsonReader& column : in.objects("columns")) {
    BoardColumn read{.heading = column.text("heading"), .where = read_conditions(column, "where")};
    if (column.has("metric")) read.metric = study_metric(column, "metric");
    if (read.metric->better != Better::higher && read.metric->better != Better::lower)
      column.fail("metric", "'" + read.metric->name + "' has no better end", "name a throughput or a time");
    column.no_other_keys();
    board.columns.push_back(std::move(read));
  }
  if (board.columns.empty()) in.fail("columns", "must be a list of at least one column");
  JsonReader details = in.list("details");
  for (const std::string& index : details.keys()) board.details.push_back(study_metric(details, index));
  in.no_other_keys();
  return board;
}

Leaderboard leaderboard(const BoardDescription& description, std::span<const StudyRun> runs) {
  Leaderboard board{.description = description, .synchronous = {}, .asynchronous = {}, .commits = {}};
  std::map<std::string, bool> systems;
  std::set<std::string> commits;
  for (const StudyRun& run : runs) {
    systems[run.row.system] |= run.row.asynchronous;
    for (const Record& record : run.row.records)
      if (record.environment.machine) commits.insert(record.environment.machine->commit);
  }
  board.commits.assign(commits.begin(), commits.end());
  for (const auto& [name, asynchronous] : systems) {
    BoardRow row{.system = name,
                 .title = system_style(name).title,
                 .asynchronous = asynchronous,
                 .reference = name == kReferenceSystem};
    for (const System* system : all_systems())
      if (system->name == name) {
        row.written_from = sources_text(system->written_from);
        row.asynchronous = !system->synchronous;
      }
    bool in_a_column = false;
    for (const BoardColumn& column : description.columns) {
      row.cells.push_back(cell_of(column, name, runs));
      in_a_column |= row.cells.back().shown != nullptr;
    }
    if (!in_a_column) continue;
    if (row.reference || !row.asynchronous) board.synchronous.push_back(row);
    if (row.reference || row.asynchronous) board.asynchronous.push_back(row);
  }
  rank(description, board.synchronous);
  rank(description, board.asynchronous);
  return board;
}

std::string BoardCell::text() const {
  if (best) return fmt::format("{:.2f}", share);
  if (!shown) return "-";
  if (missing == kMisses) return "miss";
  if (shown->row.outcome == RecordOutcome::out_of_memory) return "OOM";
  return shown->row.outcome == RecordOutcome::unsupported ? "n/a" : "fail";
}

std::vector<Record> shown_records(const Leaderboard& board) {
  std::vector<Record> records;
  std::set<const StudyRun*> seen;
  for (const auto* rows : {&board.synchronous, &board.asynchronous})
    for (const BoardRow& row : *rows)
      for (const BoardCell& cell : row.cells)
        if (cell.shown && seen.insert(cell.shown).second)
          records.insert(records.end(), cell.shown->row.records.begin(), cell.shown->row.records.end());
  return records;
}

BoardDescription columns_of_system(BoardDescription board, const std::string& system, std::span<const StudyRun> runs,
                                   std::vector<std::string>& left_out) {
  std::erase_if(board.columns, [&](const BoardColumn& column) {
    const bool run = std::ranges::any_of(
        runs, [&](const StudyRun& r) { return r.row.system == system && matches(r, column.where); });
    if (!run) left_out.push_back(column.heading);
    return !run;
  });
  return board;
}

TextTable ranking(const Leaderboard& board, const std::vector<BoardRow>& rows) {
  TextTable table{.columns = {{"place", true, {}}, {"system", false, {}}, {"score", true, {}}}, .rows = rows.size()};
  for (const BoardColumn& column : board.description.columns) table.columns.push_back({column.heading, true, {}});
  table.columns.push_back({"written from", false, {}});
  for (const BoardRow& row : rows) {
    std::size_t k = 0;
    const auto put = [&](std::string text) { table.columns[k++].cells.push_back(std::move(text)); };
    put(row.reference ? "" : std::to_string(row.place));
    put(row.title);
    put(fmt::format("{:.2f}", row.score));
    for (const BoardCell& cell : row.cells)
      put(!cell.shown  ? "-"
          : !cell.best ? cell.missing
                       : fmt::format("{:.2f}{}", cell.share, cell.place == 1 ? " (1)" : ""));
    put(row.written_from);
  }
  return table;
}

std::string leaderboard_text(const Leaderboard& board) {
  const auto table = [&](const std::vector<BoardRow>& rows) {
    TextTable numbered = ranking(board, rows);
    numbered.columns.pop_back();  // written from: sluice list
    for (std::size_t c = 0; c < board.description.columns.size(); ++c) {
      TextTable::Column& column = numbered.columns[c + 3];
      column.name = std::to_string(c + 1);
      for (std::size_t k = 0; k < rows.size(); ++k) {
        const BoardCell& cell = rows[k].cells[c];
        column.cells[k] = cell.text() + (cell.place == 1 ? "*" : " ");
      }
    }
    return to_text(numbered);
  };
  std::string text = "Synchronous systems\n" + table(board.synchronous) +
                     "\nAsynchronous systems (throughput without what stale weights cost in updates)\n" +
                     table(board.asynchronous) + "\n";
  for (std::size_t c = 0; c < board.description.columns.size(); ++c)
    text += fmt::format("{:2}  {}\n", c + 1, visible(board.description.columns[c].heading));
  return text + "A cell is the share of the best system's figure; *: shares the first place\n" + kCellNote + "\n";
}

// "SPP 0.96 and DAPPLE 0.95 share the first place; single device 0.29."
static std::string first_places(const std::vector<BoardRow>& rows) {
  std::vector<std::string> first;
  std::string others;
  for (const BoardRow& row : rows) {
    const std::string text = fmt::format("{} {:.2f}", markdown_text(row.title), row.score);
    if (row.reference)
      others = "; " + text;
    else if (row.place == 1)
      first.push_back(text);
  }
  if (first.empty()) return "none" + others + ".";
  const std::string last = first.back();
  if (first.size() == 1) return last + " is first" + others + ".";
  first.pop_back();
  return fmt::format("{} and {} share the first place{}.", fmt::join(first, ", "), last, others);
}

std::string leaderboard_markdown(const Leaderboard& board) {
  const BoardDescription& d = board.description;
  std::string text = "<!-- Made by: sluice leaderboard --write; a test compares it with its records. -->\n# " +
                     markdown_text(d.title) + "\n\n" +
                     wrapped("Which system has the best figures over models and clusters?") + "\n" +
                     list_item("Synchronous: " + first_places(board.synchronous)) +
                     list_item("Asynchronous: " + first_places(board.asynchronous)) +
                     list_item(
                         "Places are those of the mean share of the best figure; differences within the model's "
                         "error are ties. Other models, clusters or columns could change them.") +
                     "\n" + wrapped(markdown_prose(d.text)) + "\n";
  text +=
      wrapped(kinds_text(board) +
              ". A cell is the share of the best system's figure in its column (of a time: the best time over the "
              "system's), for the system's best case; (1) marks those that share the first place: on the virtual "
              "clock figures within " +
              model_error_text(model_error("calibrated")) +
              " (times to a target: with at least one of the seeds, which all systems share), elsewhere those whose "
              "ranges overlap. The score is the mean of the shares; a system without a "
              "figure in a column has 0 there.") +
      "\n";
  text += "## Synchronous systems\n\n" + to_markdown(ranking(board, board.synchronous)) +
          "\n## Asynchronous systems\n\n" + wrapped(std::string(kStaleNote)) + "\n" +
          to_markdown(ranking(board, board.asynchronous));
  for (std::size_t c = 0; c < d.columns.size(); ++c)
    text += "\n## " + markdown_text(d.columns[c].heading) + "\n\n" + to_markdown(details(board, c));
  return text;
}

}  // namespace sluice
