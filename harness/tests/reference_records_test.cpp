// What every reference record and every study must have. The files that are excused are rerun before their studies are
// cited: they are of a busy or lent machine, or older than these rules.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "harness/base/json.h"
#include "harness/base/run_program.h"
#include "harness/case/settings.h"
#include "harness/case/sweep.h"
#include "harness/pipeline/system.h"
#include "results/metrics.h"
#include "results/statistics.h"
#include "results/store.h"
#include "results/targets.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::vector<Record>>& reference() {
  static const std::map<std::string, std::vector<Record>> all = [] {
    std::map<std::string, std::vector<Record>> files;
    for (const auto& entry : fs::directory_iterator(SLUICE_SOURCE_DIR "/results/reference"))
      if (entry.path().extension() == ".jsonl")
        files[entry.path().stem().string()] = read_records(entry.path()).records;
    return files;
  }();
  return all;
}

using Names = std::set<std::string>;

TEST(ReferenceRecords, ThereIsOneOfEverySystem) {
  Names recorded;
  for (const auto& [study, records] : reference())
    for (const Record& record : records) recorded.insert(record.system);
  for (const System* system : shipped_systems()) EXPECT_TRUE(recorded.contains(system->name)) << system->name;
}

TEST(ReferenceRecords, EveryStudyHasASingleDevice) {
  Names without;
  for (const auto& [study, records] : reference())
    if (std::ranges::count(records, "single_device", &Record::system) == 0) without.insert(study);
  EXPECT_EQ(without, Names{});
}

TEST(ReferenceRecords, AreOfCleanCommits) {
  Names dirty;
  for (const auto& [study, records] : reference())
    for (const Record& record : records) {
      const std::string commit = record.environment.machine ? record.environment.machine->commit : "unknown";
      if (commit.ends_with("-dirty") || commit == "unknown") dirty.insert(study);
    }
  EXPECT_EQ(dirty, (Names{"language_model", "pipeoptim"}));
}

// Whoever reads a record finds the source that made it. Skipped in a copy without this history, or with a part of it.
TEST(ReferenceRecords, AreOfCommitsOfThisHistory) {
  const auto git = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"git", "-C", SLUICE_SOURCE_DIR});
    return run_program(words);
  };
  if (git({"rev-parse", "--is-shallow-repository"}).output != "false\n") GTEST_SKIP() << "not the whole history";
  Names elsewhere;
  std::map<std::string, bool> here;
  for (const auto& [study, records] : reference())
    for (const Record& record : records) {
      std::string commit = record.environment.machine ? record.environment.machine->commit : "unknown";
      commit = commit.substr(0, commit.find('-'));
      if (!here.contains(commit)) here[commit] = git({"merge-base", "--is-ancestor", commit, "HEAD"}).ok();
      if (!here[commit]) elsewhere.insert(study);
    }
  if (std::ranges::none_of(here, [](const auto& commit) { return commit.second; })) GTEST_SKIP() << "another history";
  EXPECT_EQ(elsewhere, Names{"language_model"});
}

// The leaderboard's simulations without training, whose figures are the same everywhere, are of another processor than
// its runs.
TEST(ReferenceRecords, OfAStudyAreOfOneProcessor) {
  Names mixed;
  for (const auto& [study, records] : reference()) {
    Names processors;
    for (const Record& record : records)
      if (record.environment.machine) processors.insert(record.environment.machine->cpu);
    if (processors.size() != 1) mixed.insert(study);
  }
  EXPECT_EQ(mixed, (Names{"language_model", "standard"}));
}

// Each case of a study's sweep has a record, and each record is of a case of it: what a change of the sweep or of a
// digest's rules leaves behind is named here, with the number of cases that have no record.
TEST(ReferenceRecords, AreThoseOfTheirSweeps) {
  fs::current_path(SLUICE_SOURCE_DIR);  // as the sweeps' commands are given
  std::map<std::string, std::size_t> missing;
  for (const auto& [study, records] : reference()) {
    const std::string file = SLUICE_SOURCE_DIR "/harness/sweeps/" + study + ".json";
    if (study == "standard" || !fs::exists(file)) continue;  // keeps each system's best case alone
    std::set<std::string> recorded;
    for (const Record& record : records)
      if (record.purpose != Purpose::tune) recorded.insert(record.digest);
    const std::vector<RunCase> cases = load_sweep(file).cases;
    const std::size_t common =
        std::ranges::count_if(cases, [&](const RunCase& c) { return recorded.contains(digest_of(c)); });
    if (common < cases.size()) missing[study] = cases.size() - common;
    if (common == cases.size()) {
      EXPECT_EQ(recorded.size(), common) << study;
    }
  }
  EXPECT_EQ(missing, (std::map<std::string, std::size_t>{{"language_model", 304}}));
}

// The case of a record without its learning rate and its seed.
std::string cell_of(const Record& record) {
  Json options = Json::object();
  for (const auto& [name, value] : record.options) options[name] = value;
  if (record.optimizer) {
    Json optimizer = to_json(*record.optimizer);
    optimizer.erase("learning_rate");
    options["optimizer"] = optimizer;
  }
  return record.system + " " + options.dump() + " " + record.workload + " " + choice_name(record.clock) + " " +
         record.cluster + " " + std::to_string(record.ranks) + " " + std::to_string(record.microbatches);
}

