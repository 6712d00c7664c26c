// Cases side by side: when they run, what they wait for, and that their records do not show it.
#include "harness/run/parallel_cases.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "harness/base/error.h"
#include "harness/case/settings.h"
#include "harness/case/sweep.h"
#include "harness/run/sweep_runner.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

TEST(SideBySide, BeginsInOrderAndRunsAsManyAtOnceAsItMay) {
  std::mutex mutex;
  std::condition_variable third;
  std::vector<std::size_t> begun;
  int running = 0, most = 0;
  run_side_by_side(
      20, 3, [](std::size_t) { return false; },
      [&](std::size_t k, CaseSlots&) {
        std::unique_lock lock(mutex);
        begun.push_back(k);
        most = std::max(most, ++running);
        // The first of them wait for the third, which only runs if three may run at once.
        third.notify_all();
        third.wait_for(lock, 60s, [&] { return most >= 3; });
        lock.unlock();
        std::this_thread::sleep_for(5ms);
        lock.lock();
        --running;
        return true;
      });
  ASSERT_EQ(begun.size(), 20u);
  for (std::size_t k = 0; k < 20; ++k) EXPECT_LE(begun[k], k + 2);  // three threads may overtake one another
  EXPECT_EQ(most, 3);
}

TEST(SideBySide, NothingRunsBesideACaseThatRunsAlone) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> running{0};
  run_side_by_side(
      9, 4, [](std::size_t k) { return k % 3 == 0; },
      [&](std::size_t k, CaseSlots&) {
        const int others = running++;
        if (k % 3 == 0) {
          EXPECT_EQ(others, 0);
          EXPECT_EQ(std::this_thread::get_id(), caller);
        }
        std::this_thread::sleep_for(5ms);
        if (k % 3 == 0) {
          EXPECT_EQ(running.load(), 1);
        }
        --running;
        return true;
      });
}

TEST(SideBySide, ACaseThatWaitsLetsAnotherOneRun) {
  std::atomic<bool> there{false};
  std::vector<std::size_t> ended;
  std::mutex mutex;
  // Case 1 needs case 3, with two at a time: only a waiting case that gives its place away lets both 2 and 3 run.
  run_side_by_side(
      4, 2, [](std::size_t) { return false; },
      [&](std::size_t k, CaseSlots& slots) {
        const auto until_there = [&] {
          while (!there) std::this_thread::sleep_for(1ms);
        };
        if (k < 3) slots.without(until_there);
        if (k == 3) there = true;
        const std::lock_guard lock(mutex);
        ended.push_back(k);
        return true;
      });
  ASSERT_EQ(ended.size(), 4u);
  EXPECT_EQ(ended.front(), 3u);
}

TEST(SideBySide, ACaseThatHasWaitedGoesOnBeforeOthersBegin) {
  std::atomic<std::size_t> begun{0}, begun_when_0_ended{0};
  std::atomic<bool> waited{false};
  // Case 0 waits until three others have begun. From there on each of them leaves it time to ask for its place again.
  run_side_by_side(
      100, 2, [](std::size_t) { return false; },
      [&](std::size_t k, CaseSlots& slots) {
        ++begun;
        if (k == 0) {
          slots.without([&] {
            while (begun < 4) std::this_thread::sleep_for(1ms);
            waited = true;
          });
          begun_when_0_ended = begun.load();
        } else if (k >= 3) {
          while (!waited) std::this_thread::sleep_for(1ms);
          if (begun_when_0_ended == 0) std::this_thread::sleep_for(20ms);
        }
        return true;
      });
  EXPECT_LT(begun_when_0_ended.load(), 50u);
}

TEST(SideBySide, EndsEarlyAndThrowsWhatTheFirstCaseThrew) {
  for (const int jobs : {1, 3}) {
    std::atomic<int> ran{0};
    try {
      run_side_by_side(
          1000, jobs, [](std::size_t) { return false; },
          [&](std::size_t k, CaseSlots&) {
            ++ran;
            std::this_thread::sleep_for(1ms);
            if (k >= 5) throw std::runtime_error(std::to_string(k));
            return true;
          });
      FAIL();
    } catch (const std::runtime_error& e) {
      EXPECT_LT(std::stoi(e.what()), 8) << jobs;
    }
    EXPECT_LT(ran.load(), 12);
  }
}

TEST(SideBySide, WallClockCasesAndMeasuredCostsRunAlone) {
  RunCase c;
  c.clock = Clock::virtual_clock;
  c.costs = "analytic";
  EXPECT_FALSE(runs_alone(c));
  c.costs = "profile";
  EXPECT_TRUE(runs_alone(c));
  c.clock = Clock::wall;
  c.costs = "analytic";
  EXPECT_TRUE(runs_alone(c));
}

