// What the flags of all commands are made with.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "harness/cli/exit_codes.h"

namespace sluice {

// The command that the arguments choose, once they are parsed.
using Chosen = std::function<int()>;

// A command whose options fill in `arguments`, which live as long as the command may still run.
template <class Arguments>
CLI::App* add_command(CLI::App& app, Chosen& chosen, const std::string& name, const std::string& help,
                      int (*run)(const Arguments&), const std::shared_ptr<Arguments>& arguments) {
  CLI::App* command = app.add_subcommand(name, help);
  command->callback([&chosen, run, arguments] { chosen = [run, arguments] { return run(*arguments); }; });
  return command;
}

inline void add_examples(CLI::App* command, const std::string& examples) {
  command->footer("Examples:\n" + examples + "\n\n" + kExitCodesHelp);
}

inline void add_json(CLI::App* command, bool& json) {
  command->add_flag("-j,--json", json, "One JSON document on stdout");
}

}  // namespace sluice
