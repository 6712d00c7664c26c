// The message of an exception of any type for the user: our own messages unchanged, those of libraries in our words.
#pragma once

#include <exception>
#include <optional>
#include <string>

namespace sluice {

// One line. An unknown type is reported as a defect of sluice.
std::string words_of(const std::exception& error);

// Registers the messages of a library's exceptions; `words` returns nullopt for unknown ones. Called once per library,
// before work begins.
using ErrorWords = std::optional<std::string> (*)(const std::exception& error);
void add_error_words(ErrorWords words);

inline constexpr const char* kOutOfMemory = "out of memory: this process may not have more (ulimit -v, or the machine)";

}  // namespace sluice
