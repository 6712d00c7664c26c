#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/cli/commands.h"
#include "harness/core/error.h"
#include "harness/run/prepare.h"
#include "harness/run/sweep_runner.h"
#include "results/compare.h"

namespace sluice {

namespace {

// The flags of a single case as the JSON a sweep would hold: numbers as numbers.
nlohmann::json case_json(const RunArguments& a) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [key, value] : a.single) {
    const bool text = key == "system" || key == "workload" || key == "cluster" || key == "clock" ||
                      key == "costs" || key == "transport" || key == "device" ||
                      key == "weight_gradient";
    if (text) {
      json[key] = value;
      continue;
    }
    json[key] = nlohmann::json::parse(value, nullptr, false);
    if (!json[key].is_number()) throw InputError("--" + key, "'" + value + "' is not a number");
  }
  for (const auto& [key, value] : parse_settings(a.set)) json["options"][key] = value;
  for (const char* key : {"system", "workload"})
    if (!json.contains(key))
      throw InputError("run", std::string("--") + key + " is missing",
                       "give a sweep file, or --system and --workload");
  return json;
}

Sweep sweep_of(const RunArguments& a) {
  if (a.sweep.empty()) {
    Sweep sweep;
    sweep.cases = expand_case(case_json(a), "command line", "");
    sweep.name = sweep.cases.front().system + "-" + sweep.cases.front().workload;
    return sweep;
  }
  for (const auto& [key, value] : a.single)
    if (key != "seed")
      throw InputError("--" + key, "goes with a single case, not with a sweep",
                       "write it into the sweep file");
  std::string file = a.sweep;
  if (!std::filesystem::exists(file) && !file.ends_with(".json"))
    file = source_folder() + "/harness/sweeps/" + file + ".json";
  Sweep sweep = load_sweep(file);
  if (const auto seed = a.single.find("seed"); seed != a.single.end())
    for (RunCase& c : sweep.cases) c.seed = std::stoull(seed->second);
  return sweep;
}

void inject_failure(Sweep& sweep, const std::string& text) {
  int rank = -1;
  long update = -1;
  if (std::sscanf(text.c_str(), "%d:%ld", &rank, &update) != 2 || rank < 0 || update < 0)
    throw InputError("--inject-failure", "'" + text + "' is not RANK:UPDATE", "write 1:5");
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
    for (const RunCase& c : sweep.cases)
      fmt::print("{}\n", a.json ? to_json(c).dump() : describe(c));
    return 0;
  }
  const std::string out =
      a.out.empty() ? source_folder() + "/results/runs/" + sweep.name + ".jsonl" : a.out;
  install_interrupt_handler();
  const SweepResult result = run_sweep(sweep.cases, {out, a.resume, parse_progress(a.progress)});
  const std::vector<Comparison> comparisons = compare(result.records);
  if (a.json) {
    fmt::print("{}\n", to_json(comparisons).dump(2));
  } else {
    fmt::print("{}\n", to_table(comparisons));
    fmt::print("records: {}\n", std::filesystem::relative(out).string());
  }
  if (result.skipped > 0)
    fmt::print(stderr, "{} of {} cases were finished before and skipped (--resume)\n",
               result.skipped, sweep.cases.size());
  if (result.interrupted) {
    fmt::print(stderr, "interrupted: what was finished is stored; run again with --resume\n");
    return 1;
  }
  return result.failed > 0 ? 1 : 0;
}

}  // namespace sluice
