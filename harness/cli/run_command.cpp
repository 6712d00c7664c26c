#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/cli/commands.h"
#include "harness/core/error.h"
#include "harness/run/prepare.h"
#include "harness/run/sweep_runner.h"
#include "results/compare.h"
#include "results/stability.h"
#include "results/store.h"

namespace sluice {

namespace {

// A key of a case as the flag that sets it.
std::string flag_of(const std::string& key) {
  if (key == "timeout_seconds") return "--timeout";
  std::string flag = "--" + key;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

// The flags of a single case as the JSON a sweep would hold: numbers as numbers.
nlohmann::json case_json(const RunArguments& a) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [key, value] : a.single) {
    const bool text = key == "system" || key == "workload" || key == "cluster" || key == "clock" ||
                      key == "costs" || key == "transport" || key == "device" ||
                      key == "weight_gradient" || key == "evaluation" || key == "step";
    if (text) {
      json[key] = value;
      continue;
    }
    json[key] = nlohmann::json::parse(value, nullptr, false);
    if (!json[key].is_number())
      throw InputError(flag_of(key), "'" + value + "' is not a number",
                       "write " + flag_of(key) + " 4");
  }
  for (const auto& [key, value] : parse_settings(a.set)) json["options"][key] = value;
  for (const char* key : {"system", "workload"})
    if (!json.contains(key))
      throw InputError("run", std::string("--") + key + " is missing",
                       "give a sweep file, or --system and --workload");
  return json;
}

const std::string kCommandLine = "command line";

// "command line: /ranks: is 0" names the JSON that the flags were made into; the user wrote
// --ranks.
InputError in_flags(const InputError& error) {
  const std::string text = error.what(), prefix = kCommandLine + ": /";
  if (!text.starts_with(prefix)) return error;
  const std::size_t colon = text.find(": ", prefix.size());
  if (colon == std::string::npos) return error;
  const std::string key = text.substr(prefix.size(), colon - prefix.size());
  return {key == "options" ? "--set" : flag_of(key), text.substr(colon + 2)};
}

// --seed for a whole sweep: cases that differed in their seed only have become one.
void set_seed(Sweep& sweep, const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    throw InputError("--seed", "'" + text + "' is not a number of at least 0", "write --seed 1");
  std::set<std::string> seen;
  std::vector<RunCase> cases;
  for (RunCase& c : sweep.cases) {
    if (c.tune && c.tune->seed == seed)
      throw InputError("--seed", text + " is the seed that learning rates are tuned on",
                       "choose another");
    c.seed = seed;
    if (seen.insert(digest(to_json(c))).second) cases.push_back(std::move(c));
  }
  sweep.cases = std::move(cases);
}

Sweep sweep_of(const RunArguments& a) {
  if (a.sweep.empty()) {
    Sweep sweep;
    try {
      sweep.cases = expand_case(case_json(a), kCommandLine, "");
    } catch (const InputError& e) {
      throw in_flags(e);
    }
    sweep.name = sweep.cases.front().system + "-" + sweep.cases.front().workload;
    return sweep;
  }
  for (const auto& [key, value] : a.single)
    if (key != "seed")
      throw InputError(flag_of(key), "goes with a single case, not with a sweep",
                       "write it into the sweep file");
  if (!a.set.empty())
    throw InputError("--set", "goes with a single case, not with a sweep",
                     "write it into the sweep file");
  std::string file = a.sweep;
  if (!std::filesystem::exists(file) && !file.ends_with(".json")) {
    file = source_folder() + "/harness/sweeps/" + file + ".json";
    if (!std::filesystem::exists(file))
      throw InputError(a.sweep, "no such sweep", "give a file, or a name of sluice list sweeps");
  }
  Sweep sweep = load_sweep(file);
  if (const auto seed = a.single.find("seed"); seed != a.single.end())
    set_seed(sweep, seed->second);
  return sweep;
}

void inject_failure(Sweep& sweep, const std::string& text) {
  int rank = -1;
  long update = -1;
  int used = 0;
  if (std::sscanf(text.c_str(), "%d:%ld%n", &rank, &update, &used) != 2 || rank < 0 || update < 0 ||
      static_cast<std::size_t>(used) != text.size())
    throw InputError("--inject-failure", "'" + text + "' is not RANK:UPDATE", "write 1:5");
  if (std::ranges::none_of(sweep.cases, [&](const RunCase& c) { return rank < c.ranks; }))
    throw InputError("--inject-failure", "no case has a rank " + std::to_string(rank),
                     "ranks count from 0");
  for (RunCase& c : sweep.cases) {
    c.fail_rank = rank;
    c.fail_update = update;
  }
}

}  // namespace

int run_command(const RunArguments& a) {
  Sweep sweep = sweep_of(a);
  if (!a.shard.empty()) sweep.cases = shard(std::move(sweep.cases), a.shard);
  if (!a.inject_failure.empty()) inject_failure(sweep, a.inject_failure);
  if (a.dry_run) {
    nlohmann::json list = nlohmann::json::array();
    for (const RunCase& c : with_tuning(sweep.cases)) {
      list.push_back(to_json(c));
      if (!a.json) fmt::print("{}\n", describe(c));
    }
    if (a.json) fmt::print("{}\n", list.dump(2));
    return 0;
  }
  const std::string out =
      a.out.empty() ? source_folder() + "/results/runs/" + sweep.name + ".jsonl" : a.out;
  install_interrupt_handler();
  const SweepResult result =
      run_sweep(sweep.cases, {out, a.resume, parse_progress(a.progress), a.checkpoints});
  const std::vector<Comparison> comparisons = compare(result.records);
  if (a.json) {
    fmt::print("{}\n", to_json(comparisons).dump(2));
  } else {
    const std::vector<StableRates> boundaries = stable_rates(result.records);
    if (!comparisons.empty() || boundaries.empty()) fmt::print("{}\n", to_table(comparisons));
    if (!boundaries.empty()) fmt::print("{}\n", to_table(boundaries));
    fmt::print("records: {}\n", std::filesystem::relative(out).string());
  }
  if (result.skipped > 0)
    fmt::print(stderr, "{} of {} cases were finished before and skipped (--resume)\n",
               result.skipped, with_tuning(sweep.cases).size());
  if (result.interrupted) {
    fmt::print(stderr, "interrupted: what was finished is stored; run again with --resume\n");
    return 1;
  }
  return result.failed > 0 ? 1 : 0;
}

}  // namespace sluice
