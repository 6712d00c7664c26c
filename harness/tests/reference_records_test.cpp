// What every reference record and every study must have. The files that are excused are rerun before their studies are
// cited: they are of a busy or lent machine, or older than these rules.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "harness/pipeline/system.h"
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
  for (const System* system : all_systems()) EXPECT_TRUE(recorded.contains(system->name)) << system->name;
}

TEST(ReferenceRecords, EveryStudyHasASingleDevice) {
  Names without;
  for (const auto& [study, records] : reference())
    if (std::ranges::count(records, "single_device", &Record::system) == 0) without.insert(study);
  EXPECT_EQ(without, (Names{"dynpipe_wall", "edgepipe_wall"}));
}

TEST(ReferenceRecords, AreOfCleanCommits) {
  Names dirty;
  for (const auto& [study, records] : reference())
    for (const Record& record : records) {
      const std::string commit = record.environment.machine ? record.environment.machine->commit : "unknown";
      if (commit.ends_with("-dirty") || commit == "unknown") dirty.insert(study);
    }
  EXPECT_EQ(dirty, (Names{"language_model", "pipeoptim", "rates"}));
}

TEST(ReferenceRecords, OfAStudyAreOfOneProcessor) {
  Names mixed;
  for (const auto& [study, records] : reference()) {
    Names processors;
    for (const Record& record : records)
      if (record.environment.machine) processors.insert(record.environment.machine->cpu);
    if (processors.size() != 1) mixed.insert(study);
  }
  EXPECT_EQ(mixed, (Names{"language_model"}));
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

}  // namespace
}  // namespace sluice
