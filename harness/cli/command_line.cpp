#include "harness/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/split.h"
#include "harness/cli/command_flags.h"
#include "harness/cli/commands.h"
#include "harness/cli/completion.h"
#include "harness/cli/exit_codes.h"
#include "harness/cli/help_format.h"
#include "harness/cli/version.h"

namespace sluice {

namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// sluice help, sluice help COMMAND
void add_help(CLI::App& app, Chosen& chosen) {
  const auto name = std::make_shared<std::string>();
  CLI::App* c = app.add_subcommand("help", "Print the help of a command");
  c->add_option("command", *name, "Its name (default: all commands)")->type_name("");
  c->callback([&app, &chosen, name] {
    std::vector<std::string> names;
    // Not app.help(), which is that of the command that was parsed.
    const auto of_all = [&app] { return app.get_formatter()->make_help(&app, "", CLI::AppFormatMode::Normal); };
    std::string text = name->empty() ? of_all() : "";
    for (const CLI::App* command : commands_of(app)) {
      names.push_back(command->get_name());
      if (command->get_name() == *name) text = command->help("sluice");
    }
    if (text.empty()) throw InputError("help", "unknown command '" + *name + "'", suggestion(*name, names));
    chosen = [text] {
      fmt::print("{}", text);
      return 0;
    };
  });
}

std::string help_advice(const CLI::App* command) {
  return "see sluice " + (command ? command->get_name() + " " : "") + "--help";
}

// What CLI11 says of flags that are given twice, have no value, or do not go together, in our form; none: of others.
std::optional<InputError> error_of_flags(const std::string& command, const CLI::ParseError& error) {
  const auto parts = [&](const std::string& kind, const std::string& words) {
    std::vector<std::string> flags = split(error.what(), words);
    return error.get_name() == kind && flags.size() == 2 ? flags : std::vector<std::string>{};
  };
  if (const auto flag = parts("ArgumentMismatch", ": At Most 1 required"); !flag.empty())
    return InputError(command, flag[0] + " is given more than once", "give it once");
  if (const auto flag = parts("ArgumentMismatch", ": 1 required "); !flag.empty())
    return InputError(command, flag[0] + " has no value", "write the value after it, or leave it out");
  if (const auto flags = parts("ExcludesError", " excludes "); !flags.empty())
    return InputError(command, flags[0] + " and " + flags[1] + " do not go together", "leave one of them out");
  if (const auto flags = parts("RequiresError", " requires "); !flags.empty())
    return InputError(command, flags[0] + " needs " + flags[1], "give both, or leave " + flags[0] + " out");
  return std::nullopt;
}

// What the parser objects to, in our form: "schedule: unknown flag '--rank'; did you mean '--ranks'?"
InputError usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  std::vector<std::string> commands;
  const CLI::App* command = nullptr;
  for (const CLI::App* c : commands_of(app)) {
    commands.push_back(c->get_name());
    if (!arguments.empty() && arguments.front() == c->get_name()) command = c;
  }
  if (!command) {
    if (arguments.empty()) return {"sluice", "no command given", help_advice(nullptr)};
    const bool flag = arguments.front().starts_with('-');
    return {"sluice", std::string("unknown ") + (flag ? "flag" : "command") + " '" + arguments.front() + "'",
            flag ? help_advice(nullptr) : suggestion(arguments.front(), commands)};
  }
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    const std::string now = new_name_of(command->get_name(), name);
    if (!now.empty()) return {command->get_name(), "'" + name + "' is no flag any more", "write " + now};
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::vector<std::string> flags;
    std::string letters;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
      for (const std::string& name : option->get_snames()) letters += name;
    }
    for (std::size_t i = 1; i < arguments.size(); ++i) {
      const std::string name = arguments[i].substr(0, arguments[i].find('='));
      if (name.starts_with("--") && std::ranges::count(flags, name) == 0)
        return {command->get_name(), "unknown flag '" + name + "'", suggestion(name, flags)};
      const bool letter = name.size() > 1 && name[0] == '-' && std::isalpha(static_cast<unsigned char>(name[1]));
      if (letter && letters.find(name[1]) == std::string::npos)
        return {command->get_name(), "unknown flag '" + name + "'", help_advice(command)};
    }
  }
  if (const auto of_flags = error_of_flags(command->get_name(), error)) return *of_flags;
  std::string what = error.what();
  while (what.ends_with('\n') || what.ends_with('.')) what.pop_back();
  return {command->get_name(), what, help_advice(command)};
}

}  // namespace

std::function<int()> parse_command_line(int argc, char** argv) {
  CLI::App app{
      "Sluice: a benchmarking and reproduction harness for pipeline-parallel training.\n"
      "Runs published systems under one harness: throughput, memory, time to accuracy.\n"};
  app.name("sluice");
  app.formatter(std::make_shared<WrappedHelp>());
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", version_text, "Print the version, and what this build has");
  const std::string notice = torch_free_notice();
  app.footer(
      "Examples:\n"
      "  sluice run harness/sweeps/quick.json        the quick sweep\n"
      "  sluice schedule --system 1f1b --ranks 4 --microbatches 8 --text\n"
      "  sluice run --system gpipe --workload fmnist_cnn --ranks 2\n"
      "\n" +
      std::string(kExitCodesHelp) + (notice.empty() ? "" : "\n" + notice));
  Chosen chosen;
  add_commands(app, chosen);
  add_help(app, chosen);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() > 1 && arguments[0] == "completion" && arguments[1] == "--words") {  // a shell asks
    const std::vector<std::string> found = completions(app, {arguments.begin() + 2, arguments.end()});
    return [found] {
      for (const std::string& candidate : found) fmt::print("{}\n", candidate);
      return 0;
    };
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) throw usage_error(app, e, arguments);
    app.exit(e);  // prints the help, or the version
    return [] { return 0; };
  }
  for (const CLI::App* command : app.get_subcommands())
    for (const CLI::Option* option : command->get_options())
      if (std::ranges::count(option->results(), "") > 0)  // of a shell's variable that is not set
        throw InputError(option->get_name(), "its value is empty", "give one, or leave it out");
  return chosen;
}

}  // namespace sluice
