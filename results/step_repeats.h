// Steps on the virtual clock repeat, often by the thousand. A reference record keeps what repeats once:
// [0.5, {"times": 400, "of": [0.1, 0.2]}, 0.3] are 802 steps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"

namespace sluice {

// seconds: finite. Patterns of up to 64 steps are found; what does not repeat stands as it is, and so do more than
// 100,000 steps.
Json with_repeats(std::span<const double> seconds);

// The steps of the list `key`, with or without repeats. Throws InputError: repeats that make more than 100,000 of them.
std::vector<double> read_steps(JsonReader& reader, const std::string& key);

}  // namespace sluice
