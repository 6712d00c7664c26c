// The flags of a case, made from the table of settings (case/settings.h), and the entries that they make.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/entry.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice {

struct Setting;

// The given flags, as text.
struct CaseFlags {
  std::map<std::string, std::string> values;  // by the setting's key
  std::vector<std::string> set;               // KEY=VALUE, options of the system
};

CLI::Option* add_set(CLI::App* command, std::vector<std::string>& set);
// Adds the flag of each setting for which `takes` holds, and --set if it includes the options. `flags` has to outlive
// the command.
void add_case_flags(CLI::App* command, CaseFlags& flags, const std::function<bool(const Setting&)>& takes,
                    bool under_headings = false);

// The values of the flags, in the types of a sweep's entry, without the system's options; they replace those of
// `defaults`. Throws InputError.
Entry entry_of(const CaseFlags& flags, const Json& defaults = Json::object());

// One entry per system of the flag --system, each with those options of --set that the system has.
std::vector<Entry> entries_of(const CaseFlags& flags, const Json& defaults = Json::object());

// The entries' cases. Prints on stderr the flags that have no effect in any of them.
std::vector<RunCase> cases_of(const std::vector<Entry>& entries);

// The values for a case of the virtual clock that is timed and does not train, for plan, advise and export.
const Json& timed_only();

// The inverse: "--ranks 4 --clock virtual" for the settings for which `takes` holds, in a shell's syntax.
std::string flags_text(const Json& values, const std::function<bool(const Setting&)>& takes);

}  // namespace sluice
