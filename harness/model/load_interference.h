// Interference from a user's text: a preset, a file or single episodes.
#pragma once

#include <string>

#include "harness/model/interference.h"

namespace sluice {

// description: a file ending in .json ({"name", "source", "seed", "episodes": [{"resource", "device", "to", "start",
// "seconds" (absent: until the end), "slowdown"}], "op_noise", "latency_jitter"}), a preset with settings
// ("light:seed=3,scale=0.01"), or episodes ("compute:1@10-20x2,link:0-1@5-x4,memory:0x1.5": resource, device or link,
// from, until, factor). "" and "none": no interference. Throws InputError(where, ...).
Interference load_interference(const std::string& description, int devices, const std::string& where);
// The file that it reads: the description itself, or a preset's file=PATH; empty: none.
std::string interference_file(const std::string& description);

}  // namespace sluice
