// What an exception of any kind says to the user: our own as they are, those of libraries in our words.
#pragma once

#include <exception>
#include <optional>
#include <string>

namespace sluice {

// One line. A kind that is not known is said to be a defect of sluice.
std::string words_of(const std::exception& error);

// A room that uses a library with exceptions of its own says them here: `words` returns nothing for those it does not
// know. Called once a library, before work begins.
using ErrorWords = std::optional<std::string> (*)(const std::exception& error);
void add_error_words(ErrorWords words);

inline constexpr const char* kOutOfMemory = "out of memory: this process may not have more (ulimit -v, or the machine)";

}  // namespace sluice
