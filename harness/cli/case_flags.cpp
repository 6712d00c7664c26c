#include "harness/cli/case_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "harness/base/split.h"
#include "harness/case/settings.h"
#include "harness/cli/given_options.h"
#include "harness/exec/mpi/mpi.h"

namespace sluice {

namespace {

using Type = SettingValue::Type;

// The letter of a setting's flag, where it has one: the same in all commands.
std::string letter_of(const std::string& key) {
  static const std::map<std::string, std::string> letters = {{"system", "-s"},  {"workload", "-w"},
                                                             {"cluster", "-c"}, {"ranks", "-n"},
                                                             {"batch", "-b"},   {"microbatches", "-m"}};
  const auto letter = letters.find(key);
  return letter == letters.end() ? "" : letter->second;
}

const char* heading_of(HelpGroup group) {
  static constexpr const char* kTexts[] = {"One case instead of a sweep", "Where it runs", "Ranks and replicas",
                                           "Batches and length", "Training"};
  return kTexts[static_cast<std::size_t>(group)];
}

CLI::Option* add_flag(CLI::App* command, CaseFlags& flags, const Setting& setting) {
  const auto keep = [&values = flags.values, key = setting.key](const std::string& value) { values[key] = value; };
  if (setting.value.type == Type::boolean)  // the flag says no to what holds otherwise
    return command->add_flag_callback(
        flag_of(setting), [keep] { keep("false"); }, help_of(setting));
  const std::string letter = letter_of(setting.key);
  return command
      ->add_option_function<std::string>(letter.empty() ? flag_of(setting) : letter + "," + flag_of(setting), keep,
                                         help_of(setting))
      ->type_name(setting.value.type == Type::number ? "N"
                  : setting.value.type == Type::list ? "LIST"
                                                     : "NAME");
}

// "adamw,learning_rate=1e-4": the first item is the value of "kind".
Json object_of(const Setting& setting, const std::string& text) {
  Json object = Json::object();
  for (const std::string& item : split(text, ",")) {
    const std::size_t equals = item.find('=');
    const bool is_kind = equals == std::string::npos && object.empty();
    const std::string key = is_kind ? "kind" : item.substr(0, equals);
    if (key.empty() || item.empty() || (equals == std::string::npos && !is_kind) || object.contains(key))
      throw InputError(flag_of(setting), "'" + text + "' is not KIND[,KEY=VALUE...] with each key once",
                       "write adamw,learning_rate=1e-4");
    if (key == "schedule")
      throw InputError(flag_of(setting) + " schedule", "only a sweep can give it", "write a sweep, or leave it out");
    const std::string value = is_kind ? item : item.substr(equals + 1);
    const Json parsed = Json::parse_if_json(value).value_or(Json());
    object[key] = parsed.is_number() || parsed.is_boolean() ? parsed : Json(value);
  }
  return object;
}

Json value_of(const Setting& setting, const std::string& text) {
  if (setting.value.type == Type::boolean) return text == "true";
  if (setting.value.type == Type::object) return object_of(setting, text);
  if (setting.value.type == Type::list) return counts_in(text, flag_of(setting));
  if (setting.value.type != Type::number) return text;
  if (const auto whole = whole_number_in(text)) return *whole;  // JSON has no leading zeros
  const Json number = Json::parse_if_json(text).value_or(Json());
  if (!number.is_number())
    throw InputError(flag_of(setting), "'" + text + "' is not a number", "write " + flag_of(setting) + " 4");
  return number;
}

// As counts_in() reads it.
std::string text_of_list(const Json& list) { return fmt::format("{}", fmt::join(list.get<std::vector<int>>(), ",")); }

// As object_of() reads it.
std::string text_of_object(const Json& object) {
  std::string text = object.value("kind", "");
  for (const auto& [key, value] : object.items())
    if (key != "kind") text += (text.empty() ? "" : ",") + key + "=" + value.text();
  return text;
}

std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./,:=+@%").find(c) != std::string_view::npos;
  });
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

CLI::Option* add_set(CLI::App* command, std::vector<std::string>& set) {
  return command
      ->add_option("-O,--set", set,
                   "Option of the system (see sluice list NAME); may be repeated; of several systems: for those that "
                   "have it")
      ->type_name("KEY=VALUE");
}

