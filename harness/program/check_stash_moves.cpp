// What check(Program) asks of the moves of stashes; offload.h has their rules.
#include <map>

#include "harness/program/check_program_parts.h"

namespace sluice {

namespace {

enum class StashPlace { nowhere, device, copied, host, coming };

const char* words_of(StashPlace place) {
  static constexpr const char* kTexts[] = {"there is none", "it is on the device only",
                                           "it is on the device, a copy goes to the host", "it is on the host only",
                                           "it is back on the device"};
  return kTexts[static_cast<std::size_t>(place)];
}

}  // namespace

void check_stash_moves(const Program& program, Rank rank, std::vector<Violation>& found) {
  std::map<std::pair<StageId, Micro>, StashPlace> places;
  const auto report = [&](const Instruction& i, StashPlace place) {
    found.push_back({Violation::Kind::stash_elsewhere, on_rank(rank.index()) + to_text(i, program.sequence_chunks) +
                                                           ": the stash is not where it must be: " + words_of(place)});
  };
  for (const Instruction& i : program.ranks[rank.index()]) {
    if (i.opcode == Opcode::forward) {
      places[{i.stage, i.micro}] = i.checkpoint ? StashPlace::nowhere : StashPlace::device;
      continue;
    }
    if (!is_stash_move(i.opcode) && !reads_stash(i.opcode)) continue;
    StashPlace& place = places[{i.stage, i.micro}];
    const auto move = [&](StashPlace from, StashPlace to) {
      if (place != from) report(i, place);
      place = to;
    };
    switch (i.opcode) {
      case Opcode::stash_out:
        move(StashPlace::device, StashPlace::copied);
        break;
      case Opcode::stash_free:
        move(StashPlace::copied, StashPlace::host);
        break;
      case Opcode::stash_back:
        move(StashPlace::host, StashPlace::coming);
        break;
      default:
        if (place == StashPlace::copied || place == StashPlace::host) report(i, place);
        place = StashPlace::nowhere;
    }
  }
}

}  // namespace sluice
