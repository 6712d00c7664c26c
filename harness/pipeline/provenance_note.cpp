#include "harness/pipeline/provenance_note.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace sluice {

// "SPP; planner=paper and error_feedback of PipeDream-2BW": what of the systems has this source.
static std::string of_source(std::span<const System* const> systems, WrittenFrom from, const HasPart& has_part) {
  std::vector<std::string> names;
  for (const System* system : systems) {
    const Provenance& provenance = system->written_from;
    if (provenance.system == WrittenFrom::ours) continue;
    std::string parts;
    for (const Provenance::Part& part : provenance.parts)
      if (part.from == from && has_part(*system, part.name)) parts += (parts.empty() ? "" : " and ") + part.name;
    if (provenance.system == from)
      names.push_back(system->title);
    else if (!parts.empty())
      names.push_back(parts + " of " + system->title);
  }
  return fmt::format("{}", fmt::join(names, "; "));
}

std::string provenance_note(std::span<const System* const> systems, const HasPart& has_part) {
  constexpr std::pair<WrittenFrom, const char*> kWeaker[] = {
      {WrittenFrom::memory, "Written from memory of the paper: "},
      {WrittenFrom::abstract, "Written from an abstract or from notes by others: "},
      {WrittenFrom::ours, "Our own construction: "}};
  if (systems.empty()) return "";
  std::string note;
  for (const auto& [from, words] : kWeaker)
    if (const std::string names = of_source(systems, from, has_part); !names.empty())
      note += (note.empty() ? "" : " ") + std::string(words) + names + ".";
  return note.empty() ? "All systems here were written from papers or released code." : note;
}

}  // namespace sluice
