// Completion of command lines in bash and zsh. The scripts ask the program itself (sluice completion --words ...), so
// that they know every system, workload, option and flag of this build.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sluice {

// What the last of `words`, the words after "sluice", may become; empty: a file's name, or nothing is known. bash hands
// "variant=h1" and "flat:4" over in three words: the candidates are then for the part after the sign.
std::vector<std::string> completions(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace sluice
