// Numbers in texts, read whole: nothing before them, nothing after them, and within range.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

// A finite number as C++ writes it ("1.5", "-2e3"); none for anything else, "nan" and "inf" included.
std::optional<double> number_in(std::string_view text);

// A whole number of 64 bits; none for anything else, also for one that does not fit.
std::optional<std::int64_t> whole_number_in(std::string_view text);

}  // namespace sluice
