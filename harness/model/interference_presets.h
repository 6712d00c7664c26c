// The named interferences: a synthetic model of shared clusters, and episodes that were published.
#pragma once

#include <string>

#include "harness/model/interference.h"

namespace sluice {

// "NAME" or "NAME:key=value,...". Keys: seed; scale, which multiplies all of the model's seconds; device, which alone
// is disturbed; busy, the share of time in an episode, where the model draws them; file, where the preset reads one.
// Throws InputError(where, ...).
Interference preset_interference(const std::string& description, int devices, const std::string& where);

// The file that a preset's settings name; empty: none.
std::string preset_file(const std::string& description);

}  // namespace sluice
