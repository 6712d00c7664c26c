// What scenarios of a kind can measure, by name. A measure is a struct with a member `name`.
#pragma once

#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/claims/scenario.h"

namespace sluice {

std::vector<std::string> names_of(const auto& measures) {
  std::vector<std::string> names;
  for (const auto& measure : measures) names.emplace_back(measure.name);
  return names;
}

// The one that "measure" names. Throws InputError.
const auto& read_measure(JsonReader& reader, const auto& measures) {
  const std::string name = reader.text("measure");
  for (const auto& measure : measures)
    if (name == measure.name) return measure;
  reader.fail("measure", "unknown measure '" + name + "'", suggestion(name, names_of(measures)));
}

}  // namespace sluice
