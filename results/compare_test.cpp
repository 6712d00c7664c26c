// Grouping, ratios, marks and the table, on runs whose numbers are plain.
#include "results/compare.h"

#include <gtest/gtest.h>

#include <sstream>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "results/compare_columns.h"

namespace sluice {
namespace {

// `seconds` per step of 100 samples, with +-1 % around it.
Record run(const std::string& system, int ranks, double seconds, Clock clock = Clock::wall, std::uint64_t seed = 1) {
  Record r;
  r.system = system;
  r.workload = "mlp";
  r.workload_facts = {.title = "A small MLP", .metric = "accuracy", .target = 0.9};
  r.cluster = "laptop";
  r.clock = clock;
  r.transport = "threads";
  r.device = "cpu";
  r.ranks = ranks;
  r.batch = 100;
  r.microbatches = 4;
  r.seed = seed;
  r.samples_per_step = 100;
  r.updates_per_epoch = 600;
  for (int i = -5; i <= 5; ++i) r.step_seconds.push_back(seconds * (1 + 0.002 * i));
  r.peak_bytes = {{.total = 1 << 20}, {.total = 3 << 20}};
  r.curve = {{10, 1, 0.5, 0.5}, {20, 2 * seconds, 0.2, 0.95}};
  r.digest = system + std::to_string(ranks) + choice_name(clock) + std::to_string(seed) + std::to_string(seconds);
  return r;
}

const ComparisonRow& row(const Comparison& c, const std::string& label) {
  for (const ComparisonRow& candidate : c.rows)
    if (candidate.label == label) return candidate;
  ADD_FAILURE() << "no row " << label;
  return c.rows.at(0);
}

TEST(Compare, ClocksAreNeverMixed) {
  std::vector<Record> records = {run("gpipe", 4, 1), run("gpipe", 4, 1, Clock::virtual_clock),
                                 run("gpipe", 4, 1, Clock::virtual_clock)};
  records[1].cost_source = "analytic";
  records[2].cost_source = "profile";
  records[1].digest = "x";
  const auto all = compare(records);
  ASSERT_EQ(all.size(), 3u);
  for (const Comparison& c : all) EXPECT_EQ(c.rows.size(), 1u);
}

TEST(Compare, SingleDeviceIsOnTopOfEveryRankCount) {
  const auto all = compare(std::vector<Record>{run("gpipe", 2, 0.5), run("gpipe", 4, 0.25), run("single_device", 1, 1),
                                               run("fsdp", 4, 0.2)});
  ASSERT_EQ(all.size(), 2u);  // no group of its own
  for (const Comparison& c : all) {
    EXPECT_EQ(c.rows[0].system, "single_device");
    EXPECT_TRUE(c.rows[0].reference && c.rows[0].baseline);
    EXPECT_EQ(c.rows[0].ranks, 1);
  }
  EXPECT_EQ(all[1].rows[1].system, "fsdp");
  EXPECT_NEAR(all[1].rows[1].throughput_ratio.value(), 5, 1e-9);
  EXPECT_EQ(compare(std::vector<Record>{run("single_device", 1, 1)}).size(), 1u);
}

TEST(Compare, SaysOnceThatTheBaselineDidNotRun) {
  const auto notes = [](const CompareOptions& options, std::vector<Record> records) {
    const std::string text = to_table(compare(records, options), options);
    std::vector<std::string> found;
    for (std::size_t at = text.find("  no "); at != std::string::npos; at = text.find("  no ", at + 1))
      found.push_back(text.substr(at + 2, text.find(" with", at) - at - 2));
    return found;
  };
  const std::vector<Record> without = {run("gpipe", 4, 1), run("fsdp", 4, 1)};
  EXPECT_EQ(notes({}, without), std::vector<std::string>{"no ratio: no run of Single device"});
  EXPECT_EQ(notes({.baseline = "gpipe"}, without), std::vector<std::string>{"no run of Single device"});
  EXPECT_EQ(notes({}, {run("gpipe", 4, 1), run("single_device", 1, 1)}), std::vector<std::string>{});
}

TEST(Compare, SaysWhatCannotBeToldApart) {
  std::vector<Record> records = {run("single_device", 1, 1), run("gpipe", 4, 1.001), run("fsdp", 4, 0.5),
                                 run("piper", 4, 0.7)};
  records[3].step_seconds.resize(3);
  const Comparison c = compare(records).at(0);
  EXPECT_EQ(row(c, "gpipe").differs, false);
  EXPECT_EQ(row(c, "fsdp").differs, true);
  EXPECT_EQ(row(c, "piper").differs, std::nullopt);
  const std::string table = to_table(std::vector<Comparison>{c});
  EXPECT_NE(table.find("1.00x ~"), std::string::npos) << table;
  EXPECT_NE(table.find("1.44x ?"), std::string::npos) << table;
  EXPECT_NE(table.find("cannot be told apart from Single device"), std::string::npos) << table;
}

TEST(Compare, AggregatesOverSeeds) {
  const Comparison c =
      compare(std::vector<Record>{run("gpipe", 4, 0.5, Clock::wall, 3), run("gpipe", 4, 0.25, Clock::wall, 1),
                                  run("gpipe", 4, 1, Clock::wall, 2)})
          .at(0);
  ASSERT_EQ(c.rows.size(), 1u);
  const ComparisonRow& r = c.rows[0];
  EXPECT_EQ(r.records[0].seed, 1u);
  EXPECT_NEAR(r.throughput->min, 100, 1e-9);
  EXPECT_NEAR(r.throughput->median, 200, 1e-9);
  EXPECT_NEAR(r.throughput->max, 400, 1e-9);
  EXPECT_LT(r.interval->low, 100);
  EXPECT_GT(r.interval->high, 400);
  EXPECT_EQ(r.reached, 3);
  EXPECT_EQ(r.time_to_accuracy->median, 1);
}

TEST(Compare, OptionsTellVariantsApart) {
  std::vector<Record> records = {run("zero_bubble", 4, 0.5), run("zero_bubble", 4, 0.4), run("gpipe", 4, 0.6)};
  records[0].options = {{"variant", "h1"}, {"memory", "0"}};
  records[1].options = {{"variant", "h2"}, {"memory", "0"}};
  records[2].options = {{"backward", "lifo"}};
  const Comparison c = compare(records, {.baseline = "zero_bubble"}).at(0);
  EXPECT_EQ(c.baseline, "zero_bubble variant=h2");  // the faster one
  EXPECT_NEAR(row(c, "zero_bubble variant=h1").throughput_ratio.value(), 0.8, 1e-9);
  EXPECT_EQ(row(c, "gpipe").options, "");
}

// As the cuts of records: "messages", or nothing where they are by computation.
TEST(Compare, AnOptionThatOneRowHasAndAnotherHasNotTellsThemApart) {
  std::vector<Record> records = {run("pipedream", 4, 0.5), run("pipedream", 4, 0.4), run("gpipe", 4, 0.6)};
  records[1].options["cuts"] = records[2].options["cuts"] = "messages";
  const Comparison c = compare(records, {}).at(0);
  ASSERT_EQ(c.rows.size(), 3u);
  EXPECT_EQ(row(c, "pipedream").records.size(), 1u);
  EXPECT_NEAR(row(c, "pipedream cuts=messages").throughput->median / row(c, "pipedream").throughput->median, 1.25,
              1e-9);
  EXPECT_EQ(row(c, "gpipe").options, "");
}

TEST(Compare, AnOptionThatIsNotTheDefaultIsShownWhereItIsConstantInItsSystem) {
  std::vector<Record> records = {run("gpipe", 4, 0.5), run("one_f_one_b", 4, 0.4)};
  records[0].options = {{"recompute", "all"}};
  records[1].options = {{"recompute", "no"}};
  const auto all = compare(records);
  EXPECT_EQ(row(all[0], "gpipe recompute=all").options, "recompute=all");
  EXPECT_EQ(row(all[0], "one_f_one_b").options, "");
  EXPECT_EQ(all[0].options, "");
  const CompareOptions few = {.columns = {"system", "throughput"}};
  for (const TableForm form : {TableForm::text, TableForm::markdown, TableForm::latex}) {
    EXPECT_NE(to_table(all, {}, form).find("recompute=all"), std::string::npos);
    EXPECT_NE(to_table(all, few, form).find("GPipe recompute=all"), std::string::npos) << to_table(all, few, form);
  }
}

TEST(Compare, WhatFilesHoldIsShownWhereRowsDifferInNothingElse) {
  std::vector<Record> records = {run("order_file", 4, 0.5), run("order_file", 4, 0.4), run("one_f_one_b", 4, 0.4)};
  records[0].options = {{"file", "a.csv"}, {"file_digests", "file:1"}};
  records[1].options = {{"file", "b.csv"}, {"file_digests", "file:2"}};
  EXPECT_EQ(row(compare(records)[0], "order_file file=a.csv").options, "file=a.csv");
  records[1].options["file"] = "a.csv";  // edited between the runs
  const auto edited = compare(records);
  EXPECT_EQ(row(edited[0], "order_file file=a.csv file_digests=file:1").options, "file=a.csv file_digests=file:1");
  EXPECT_EQ(row(edited[0], "order_file file=a.csv file_digests=file:2").options, "file=a.csv file_digests=file:2");
}

TEST(Compare, OptionsThatAllRowsShareStandInTheHeading) {
  std::vector<Record> records = {run("single_device", 1, 1), run("gpipe", 4, 0.5), run("one_f_one_b", 4, 0.4)};
  for (Record& r : records) r.options = {{"pin", "core"}, {"weight_gradient", "per_microbatch"}};
  records[1].options["recompute"] = records[2].options["recompute"] = "all";  // not of the single device
  const auto all = compare(records);
  EXPECT_EQ(all[0].options, "pin=core");
  EXPECT_EQ(row(all[0], "one_f_one_b recompute=all").options, "recompute=all");
  for (const TableForm form : {TableForm::text, TableForm::markdown, TableForm::latex})
    EXPECT_NE(to_table(all, {}, form).find("global batch 100, pin=core"), std::string::npos);
  EXPECT_EQ(to_json(all)[0]["shared_options"], "pin=core");
}

TEST(Compare, OnTheVirtualClockADistanceInsideTheModelsErrorIsATie) {
  std::vector<Record> records = {run("single_device", 1, 1, Clock::virtual_clock),
                                 run("gpipe", 4, 0.94, Clock::virtual_clock),
                                 run("fsdp", 4, 0.5, Clock::virtual_clock)};
  for (Record& r : records) r.cost_source = "analytic";
  const auto all = compare(records);
  EXPECT_EQ(row(all[0], "gpipe").differs, false);
  EXPECT_EQ(row(all[0], "fsdp").differs, true);
  const std::string table = to_table(all);
  EXPECT_NE(table.find("cannot be told apart from Single device: within the model's error of 8 %"), std::string::npos)
      << table;
  EXPECT_NE(table.find("1. FSDP; 2. GPipe, Single device"), std::string::npos) << table;
  EXPECT_EQ(to_json(all)[0]["places"].size(), 2u);
}

TEST(Compare, WhatMissesItsTargetInEverySeedComesBehind) {
  std::vector<Record> records;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    records.push_back(run("gpipe", 4, 0.5, Clock::wall, seed));
    records.push_back(run("pipedream", 4, 0.2, Clock::wall, seed));
    records.back().curve.back().metric = 0.8;
  }
  records.push_back(run("fsdp", 4, 0.5));
  records.back().outcome = RecordOutcome::out_of_memory;
  const auto all = compare(records);
  ASSERT_EQ(all[0].rows.size(), 3u);
  EXPECT_EQ(all[0].rows[0].system, "gpipe");
  EXPECT_EQ(all[0].rows[1].system, "pipedream");
  EXPECT_TRUE(all[0].rows[1].misses_target());
  EXPECT_EQ(all[0].rows[2].system, "fsdp");
  const std::string table = to_table(all);
  EXPECT_NE(table.find("behind the others: rows that miss the target"), std::string::npos) << table;
  // Of two variants the baseline is the one that reaches the target.
  records.push_back(run("pipedream", 4, 0.3));
  records.back().microbatches = 8;
  EXPECT_EQ(compare(records, {.baseline = "pipedream"})[0].baseline, "pipedream microbatches=8");
}

TEST(Compare, EqualAndTunedRatesAreNeverInOneComparison) {
  const auto at_rate = [](const std::string& system, double rate, bool tuned) {
    Record r = run(system, 4, 0.5);
    r.optimizer = {.learning_rate = rate};
    if (tuned) r.tuning = {.grid = {0.1, 0.2}, .seed = 101, .chosen = rate};
    r.digest += std::to_string(rate) + (tuned ? "t" : "");
    return r;
  };
  const auto all = compare(std::vector<Record>{at_rate("gpipe", 0.1, false), at_rate("fsdp", 0.1, false),
                                               at_rate("gpipe", 0.2, false), at_rate("gpipe", 0.1, true),
                                               at_rate("fsdp", 0.2, true)});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].optimizer, "sgd, learning rate 0.1");
  EXPECT_EQ(all[0].rows.size(), 2u);
  EXPECT_FALSE(all[0].tuned);
  EXPECT_EQ(all[1].optimizer, "sgd, learning rate 0.2");
  EXPECT_EQ(all[1].rows.size(), 1u);
  EXPECT_EQ(all[2].optimizer, "sgd, learning rate tuned");
  EXPECT_TRUE(all[2].tuned);
  ASSERT_EQ(all[2].rows.size(), 2u);
  EXPECT_EQ(row(all[2], "gpipe").learning_rate, 0.1);
  EXPECT_EQ(row(all[2], "fsdp").learning_rate, 0.2);
  const std::string table = to_table(all);
  EXPECT_NE(table.find("global batch 100, sgd, learning rate tuned\n"), std::string::npos) << table;
  EXPECT_NE(table.find("tuned rate"), std::string::npos) << table;
}

