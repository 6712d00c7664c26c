// Moves of layers between the stages of a chain, as text: "214:7,431:3/9" says that after 214 updates of the training
// the second stage begins with layer 7, and after 431 updates the second with layer 3 and the third with layer 9.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct PlanMove {
  std::int64_t update = 0;        // number of updates before it
  std::vector<int> first_layers;  // of the second and the following stages
  bool operator==(const PlanMove&) const = default;
};

// Throws InputError at `where` for text of another form, or updates that do not ascend.
std::vector<PlanMove> parse_moves(const std::string& text, const std::string& where);
std::string to_text(const std::vector<PlanMove>& moves);

}  // namespace sluice
