// What the flags of all commands are made with.
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
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

// The number as CLI11 reads it, which would take leading zeros for octal. Throws InputError at `flag`.
template <class Number>
std::string decimal_number(const std::string& flag, const std::string& text) {
  if constexpr (std::integral<Number>) {
    if (const auto number = number_as<Number>(text)) return std::to_string(*number);
    if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos)
      throw InputError(flag, text + " is too large",
                       "give at most " + std::to_string(std::numeric_limits<Number>::max()));
    throw InputError(flag, "'" + text + "' is not a whole number", "write " + flag + " 4");
  } else {
    if (!number_in(text)) throw InputError(flag, "'" + text + "' is not a number", "write " + flag + " 0.5");
    return text;
  }
}

template <class T>
struct NumberIn {
  using Type = T;
};
template <class T>
struct NumberIn<std::optional<T>> {
  using Type = T;
};

// An option with a value, which help calls `type`.
template <class T>
CLI::Option* add_value(CLI::App* command, const std::string& flags, T& value, const std::string& type,
                       const std::string& help) {
  CLI::Option* option = command->add_option(flags, value, help)->type_name(type);
  using Number = typename NumberIn<T>::Type;
  if constexpr (std::integral<Number> || std::floating_point<Number>)
    option->transform(
        [flag = option->get_name()](const std::string& text) { return decimal_number<Number>(flag, text); });
  return option;
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