// On the seeds that are measured: in the mean it loses less than 2 %, and not significantly (the 95 % interval of the
// paired differences).
TEST(ReferenceRecords, ATunedRateIsNoWorseThanTheSharedOne) {
  struct Cell {
    std::map<std::uint64_t, double> shared, tuned;
    bool lower = false;
  };
  std::map<std::string, std::map<std::string, Cell>> studies;  // "pipeoptim": with "pipeoptim_tuned"
  for (const auto& [name, records] : reference()) {
    std::map<std::string, Cell>& cells = studies[name.ends_with("_tuned") ? name.substr(0, name.size() - 6) : name];
    for (const Record& record : records) {
      const auto value = final_metric(record);
      if (!value || record.purpose != Purpose::measure) continue;
      Cell& cell = cells[cell_of(record)];
      (record.tuning ? cell.tuned : cell.shared)[record.seed] = *value;
      cell.lower = lower_is_better(record);
    }
  }
  std::map<std::string, Names> worse;
  std::map<std::string, int> compared;
  for (const auto& [study, cells] : studies)
    for (const auto& [name, cell] : cells) {
      std::vector<double> gains;
      for (const auto& [seed, value] : cell.tuned)
        if (const auto shared = cell.shared.find(seed); shared != cell.shared.end())
          gains.push_back(cell.lower ? shared->second - value : value - shared->second);
      const auto gain = paired_difference(gains);
      if (!gain) continue;
      ++compared[study];
      const double typical = std::abs(cell.shared.begin()->second);
      if (gain->interval.high < 0 || gain->mean < -0.02 * typical) worse[study].insert(name);
    }
  EXPECT_EQ(compared, (std::map<std::string, int>{{"language_model", 49}, {"pipeoptim", 8}}));
  worse.erase("language_model");  // searched with one seed; is rerun with three
  for (const auto& [study, cells] : worse)
    for (const std::string& cell : cells) ADD_FAILURE() << study << ": " << cell;
}

// Of a tuning's grid, neither the smallest nor the largest rate was chosen.
TEST(ReferenceRecords, ChosenRatesLieInsideTheirGrids) {
  Names at_an_edge;
  for (const auto& [study, records] : reference())
    for (const Record& record : records)
      if (record.tuning) {
        const auto [lowest, highest] = std::ranges::minmax(record.tuning->grid);
        if (record.tuning->chosen <= lowest || record.tuning->chosen >= highest) at_an_edge.insert(study);
      }
  EXPECT_EQ(at_an_edge, Names{"language_model"});  // to be trained anew
}

// Every target in the registry has records, and all records of targets.jsonl are of a workload with a target.
TEST(ReferenceRecords, GiveTheTargetsOfTheWorkloads) {
  const auto targets = measured_targets(reference().at("targets"));
  std::size_t found = 0;
  for (const Workload& workload : all_workloads()) {
    if (!workload.target || !workload.file.empty()) continue;
    ASSERT_TRUE(targets.contains(workload.name)) << workload.name << "; run: sluice run targets";
    EXPECT_DOUBLE_EQ(*workload.single_device_value, targets.at(workload.name).single_device_value) << workload.name;
    EXPECT_DOUBLE_EQ(*workload.target, targets.at(workload.name).target) << workload.name;
    ++found;
  }
  EXPECT_EQ(found, targets.size());
}

// Where a table shows the best number of micro-batches, half and twice that number were tried as well, unless it is one
// or would leave no sample a micro-batch, or, in the study of orders, a rank without one. What does not fit is tried
// too: its record says so.
TEST(ReferenceRecords, TheBestNumbersOfMicroBatchesLieInsideTheirGrids) {
  for (const std::string study : {"graphpipe", "graphpipe_calibrated", "graphpipe_memory", "orders"}) {
    std::map<std::string, std::map<int, std::optional<double>>> grids;  // samples/s by micro-batches
    std::map<std::string, std::int64_t> batches;
    std::map<std::string, int> least;  // micro-batches of which half is not asked for
    for (const Record& record : reference().at(study)) {
      if (const auto chosen = record.options.find("micro_batch");
          chosen != record.options.end() && chosen->second == "uniform")
        continue;  // the planner chooses among all
      const std::string key = record.system + " " + record.workload + " " + record.cluster + " " +
                              std::to_string(record.ranks) + " " + std::to_string(record.batch) + " " +
                              options_json(record).dump();
      if (study == "orders" && record.ranks > 1) least[key] = record.ranks;
      const auto rate = throughput(record);
      grids[key][record.microbatches] = rate ? std::optional(rate->samples_per_second) : std::nullopt;
      batches[key] = record.batch;
    }
    EXPECT_FALSE(grids.empty());
    for (const auto& [key, grid] : grids) {
      double best = 0;
      for (const auto& [microbatches, rate] : grid) best = std::max(best, rate.value_or(0));
      if (best == 0 || grid.size() == 1) continue;  // nothing fits, or one number was asked for
      EXPECT_TRUE(std::ranges::any_of(grid,
                                      [&](const auto& tried) {
                                        const auto& [m, rate] = tried;
                                        return rate.value_or(0) >= 0.999 * best &&
                                               (m <= std::max(1, least[key]) || grid.contains(m / 2)) &&
                                               (2 * m > batches[key] || grid.contains(2 * m));
                                      }))
          << study << ": " << key;
    }
  }
}

}  // namespace
}  // namespace sluice