class Records : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-order-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file() const { return folder_ + "/r.jsonl"; }
  std::vector<std::string> stored() const {
    std::vector<std::string> digests;
    for (const Record& record : read_records(file()).records) digests.push_back(record.digest);
    return digests;
  }
  static Record record(const std::string& digest) {
    Record r;
    r.digest = digest;
    r.clock = Clock::virtual_clock;
    return r;
  }
  using Digests = std::vector<std::string>;
  std::string folder_;
};

TEST_F(Records, AreStoredInTheOrderOfTheCases) {
  Store store(file());
  RecordsInOrder in_order(store);
  in_order.put(2, record("c"));
  in_order.put(1, std::nullopt);
  EXPECT_EQ(stored(), Digests{});
  in_order.put(0, record("a"));
  EXPECT_EQ(stored(), (Digests{"a", "c"}));
  EXPECT_FALSE(std::filesystem::exists(file() + ".early"));
}

TEST_F(Records, ThatWaitAreStoredAtTheEnd) {
  Store store(file());
  RecordsInOrder in_order(store);
  in_order.put(3, record("d"));
  in_order.put(1, record("b"));
  in_order.finish();
  EXPECT_EQ(stored(), (Digests{"b", "d"}));
  EXPECT_FALSE(std::filesystem::exists(file() + ".early"));
}

TEST_F(Records, OfAKilledProcessAreFoundByTheNextOne) {
  {
    Store store(file());
    RecordsInOrder in_order(store);
    in_order.put(0, record("a"));
    in_order.put(3, record("d"));
    in_order.put(2, record("c"));
    // Killed: finish() is never called.
  }
  EXPECT_EQ(stored(), Digests{"a"});
  {
    Store store(file());
    store.append(record("d"));  // killed after it was stored in turn, before the other file was removed
  }
  Store store(file());
  RecordsInOrder in_order(store);
  EXPECT_EQ(stored(), (Digests{"a", "d", "c"}));
  EXPECT_FALSE(std::filesystem::exists(file() + ".early"));
}

TEST_F(Records, OfAKilledShardAreTakenOverOnlyOnceItIsGone) {
  Store zero(file()), one(file());
  std::optional<RecordsInOrder> of_zero(std::in_place, zero, SweepPart{0, 2});
  of_zero->put(1, record("b"));
  {
    RecordsInOrder of_one(one, SweepPart{1, 2});
    of_one.put(1, record("d"));
    EXPECT_TRUE(std::filesystem::exists(file() + ".early.0-of-2"));
    EXPECT_TRUE(std::filesystem::exists(file() + ".early.1-of-2"));
    of_one.finish();
    EXPECT_EQ(stored(), Digests{"d"});
    EXPECT_TRUE(std::filesystem::exists(file() + ".early.0-of-2"));
  }
  of_zero->put(0, record("a"));
  EXPECT_EQ(stored(), (Digests{"d", "a", "b"}));
  EXPECT_FALSE(std::filesystem::exists(file() + ".early.0-of-2"));
}

TEST_F(Records, OfKilledShardsAreFoundByAnyLaterRunAndStoredOnce) {
  {
    Store store(file());
    RecordsInOrder in_order(store, SweepPart{0, 2});
    in_order.put(1, record("b"));
  }
  {
    Store store(file());
    store.append(record("b"));  // by a run through another name of the file
  }
  std::ofstream(file() + ".early") << to_json(record("c")).dump() << "\n" << to_json(record("b")).dump() << "\n";
  Store store(file());
  RecordsInOrder in_order(store, SweepPart{1, 3});
  EXPECT_EQ(stored(), (Digests{"b", "c"}));
  EXPECT_FALSE(std::filesystem::exists(file() + ".early"));
  EXPECT_FALSE(std::filesystem::exists(file() + ".early.0-of-2"));
}

TEST_F(Records, WhatIsNoRecordStaysInTheFileOfEarlyOnes) {
  Store store(file());
  std::ofstream(file() + ".early") << "my notes\n";
  EXPECT_THROW(RecordsInOrder(store, std::nullopt), InputError);
  std::string text;
  std::getline(std::ifstream(file() + ".early"), text);
  EXPECT_EQ(text, "my notes");
}

