// The systems and their options on the command line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/pipeline/system.h"

namespace sluice {

// The systems of "a,b,c" or of patterns (systems_of_pattern), each once, by their names or as "file:order.csv", without
// those that "!NAME" excludes. inference: patterns stand for the systems that only infer, too. Throws InputError at
// `where`.
std::vector<std::string> names_of_systems(const std::string& text, bool inference = false,
                                          const std::string& where = "--system");
// Throws InputError also for "file:...".
std::vector<const System*> systems_named(const std::string& text, bool inference = false,
                                         const std::string& where = "--system");

// The part of `given` that `system` declares; other systems may declare the rest.
std::map<std::string, std::string> options_of(const System& system, const std::map<std::string, std::string>& given);
// Throws InputError for an option that none of `systems` has, or a value that none of them takes.
void reject_undeclared(const std::vector<const System*>& systems, const std::map<std::string, std::string>& given);

// The "key=value" texts of --set as a map. Throws InputError for a text without '=', and for a repeated key.
std::map<std::string, std::string> given_options(const std::vector<std::string>& set);

}  // namespace sluice
