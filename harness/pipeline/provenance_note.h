// The sources of several systems in one line, for the pages and reports that show them.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "harness/pipeline/system.h"

namespace sluice {

// Whether the page or report includes that part of a system.
using HasPart = std::function<bool(const System& system, const std::string& part)>;
// One line about several systems: what was written from memory, from abstracts, or is ours. Systems that are completely
// ours have no paper and are left out. Empty for no systems.
std::string provenance_note(std::span<const System* const> systems, const HasPart& has_part);

}  // namespace sluice
