// Numbers in texts, which must be within range; read whole (nothing before them, nothing after them) but where
// take_number says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// A finite number as C++ writes it ("1.5", "-2e3"); none for anything else, "nan" and "inf" included.
std::optional<double> number_in(std::string_view text);

// A whole number of 64 bits; none for anything else, also for one that does not fit.
std::optional<std::int64_t> whole_number_in(std::string_view text);

// The counts of a list such as "4,8,16", in its order; none of "". Throws InputError at `where` where one is not a
// whole number from 1 to kMaxCount (json_reader.h).
std::vector<int> counts_in(std::string_view list, const std::string& where);

// The finite number that `text` begins with, as number_in reads it, which is taken off; none, and nothing taken off,
// where it begins with none.
std::optional<double> take_number(std::string_view& text);

// The whole number that an environment variable holds; none where it is not set, holds anything else, or does not fit.
std::optional<int> number_in_environment(const char* name);

}  // namespace sluice
