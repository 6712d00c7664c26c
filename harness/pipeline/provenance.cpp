#include "harness/pipeline/provenance.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {

std::string sources_text(const Provenance& provenance) {
  std::vector<std::string> names = {choice_name(provenance.system)};
  for (const Provenance::Part& part : provenance.parts)
    if (const std::string name = choice_name(part.from); std::ranges::count(names, name) == 0) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string parts_text(const Provenance& provenance) {
  std::string text = choice_name(provenance.system);
  for (const Provenance::Part& part : provenance.parts)
    text += fmt::format("; {}: {}", part.name, choice_name(part.from));
  return text;
}

}  // namespace sluice