TEST(Compare, RunsOfDifferentLengthAreNotRepetitions) {
  std::vector<Record> records = {run("gpipe", 4, 0.5), run("gpipe", 4, 0.6)};
  records[0].workload_facts->epochs = 3;
  records[1].workload_facts->steps = 30;
  const auto all = compare(records);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].duration, "3 epochs");
  EXPECT_EQ(all[1].duration, "30 updates");
}

TEST(Compare, OnlyMeasurementsAreCompared) {
  std::vector<Record> records = {run("gpipe", 4, 0.5), run("gpipe", 4, 0.6), run("fsdp", 4, 0.6)};
  records[1].purpose = Purpose::tune;
  records[2].purpose = Purpose::boundary;
  const auto all = compare(records);
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].rows.size(), 1u);
  EXPECT_EQ(all[0].rows[0].records.size(), 1u);
}

TEST(Compare, ADivergedSeedIsCountedAndSaid) {
  std::vector<Record> records;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    records.push_back(run("gpipe", 4, 0.5, Clock::wall, seed));
    records.push_back(run("pipedream", 4, 0.4, Clock::wall, seed));
  }
  for (const std::size_t i : {1u, 7u}) {
    records[i].outcome = RecordOutcome::diverged;
    records[i].diverged_at = i == 1 ? 120 : 99;
    records[i].reason = "at update N: the training loss is not finite";
  }
  const Comparison c = compare(records).at(0);
  const ComparisonRow& stale = row(c, "pipedream");
  EXPECT_EQ(stale.outcome, RecordOutcome::diverged);
  EXPECT_EQ(stale.diverged, 2);
  EXPECT_EQ(stale.first_divergence, 99);
  EXPECT_EQ(stale.reached, 3);
  EXPECT_EQ(stale.attempts, 5);
  const std::string table = to_table(std::vector<Comparison>{c});
  EXPECT_NE(table.find(" 3/5"), std::string::npos) << table;
  EXPECT_NE(table.find("3/5 ok, 2 diverged, the first at update 99"), std::string::npos) << table;
}

