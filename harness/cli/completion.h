// Completion of command lines in bash and zsh. The scripts call the program itself (sluice completion --words ...), so
// they know every system, workload, option and flag of this build.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sluice {

// Completions of the last of `words`, the words after "sluice"; empty: a file's name, or nothing is known. bash passes
// "variant=h1" and "flat:4" as three words: the candidates are then for the part after the sign.
std::vector<std::string> completions(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace sluice
