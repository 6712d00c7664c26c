// Timelines of a paper's figure: a block of ranks for every system, one below the other, all on one time axis.
#include <fmt/format.h>

#include <algorithm>

#include "harness/base/error.h"
#include "plots/chart_template.h"
#include "plots/figure_frame.h"
#include "plots/style.h"
#include "plots/timeline_ops.h"
#include "results/metrics.h"

namespace sluice {

Json timelines_figure(const Comparison& comparison, const FigureOptions& options) {
  struct Block {
    FigureRow row;
    const Record* record;
    TimeSpan shown;
    int ranks;
  };
  std::vector<Block> blocks;
  std::vector<const Record*> records;
  for (const FigureRow& row : figure_rows(comparison, options, "bubble")) {
    const auto found =
        std::ranges::find_if(row.row->records, [](const Record& r) { return has_metrics(r) && !r.timeline.empty(); });
    if (found == row.row->records.end()) continue;
    blocks.push_back({row, &*found, {}, found->ranks});
    for (const TimelineOp& op : found->timeline) blocks.back().ranks = std::max(blocks.back().ranks, op.rank + 1);
    records.push_back(&*found);
  }
  const std::vector<TimeSpan> spans = comparable_spans(records);
  double longest = 0;
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    blocks[k].shown = spans[k];
    longest = std::max(longest, spans[k].seconds());
  }
  if (blocks.empty() || !(longest > 0))
    throw InputError("figure timelines", "no record has a timeline (reference records are kept without them)",
                     "run the cases with sluice run --timelines best, and give the records");
  const double font = options.font_size;
  const Scale scale = time_scale(longest);
  std::vector<FigureRow> legend;  // of the kinds of ops
  std::vector<std::string> used;
  for (const Block& block : blocks)
    for (const TimelineOp& op : block.record->timeline)
      for (const TimelinePart& part : read_parts(op.op))
        if (op.end - op.start > longest / 200) used.push_back(part.kind);  // wide enough to be seen
  for (const OpLook& kind : kOpKinds)
    if (std::ranges::count(used, kind.name) > 0 && !moves_data({kind.name, "", -1}))
      legend.push_back({nullptr, kind.title, kind.color, "square"});

  // In lines of text: a heading over every block, then its ranks.
  constexpr double kHeading = 1.35, kRank = 1.25, kBetween = 0.4;
  double lines = 0;
  int max_ranks = 0;
  for (const Block& block : blocks) {
    lines += kHeading + kRank * block.ranks + kBetween;
    max_ranks = std::max(max_ranks, block.ranks);
  }
  const double left = text_width(std::to_string(max_ranks - 1), font) + 1.6 * font + 5;
  const FigureFrame frame(options, left, 3.4 * font, legend, LegendMark::square, lines * font, 0.8 * lines * font);
  const double line = frame.plot_height() / lines;  // points, of which a line of text takes `font`
  const double end = longest / scale.divisor;
  FigureAxis x_axis{"time (" + scale.unit + ")", 0, end,
                    round_ticks(0, end, static_cast<int>(frame.plot_width() / (6 * font))), false};
  Json idle = Json::array(), ops = Json::array(), texts = Json::array(), ranks = Json::array();
  Json layers = Json::array();
  double top = 0;
  const bool named = line * kRank >= font;  // the numbers of ranks and micro-batches fit into their rows
  for (const Block& block : blocks) {
    std::string heading = block.row.label;
    if (const auto bubble = bubble_ratio(*block.record)) heading += fmt::format(": {:.0f} % idle", 100 * *bubble);
    layers.push_back(single_mark({{"type", "text"},
                                  {"align", "left"},
                                  {"baseline", "bottom"},
                                  {"x", 0},
                                  {"y", (top + kHeading) * line - 1.5},
                                  {"text", heading}}));
    top += kHeading;
    for (int rank = 0; rank < block.ranks; ++rank) {
      const double up = top + kRank * rank;
      idle.push_back({{"start", 0},
                      {"end", block.shown.seconds() / scale.divisor},
                      {"top", up + 0.05},
                      {"bottom", up + kRank - 0.05}});
      if (named)
        ranks.push_back(single_mark({{"type", "text"},
                                     {"align", "right"},
                                     {"baseline", "middle"},
                                     {"x", -3},
                                     {"y", (up + kRank / 2) * line},
                                     {"text", std::to_string(rank)}}));
    }
    for (const TimelineOp& op : block.record->timeline) {
      if (op.start >= block.shown.end) continue;
      const std::vector<TimelinePart> parts = read_parts(op.op);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (moves_data(parts[i])) continue;
        const OpLook& kind = op_kind(parts[i].kind);
        double up = top + kRank * op.rank + 0.05, down = up + kRank - 0.1;
        if (parts.size() == 2) (i == 0 ? down : up) = (up + down) / 2;
        const double start = (op.start - block.shown.begin) / scale.divisor;
        const double stop = (std::min(op.end, block.shown.end) - block.shown.begin) / scale.divisor;
        const double wide = (stop - start) / end * frame.plot_width();  // points; a thin op would be all white edge
        ops.push_back({{"start", start},
                       {"end", stop},
                       {"top", up},
                       {"bottom", down},
                       {"color", kind.color},
                       {"edge", wide < 1 ? kind.color : "white"}});
        if (named && parts.size() == 1 && !parts[i].micro.empty() && wide >= text_width(parts[i].micro, font) + 1)
          texts.push_back(
              {{"start", (start + stop) / 2}, {"top", (up + down) / 2}, {"text", parts[i].micro}, {"color", kind.ink}});
      }
    }
    top += kRank * block.ranks + kBetween;
  }
  for (Json& rank : ranks) layers.push_back(std::move(rank));
  layers.push_back(single_mark({{"type", "text"},
                                {"angle", 270},
                                {"baseline", "bottom"},
                                {"x", -text_width(std::to_string(max_ranks - 1), font) - 5},
                                {"y", frame.plot_height() / 2},
                                {"text", "rank"}}));
  const Json drawn = filled_chart("figure_timelines", {{"axis", encoding("start", x_axis)},
                                                       {"rows", Json::array({0, lines})},
                                                       {"idle", std::move(idle)},
                                                       {"ops", std::move(ops)},
                                                       {"texts", std::move(texts)}});
  for (const Json& layer : drawn["layer"]) layers.push_back(layer);
  return frame.spec(std::move(layers));
}

}  // namespace sluice
