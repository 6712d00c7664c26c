// Steps on the virtual clock repeat, often thousands of times. A reference record stores repeated steps once: [0.5,
// {"times": 400, "of": [0.1, 0.2]}, 0.3] are 802 steps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"

namespace sluice {

// seconds: finite. Finds patterns of up to 64 steps. Other steps, and lists of more than 100,000 steps, stay unchanged.
Json with_repeats(std::span<const double> seconds);

// The steps of the list `key`, with or without repeats. Throws InputError if repeats make more than 100,000 steps.
std::vector<double> read_steps(JsonReader& reader, const std::string& key);

}  // namespace sluice