TEST(Compare, SpreadsAreShownWhereSeedsDiffer) {
  std::vector<Record> records;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    records.push_back(run("gpipe", 4, 0.5, Clock::wall, seed));
    records.back().curve.back().metric = 0.90 + 0.01 * static_cast<double>(seed);
    records.push_back(run("fsdp", 4, 0.4, Clock::wall, seed));
  }
  const auto all = compare(records);
  EXPECT_EQ(row(all[0], "gpipe").final_metric->median, 0.92);
  const std::string table = to_table(all);
  EXPECT_NE(table.find("0.92 (0.91..0.93)"), std::string::npos) << table;
  EXPECT_NE(table.find("too few seeds to say"), std::string::npos) << table;
}

TEST(Compare, FailedRunsAreRows) {
  std::vector<Record> records = {run("single_device", 1, 1), run("gpipe", 4, 0.5), run("fsdp", 4, 0.5)};
  records[1].outcome = RecordOutcome::out_of_memory;
  records[1].reason = "needs 3 GiB, has 2 GiB";
  records[1].failed_rank = 2;
  const auto all = compare(records);
  const ComparisonRow& failed = all[0].rows.back();
  EXPECT_EQ(failed.system, "gpipe");
  EXPECT_EQ(failed.throughput.has_value(), false);
  const std::string table = to_table(all);
  EXPECT_NE(table.find("out_of_memory: rank 2: needs 3 GiB, has 2 GiB"), std::string::npos) << table;
}

