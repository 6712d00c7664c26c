#include "harness/program/schedule_picture.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <vector>

#include "harness/base/error.h"

namespace sluice {

namespace {

bool is_compute(const TraceEvent& e) { return sluice::is_compute(e.instruction.opcode); }

// What is written into an op's cell.
class Labels {
 public:
  explicit Labels(const Trace& trace) : sequence_chunks_(trace.sequence_chunks), stages_(trace.ranks.size()) {
    for (std::size_t r = 0; r < trace.ranks.size(); ++r)
      for (const TraceEvent& e : trace.ranks[r])
        if (is_compute(e)) stages_[r].insert(e.instruction.stage);
    for (const auto& stages : stages_) most_ = std::max(most_, stages.size());
  }

  std::string of(std::size_t rank, const Instruction& i) const {
    const std::string text = to_text(i, sequence_chunks_);
    const std::string without_stage = text.substr(text.find_first_of("FBIWR"));
    if (most_ > 2) return text;
    if (i.stage == *stages_[rank].begin()) return without_stage;
    return static_cast<char>(std::tolower(without_stage[0])) + without_stage.substr(1);
  }

 private:
  int sequence_chunks_;
  std::vector<std::set<StageId>> stages_;
  std::size_t most_ = 0;
};

}  // namespace

std::string draw_schedule(const Trace& trace, std::size_t width) {
  const Labels labels(trace);
  double shortest = std::numeric_limits<double>::infinity(), end = 0;
  double pair_columns = 0;  // of a second, so that the second of every pair has room for its sign
  std::size_t cell = 1;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    bool is_second = false;
    for (const TraceEvent& e : trace.ranks[r]) {
      if (!is_compute(e)) continue;
      if (e.end > e.start) shortest = std::min(shortest, e.end - e.start);
      end = std::max(end, e.end);
      // "10F05F3" would not say where an op begins; a letter in front does.
      const std::string label = labels.of(r, e.instruction);
      cell = std::max(cell, label.size() + (std::isdigit(label[0]) ? 1 : 0));
      if (is_second && e.end > e.start)
        pair_columns = std::max(pair_columns, static_cast<double>(label.size() + 1) / (e.end - e.start));
      is_second = e.instruction.overlapped;
    }
  }
  if (!(end > 0)) return "";
  cell = std::max(cell, static_cast<std::size_t>(std::ceil(pair_columns * shortest - 1e-9)));
  const double scale = static_cast<double>(cell) / shortest;
  constexpr double kMax = 20'000;
  if (end * scale > kMax)
    throw InputError("grid", "would be " + std::to_string(std::lround(end * scale)) + " columns wide",
                     "draw fewer micro-batches, or costs that differ less");
  const auto column = [&](double time) { return static_cast<std::size_t>(std::lround(time * scale)); };
  std::vector<std::string> rows;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    std::string& row = rows.emplace_back(column(end), '.');
    bool is_second = false;
    for (const TraceEvent& e : trace.ranks[r]) {
      if (!is_compute(e)) continue;
      std::string text = labels.of(r, e.instruction);
      if (is_second) text += '+';
      is_second = e.instruction.overlapped;
      text.resize(column(e.end) - column(e.start), '-');
      row.replace(column(e.start), text.size(), text);
    }
  }
  // "rank 0  " takes eight columns or more; whole cells to a band.
  const std::size_t head = std::max<std::size_t>(8, std::to_string(rows.size()).size() + 6);
  const std::size_t band = std::max(cell, (width - std::min(width, head)) / cell * cell);
  std::string result;
  for (std::size_t from = 0; from < column(end); from += band) {
    if (column(end) > band) {
      char time[40];
      std::snprintf(time, sizeof time, "time %g\n", static_cast<double>(from) / scale);
      result += time;
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::string line = "rank " + std::to_string(r);
      line.resize(head, ' ');
      result += line + rows[r].substr(from, band) + "\n";
    }
  }
  return result;
}

}  // namespace sluice
