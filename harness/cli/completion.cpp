#include "harness/cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "harness/case/settings.h"
#include "harness/cli/commands.h"
#include "harness/model/cluster.h"
#include "harness/pipeline/system.h"
#include "plots/figure.h"
#include "results/compare_columns.h"
#include "workloads/models/registry.h"

namespace sluice {

namespace {

using Names = std::vector<std::string>;

constexpr const char* kBash = R"(_sluice() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]}" completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}
complete -o default -F _sluice sluice
)";

constexpr const char* kZsh = R"(#compdef sluice
_sluice() {
  local -a found
  found=("${(@f)$("$words[1]" completion --words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found[1]" ]]; then
    if [[ ${#found} == 1 && "$found[1]" == *= ]]; then compadd -S '' -- "$found[@]"; else compadd -- "$found[@]"; fi
  else
    _files
  fi
}
compdef _sluice sluice
)";

Names system_names() {
  Names names;
  for (const System* system : all_systems()) {
    names.push_back(system->name);
    names.insert(names.end(), system->aliases.begin(), system->aliases.end());
  }
  return names;
}

Names workload_names() {
  Names names;
  for (const Workload& workload : all_workloads()) names.push_back(workload.name);
  return names;
}

Names cluster_names() { return names_of_json_files(source_folder() + "/workloads/clusters"); }

// The systems that are named in the words, after --system or -s; all where none is.
std::vector<const System*> systems_in(const Names& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] != "--system" && words[i] != "-s") continue;
    try {
      return systems_named(words[i + 1], /*inference=*/true);
    } catch (const InputError&) {
      break;
    }
  }
  return {all_systems().begin(), all_systems().end()};
}

// "variant=", and of a word that has its '=' already "variant=h1".
Names options_in(const Names& words) {
  const std::string& word = words.back();
  const std::size_t equals = word.find('=');
  Names names;
  for (const System* system : systems_in(words))
    for (const OptionSpec& option : system->options) {
      if (equals == std::string::npos) names.push_back(option.name + "=");
      if (equals == std::string::npos || word.substr(0, equals) != option.name) continue;
      for (const std::string& choice : option.choices) names.push_back(option.name + "=" + choice);
    }
  return names;
}

// The names of `all` that may come last in a list "a,b,c".
Names continuing_a_list(const Names& all, const std::string& word) {
  const std::size_t comma = word.rfind(',');
  if (comma == std::string::npos) return all;
  Names names;
  for (const std::string& name : all) names.push_back(word.substr(0, comma + 1) + name);
  return names;
}

const CLI::Option* option_named(const CLI::App& command, const std::string& flag) {
  if (!flag.starts_with('-')) return nullptr;
  return command.get_option_no_throw(flag);
}