TEST(Compare, TheMetricSorts) {
  std::vector<Record> records = {run("a", 4, 0.5), run("b", 4, 1), run("c", 4, 0.7)};
  records[0].peak_bytes = {{.total = 9 << 20}};
  records[2].curve = {{1, 1, 1.0, 0.1}};
  const auto first = [&](const std::string& metric) {
    return compare(records, {.baseline = "", .metric = metric})[0].rows;
  };
  EXPECT_EQ(first("throughput")[0].system, "a");
  EXPECT_EQ(first("memory")[0].system, "b");
  EXPECT_EQ(first("memory")[2].system, "c");  // misses its target
  EXPECT_EQ(first("time_to_accuracy")[2].system, "c");
  EXPECT_EQ(first("peak_memory")[0].system, "b");
  EXPECT_THROW(compare_metric("memry"), InputError);
  EXPECT_THROW(compare(records, {.baseline = "d"}), InputError);
}

TEST(Compare, TheTableIsAligned) {
  std::vector<Record> records = {run("single_device", 1, 1), run("one_f_one_b", 4, 0.3)};
  records[1].reason = "ü";
  const std::string table = to_table(compare(records));
  std::istringstream lines(table);
  std::string line, header;
  std::getline(lines, line);
  EXPECT_EQ(line, "A small MLP on laptop: wall clock, 4 ranks, global batch 100");
  std::getline(lines, line);
  std::getline(lines, header);
  for (const char* name : {"system", "ranks", "micro-batches", "samples/update", "updates/epoch", "samples/s", "ratio",
                           "peak/rank", "time to accuracy 0.9", "final accuracy", "outcome"})
    EXPECT_NE(header.find(name), std::string::npos) << name << "\n" << table;
  EXPECT_EQ(header.find("options"), std::string::npos);
  std::getline(lines, line);
  EXPECT_EQ(line.find_first_not_of("- "), std::string::npos);
  std::getline(lines, line);
  EXPECT_EQ(line.find("ok"), header.find("outcome"));
}

TEST(Compare, JsonHasEveryRow) {
  const Json json = to_json(compare(std::vector<Record>{run("single_device", 1, 1), run("gpipe", 4, 0.5)}));
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["clock"], "wall");
  EXPECT_EQ(json[0]["rows"].size(), 2u);
  EXPECT_EQ(json[0]["rows"][1]["differs_from_baseline"], true);
  EXPECT_EQ(json[0]["rows"][1]["measured_peak_bytes"], (Json{1 << 20, 3 << 20}));
}

}  // namespace
}  // namespace sluice
