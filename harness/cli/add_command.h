// What the flags of all commands are made with.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "harness/cli/exit_codes.h"

namespace sluice {

// The command that the arguments choose, once they are parsed.
using Chosen = std::function<int()>;

// A command, and the arguments that its options fill in, which live as long as it may still run.
template <class Arguments>
std::pair<CLI::App*, std::shared_ptr<Arguments>> add_command(CLI::App& app, Chosen& chosen, const std::string& name,
                                                             const std::string& help, int (*run)(const Arguments&)) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(name, help);
  command->callback([&chosen, run, arguments] { chosen = [run, arguments] { return run(*arguments); }; });
  return {command, std::move(arguments)};
}

// An option with a value, which help calls `type`.
template <class T>
CLI::Option* add_value(CLI::App* command, const std::string& flags, T& value, const std::string& type,
                       const std::string& help) {
  return command->add_option(flags, value, help)->type_name(type);
}
// The same; help shows the value that it has now as the default.
template <class T>
CLI::Option* add_defaulted(CLI::App* command, const std::string& flags, T& value, const std::string& type,
                           const std::string& help) {
  return add_value(command, flags, value, type, help)->capture_default_str();
}

inline void add_examples(CLI::App* command, const std::string& examples) {
  command->footer("Examples:\n" + examples + "\n\n" + kExitCodesHelp);
}

inline void add_json(CLI::App* command, bool& json) {
  command->add_flag("-j,--json", json, "One JSON document on stdout");
}

}  // namespace sluice