void add_case_flags(CLI::App* command, CaseFlags& flags, const std::function<bool(const Setting&)>& takes,
                    bool under_headings) {
  for (const HelpGroup group :
       {HelpGroup::experiment, HelpGroup::machine, HelpGroup::parallelism, HelpGroup::batches, HelpGroup::training}) {
    for (const Setting& setting : settings()) {
      const bool options = setting.key == "options";  // --set
      if (setting.group != group || !takes(setting) || !(setting.has_flag || options)) continue;
      CLI::Option* option = options ? add_set(command, flags.set) : add_flag(command, flags, setting);
      if (under_headings) option->group(heading_of(group));
    }
  }
}

Entry entry_of(const CaseFlags& flags, const Json& defaults) {
  Entry entry{defaults, place_of_flag};
  for (const Setting& setting : settings())
    if (const auto given = flags.values.find(setting.key); given != flags.values.end())
      entry.values[setting.key] = value_of(setting, given->second);
  return entry;
}

std::vector<Entry> entries_of(const CaseFlags& flags, const Json& defaults) {
  const std::map<std::string, std::string> given = given_options(flags.set);
  Entry entry = entry_of(flags, defaults);
  const std::vector<std::string> names =
      names_of_systems(flags.values.at("system"), entry.values.value("task", "") == choice_name(Task::inference));
  std::vector<const System*> systems;
  for (const std::string& name : names) systems.push_back(&find_system(name, "--system"));
  if (systems.size() > 1) reject_undeclared(systems, given);
  std::vector<Entry> entries;
  for (std::size_t k = 0; k < names.size(); ++k) {
    entry.values["system"] = names[k];
    entry.values["options"] = names.size() > 1 ? options_of(*systems[k], given) : given;
    entries.push_back(entry);
  }
  return entries;
}

// Whether an entry's values have one at "/KEY" or "/KEY/INNER".
static bool gives(const Json& values, const std::string& pointer) {
  const std::size_t inner = pointer.find('/', 1);
  const Json* value = values.find(pointer.substr(1, inner - 1));
  return value && (inner == std::string::npos || value->contains(pointer.substr(inner + 1)));
}

std::vector<RunCase> cases_of(const std::vector<Entry>& entries) {
  std::vector<RunCase> cases;
  std::map<std::string, std::vector<std::string>> reasons;  // by the value's pointer: of the cases without an effect
  for (const Entry& entry : entries) {
    ReadCase read = read_case(entry);
    cases.push_back(std::move(read.c));
    for (const auto& [pointer, why] : read.without_effect) reasons[pointer].push_back(why);
  }
  for (const auto& [pointer, whys] : reasons) {
    const std::size_t takers = std::ranges::count_if(entries, [&](const Entry& e) { return gives(e.values, pointer); });
    if (whys.size() < takers || launch_from_environment().rank > 0) continue;
    const std::size_t inner = std::min(pointer.find('/', 1), pointer.size());
    const std::string flag = place_of_flag(pointer.substr(0, inner)), key = pointer.substr(inner);
    fmt::print(stderr, "note: {}{} has no effect on {}{}\n", flag, key.empty() ? "" : " " + key.substr(1),
               entries.size() == 1 ? cases.front().system : "any of the systems",
               whys.front().empty() ? "" : ": " + whys.front());
  }
  return cases;
}

const Json& timed_only() {
  static const Json values = {{"clock", "virtual"}, {"train", false}};
  return values;
}

std::string flags_text(const Json& values, const std::function<bool(const Setting&)>& takes) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (const Setting& setting : settings()) {
    const Json* value = values.find(setting.key);
    if (!value || !takes(setting)) continue;
    if (setting.key == "options") {
      for (const auto& [name, option] : value->items()) add("-O " + shell_word(name + "=" + option.text()));
      continue;
    }
    if (!setting.has_flag) continue;
    const std::string letter = letter_of(setting.key);
    const std::string flag = letter.empty() ? flag_of(setting) : letter;
    if (setting.value.type == Type::boolean) {
      if (!value->get<bool>()) add(flag);
    } else {
      add(flag + " " +
          shell_word(setting.value.type == Type::object ? text_of_object(*value)
                     : setting.value.type == Type::list ? text_of_list(*value)
                                                        : value->text()));
    }
  }
  return text;
}

}  // namespace sluice