// Values of a flag, or of a command's positional argument (named as CLI11 names it).
Names values_of(const std::string& command, const std::string& name, const Names& words) {
  const std::string key = command + " " + name;
  static const std::map<std::string, Names> fixed = {{"completion shell", {"bash", "zsh"}},
                                                     {"schedule --costs-of", {"stage", "rank"}},
                                                     {"profile --device", {"cpu", "cuda"}},
                                                     {"plan --costs", {"analytic", "calibrated", "profile", "raw"}},
                                                     {"run --costs", {"analytic", "calibrated", "profile"}},
                                                     {"advise --costs", {"analytic", "calibrated", "profile", "raw"}},
                                                     {"run --timelines", {"all", "best", "none"}},
                                                     {"run --progress", {"auto", "bar", "plain", "none"}},
                                                     {"compare --metric", compare_metric_names()},
                                                     {"compare --format", {"text", "markdown", "latex", "csv", "json"}},
                                                     {"export --format", {"csv", "jsonl", "chakra"}},
                                                     {"compare --best", {"bold", "none"}},
                                                     {"figure kind", kFigureKinds},
                                                     {"figure --order", kFigureOrders},
                                                     {"figure --width", {"3.3in", "7in"}},
                                                     {"export --costs", {"analytic", "calibrated", "profile", "raw"}},
                                                     {"new what", {"baseline", "workload", "cluster"}},
                                                     {"new --kind", {"flush", "split", "chunked", "asynchronous"}}};
  if (const auto found = fixed.find(key); found != fixed.end()) return found->second;
  if (key == "figure --format") return continuing_a_list({"pdf", "pgf", "svg", "png"}, words.back());
  if (key == "figure --systems") return continuing_a_list(system_names(), words.back());
  if (name == "--system" || name == "--baseline") return continuing_a_list(system_names(), words.back());
  if (key == "check systems") return continuing_a_list(system_names(), words.back());
  if (name == "--workload") return workload_names();
  if (name == "--cluster") return cluster_names();
  if (name == "--set") return options_in(words);
  if (key == "compare --columns" || key == "compare --sort")
    return continuing_a_list(compare_column_names(), words.back());
  if (key == "compare --pivot")
    return continuing_a_list({"system", "workload", "cluster", "ranks", "batch", "microbatches"}, words.back());
  if (key == "run sweep") return sweep_names();
  if (key == "list what") {
    Names names = {"systems", "workloads", "clusters", "calibrations", "sweeps"};
    for (const Names& more : {system_names(), workload_names(), cluster_names(), sweep_names()})
      names.insert(names.end(), more.begin(), more.end());
    return names;
  }
  if (command != "schedule")  // its --costs are of another kind
    for (const Setting& setting : settings())
      if (flag_of(setting) == name) return setting.value.choices;
  return {};
}

Names flags_of(const CLI::App& command) {
  Names flags;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

Names candidates(const CLI::App& app, const Names& words) {
  if (words.size() == 1) {
    Names names = words.front().starts_with('-') ? flags_of(app) : Names{};
    if (names.empty())
      for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(c->get_name());
    return names;
  }
  if (words.front() == "help") return candidates(app, {words.back()});
  const auto named = app.get_subcommands([&](const CLI::App* c) { return c->get_name() == words.front(); });
  if (named.empty()) return {};
  const CLI::App* command = named.front();
  const std::string& before = words[words.size() - 2];
  const CLI::Option* option = option_named(*command, before);
  if (option && option->get_type_size() > 0)
    return values_of(command->get_name(), "--" + option->get_lnames().front(), words);
  if (words.back().starts_with('-')) return flags_of(*command);
  for (const CLI::Option* positional : command->get_options())
    if (positional->get_positional()) return values_of(command->get_name(), positional->get_single_name(), words);
  return {};
}

}  // namespace

std::vector<std::string> sweep_names() { return names_of_json_files(source_folder() + "/harness/sweeps"); }

std::vector<std::string> completions(const CLI::App& app, const std::vector<std::string>& words) {
  Names joined;
  std::string glued;  // of the last word, what its last part is not
  bool open = false;  // the word goes on with the next part
  for (const std::string& part : words) {
    const bool sign = part == "=" || part == ":";
    if (joined.empty() || (!sign && !open)) {
      joined.push_back(part);
      glued.clear();
    } else {
      glued = joined.back() + (sign ? part : "");
      joined.back() += part;
    }
    open = sign;
  }
  if (joined.empty()) joined.emplace_back();
  Names result;
  for (const std::string& candidate : candidates(app, joined))
    if (candidate.starts_with(joined.back()) && candidate.size() >= glued.size())
      result.push_back(candidate.substr(glued.size()));
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

int completion_command(const CompletionArguments& a) {
  const Names shells = {"bash", "zsh"};
  if (a.shell != "bash" && a.shell != "zsh")
    throw InputError("completion", "unknown shell '" + a.shell + "'", suggestion(a.shell, shells));
  fmt::print("{}", a.shell == "bash" ? kBash : kZsh);
  return 0;
}

}  // namespace sluice