TEST_F(Records, OfAShardOfAnotherNumberWaitWhileShardsRunThatMayHaveBegunItsCases) {
  const std::string link = folder_ + "/link.jsonl";
  std::ofstream{file()};
  std::filesystem::create_hard_link(file(), link);
  {
    Store whole(link);
    RecordsInOrder in_order(whole, SweepPart{0, 1});
    in_order.put(1, record("b"));  // then it is killed
  }
  {
    Store one(file()), zero(link);
    RecordsInOrder of_one(one, SweepPart{1, 2});  // by the file's other name: it does not know of that record
    RecordsInOrder of_zero(zero, SweepPart{0, 2});
    of_one.put(0, record("b"));
    EXPECT_EQ(stored(), Digests{"b"});
  }
  Store store(link);
  RecordsInOrder in_order(store);
  EXPECT_EQ(stored(), Digests{"b"});
  EXPECT_FALSE(std::filesystem::exists(link + ".early.0-of-1"));
}

// What a sweep's file holds, whatever runs side by side.
class SideBySideSweep : public Records {
 protected:
  std::string lines_with(int jobs, const std::vector<RunCase>& cases, std::vector<std::string>* ran = nullptr) {
    std::filesystem::remove(file());
    std::mutex mutex;
    const SweepOptions options{.out = file(), .progress = ProgressStyle::none, .jobs = jobs};
    const SweepResult result = run_sweep(cases, options, [&](const RunCase& c, const RunHooks& hooks) {
      const std::string text = describe(c);
      Record r = record(digest_of(c));
      r.system = c.system;
      r.workload = c.workload;
      r.seed = c.seed;
      r.purpose = c.purpose;
      // Cases of one seed compute the same, and the later a case is, the sooner it ends.
      if (c.purpose == Purpose::measure) {
        if (auto shared = hooks.turn->take("seed " + std::to_string(c.seed))) {
          r.curve_of = shared->trained_by;
        } else {
          TrainedNumbers numbers;
          numbers.trained_by = {.digest = r.digest};
          hooks.turn->give(std::move(numbers));
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(text.size() % 7));
      r.curve = {{1, 1, 1.0, 1 - std::abs(c.optimizer.learning_rate - 0.03)}};
      const std::lock_guard lock(mutex);
      if (ran) ran->push_back(text);
      return r;
    });
    std::string lines;
    for (const Record& r : read_records(file()).records) lines += to_json(r).dump() + "\n";
    return lines;
  }
};

TEST_F(SideBySideSweep, WritesTheSameFileHoweverManyCasesRunAtOnce) {
  const std::vector<RunCase> cases = expand_case({{{"system", {"pipedream", "one_f_one_b", "pipeoptim"}},
                                                   {"workload", "fmnist_mlp"},
                                                   {"clock", "virtual"},
                                                   {"ranks", {2, 3}},
                                                   {"seed", {1, 2}},
                                                   {"optimizer", {{"learning_rate", {0.02, "tuned"}}}},
                                                   {"tune", {{"learning_rate", {0.01, 0.03, 0.1}}, {"epochs", 1}}}},
                                                  in_file("s.json", "/grid/0")});
  std::vector<std::string> ran;
  const std::string one = lines_with(1, cases, &ran);
  EXPECT_EQ(ran.size(), with_tuning(cases).size());
  EXPECT_NE(one.find("curve_of"), std::string::npos);
  for (const int jobs : {2, 16}) EXPECT_EQ(lines_with(jobs, cases), one) << jobs;
}

TEST_F(SideBySideSweep, WhatWouldComeToTheSameAgainIsFinal) {
  Record r = record("a");
  r.cost_source = "analytic";
  for (const auto& [outcome, final_there] : std::map<RecordOutcome, bool>{{RecordOutcome::ok, true},
                                                                          {RecordOutcome::diverged, true},
                                                                          {RecordOutcome::out_of_memory, true},
                                                                          {RecordOutcome::unsupported, true},
                                                                          {RecordOutcome::failed, false},
                                                                          {RecordOutcome::timed_out, false}}) {
    r.outcome = outcome;
    EXPECT_EQ(is_final(r), final_there) << outcome;
  }
  for (const RecordOutcome outcome : {RecordOutcome::out_of_memory, RecordOutcome::unsupported}) {
    r.outcome = outcome;
    r.clock = Clock::virtual_clock;
    r.cost_source = "profile";
    EXPECT_FALSE(is_final(r)) << "by costs that are measured";
    r.clock = Clock::wall;
    r.cost_source = "analytic";
    EXPECT_FALSE(is_final(r)) << "of this machine";
  }
}

}  // namespace
}  // namespace sluice
