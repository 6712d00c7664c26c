#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sluice_build.h>

#include <algorithm>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/output_file.h"
#include "harness/base/read_text.h"
#include "harness/base/source_folder.h"
#include "harness/base/stop.h"
#include "harness/base/visible_text.h"
#include "harness/case/profile_store.h"
#include "harness/case/sweep.h"
#include "harness/cli/commands.h"
#include "harness/cli/read_files.h"
#include "harness/pipeline/system.h"
#include "harness/run/run_case.h"
#include "harness/run/sweep_runner.h"
#include "plots/leaderboard.h"
#include "results/reference.h"

namespace sluice {
namespace {

// Times of two machines do not compare, so all systems run on the wall clock again, or none does.
bool is_run(const LeaderboardArguments& a, const RunCase& c, const std::string& added) {
  if (c.clock == Clock::wall) return a.wall;
  return c.system == added && (a.train || c.epochs == 0);
}

// Whether the record is replaced or does not compare with what is run.
bool is_dropped(const LeaderboardArguments& a, const Record& r, const std::string& added) {
  if (r.clock == Clock::wall) return a.wall || r.system == added;
  return r.system == added && (a.train || !r.workload_facts || r.workload_facts->epochs == 0);
}

// Runs the sweep for the system that is added. Returns its records; sets `interrupted`.
std::vector<Record> run_added(const LeaderboardArguments& a, const BoardDescription& board, const std::string& system,
                              bool& interrupted) {
  Sweep sweep = load_sweep(source_folder() + "/harness/sweeps/" + board.sweep + ".json");
  std::erase_if(sweep.cases, [&](const RunCase& c) { return !is_run(a, c, system); });
  if (std::ranges::none_of(sweep.cases, [&](const RunCase& c) { return c.system == system; }))
    throw InputError("--add", "the sweep '" + board.sweep + "' has no case of '" + system + "'",
                     "sluice list systems names those that train");
  const std::string out = a.out.empty() ? runs_folder() + "/leaderboard-" + system + ".jsonl" : a.out;
  handle_signals();
  end_after_signal(Seconds(0.7), "interrupted: what was finished is stored; run again with --resume");
  ProfileStore profiles(default_profile_folder());
  const SweepOptions options{
      .out = out, .resume = a.resume, .progress = parse_progress(a.progress), .jobs = 0, .again = true};
  const SweepResult result = run_sweep(
      sweep.cases, options, [&](const RunCase& c, const RunHooks& hooks) { return run_case(c, profiles, hooks); });
  interrupted = result.interrupted;
  fmt::print("records: {}\n\n", visible(out));
  return result.records;
}

// "zero_bubble: place 2 of 20 synchronous systems, score 0.87".
void print_place(const Leaderboard& board, const std::string& system) {
  for (const auto* rows : {&board.synchronous, &board.asynchronous})
    for (const BoardRow& row : *rows)
      if (row.system == system && !row.reference)
        fmt::print("\n{}: place {} of {} {} systems, score {:.2f}\n", system, row.place, rows->size() - 1,
                   row.asynchronous ? "asynchronous" : "synchronous", row.score);
}

}  // namespace

int leaderboard_command(const LeaderboardArguments& a) {
  std::optional<OutputFile> html;
  if (!a.html.empty())
    html.emplace(a.html, "a page of sluice leaderboard", [](const std::string& text) {
      return text.starts_with("<!doctype html>") && text.find("<p class=\"badge\">Sluice ") != text.npos;
    });
  const std::string folder = source_folder() + "/results/";
  const BoardDescription description = read_board(a.board.empty() ? folder + "leaderboard.json" : a.board);
  const std::string added = a.add.empty() ? "" : find_system(a.add, "--add").name;
  const std::vector<std::string> stored = {description.records.string()};
  std::vector<Record> records = read_files(a.files.empty() ? stored : a.files);
  bool interrupted = false;
  if (!added.empty()) {
    std::erase_if(records, [&](const Record& r) { return is_dropped(a, r, added); });
    for (Record& record : run_added(a, description, added, interrupted)) records.push_back(std::move(record));
  }
  if (a.write && !(a.files.empty() && added.empty())) {  // the page shows what is stored
    const std::vector<StudyRun> all = study_runs(records);
    write_reference(description.records, shown_records(leaderboard(description, all)));
    records = read_files(stored);
  }
  const std::vector<StudyRun> runs = study_runs(records);
  std::vector<std::string> left_out;
  const bool compared = !added.empty() && !a.write;  // in the columns that were run for it
  const Leaderboard board =
      leaderboard(compared ? columns_of_system(description, added, runs, left_out) : description, runs);
  if (!a.files.empty() && shown_records(board).empty())
    throw InputError(a.files.front(), "holds no record of a column of the leaderboard",
                     "make some: sluice run standard");
  fmt::print("{}", leaderboard_text(board));
  if (!added.empty()) print_place(board, added);
  if (!left_out.empty())
    fmt::print("left out, because {} did not run there: {} (--wall and --train run them)\n", added,
               visible(fmt::format("{}", fmt::join(left_out, "; "))));
  if (a.write) {
    write_text(folder + "leaderboard.md", leaderboard_markdown(board));
    write_text(folder + "leaderboard.svg", leaderboard_svg(board));
  }
  if (html) html->write(leaderboard_html(board, "Sluice " SLUICE_VERSION));
  return interrupted ? 1 : 0;
}

}  // namespace sluice
