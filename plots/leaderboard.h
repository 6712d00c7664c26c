// The leaderboard: one row per system, one column per setting of the standard sweep, best first.
// results/leaderboard.json describes it; every figure is taken from the sweep's records.
//
// A cell is the system's best case of the column (its micro-batches, recomputation and other options as the sweep
// varies them, the same for all). Its share is its figure over the best system's, or the inverse if lower is better: 1
// is the best, 0 a system without a figure. The score is the mean of the shares. Synchronous and asynchronous systems
// are ranked separately: throughput does not include the cost of stale weights.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "plots/study.h"
#include "plots/study_tables.h"

namespace sluice {

struct BoardColumn {
  std::string heading;
  Conditions where;
  const Field* metric = find_field("throughput");
};

struct BoardDescription {
  std::string title, text;
  std::string sweep;              // of harness/sweeps
  std::filesystem::path records;  // of the sweep, as kept in the repository
  std::vector<BoardColumn> columns;
  std::vector<const Field*> details;  // additional metrics in the table of a column
};
BoardDescription read_board(const std::filesystem::path& path);  // throws InputError

struct BoardCell {
  const StudyRun* best = nullptr;   // null: no case of the column has the metric
  const StudyRun* shown = nullptr;  // `best`, or a case that shows why there is none; null: the sweep has no case
  double value = 0;                 // of the metric, median over the seeds
  double share = 0;
  int place = 0;             // among the row's kind of system; systems that cannot be told apart share it
  std::string missing;       // why there is none: "out of memory", "misses its target"
  std::string text() const;  // "0.97", "OOM", "n/a" (not supported), "miss", "fail", or "-": the sweep has no case
};
inline constexpr const char* kCellNote = "OOM: out of memory; n/a: not supported; miss: misses its target";

struct BoardRow {
  std::string system, title, written_from;
  bool asynchronous = false;
  bool reference = false;  // single_device: shown first, without a place
  double score = 0;
  int place = 0;
  std::vector<BoardCell> cells;  // one per column
};

struct Leaderboard {
  BoardDescription description;
  std::vector<BoardRow> synchronous, asynchronous;  // best first
  std::vector<std::string> commits;                 // of the records
};
// The runs outlive it.
Leaderboard leaderboard(const BoardDescription& description, std::span<const StudyRun> runs);

// The records of its cells, each once.
std::vector<Record> shown_records(const Leaderboard& board);

inline constexpr const char* kStaleNote =
    "Their throughput does not count what stale weights cost in updates; a time to a target does.";

// The ranking of one kind of system, for a page.
TextTable ranking(const Leaderboard& board, const std::vector<BoardRow>& rows);

// The rankings for a terminal: columns are numbered, and the legend names them.
std::string leaderboard_text(const Leaderboard& board);

// The board without the columns for which the system has no case among the runs. `left_out`: their headings.
BoardDescription columns_of_system(BoardDescription board, const std::string& system, std::span<const StudyRun> runs,
                                   std::vector<std::string>& left_out);

std::string leaderboard_markdown(const Leaderboard& board);
// The synchronous systems, for README.
std::string leaderboard_svg(const Leaderboard& board);
// One file that needs no network. version: "sluice 0.2.0".
std::string leaderboard_html(const Leaderboard& board, const std::string& version);

}  // namespace sluice
