#include "harness/pipeline/moves.h"

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "harness/base/split.h"

namespace sluice {

namespace {

template <class Number>
Number number_of(const std::string& text, const std::string& move, const std::string& where) {
  const auto number = number_as<Number>(text);
  if (!number || *number < 0)
    throw InputError(where, "'" + move + "' is not a move: '" + text + "' is not a count",
                     "write UPDATE:FIRST LAYERS, as in 214:7 or, of three stages, 214:3/9");
  return *number;
}

}  // namespace

std::vector<PlanMove> parse_moves(const std::string& text, const std::string& where) {
  std::vector<PlanMove> moves;
  for (const std::string& part : split(text, ",")) {
    const std::size_t colon = part.find(':');
    PlanMove move{.update = number_of<std::int64_t>(part.substr(0, colon), part, where), .first_layers = {}};
    for (const std::string& layer : split(colon == std::string::npos ? "" : part.substr(colon + 1), "/"))
      move.first_layers.push_back(number_of<int>(layer, part, where));
    if (!moves.empty() && move.update <= moves.back().update)
      throw InputError(where,
                       "the move '" + part + "' is not after update " + std::to_string(moves.back().update) +
                           ", that of the move before it",
                       "give moves in the order of their updates");
    moves.push_back(std::move(move));
  }
  return moves;
}

std::string to_text(const std::vector<PlanMove>& moves) {
  std::string text;
  for (const PlanMove& move : moves) {
    text += (text.empty() ? "" : ",") + std::to_string(move.update) + ":";
    for (std::size_t s = 0; s < move.first_layers.size(); ++s)
      text += (s > 0 ? "/" : "") + std::to_string(move.first_layers[s]);
  }
  return text;
}

}  // namespace sluice
