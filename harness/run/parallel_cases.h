// Cases side by side: which of a sweep's cases may run at the same time, and how their records come into the file in
// the order of the sweep all the same.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "harness/case/case.h"
#include "results/store.h"

namespace sluice {

// Whether nothing else may run in parallel with the case: it measures this machine, as the wall clock does, and
// measured costs.
bool runs_alone(const RunCase& c);

// How many cases compute at the same time. A case that waits for another one lets a further one compute, and goes on
// before any other begins.
class CaseSlots {
 public:
  explicit CaseSlots(int free) : free_(free) {}
  void acquire();
  void release();
  // Calls `wait`, which blocks, without a slot.
  void without(const std::function<void()>& wait);
  std::function<void()> on_wait;  // called before: time to start a further thread

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_;
  int going_on_ = 0;  // cases that have waited and need a slot again
};

// Calls work(k) for k = 0, 1, ..., count - 1, begun in this order: those alone(k) on this thread with no other running,
// the others up to `jobs` at the same time, on threads of their own where jobs > 1. Ends early, once those that run
// have ended, where work returns false, or throws: then it throws the exception of the lowest k.
void run_side_by_side(std::size_t count, int jobs, const std::function<bool(std::size_t)>& alone,
                      const std::function<bool(std::size_t, CaseSlots&)>& work);

// Whether the case would come to the same again: a result (ok or diverged), or what follows from the case alone: out of
// memory on the virtual clock, or a system that rejects the case there, unless by costs that are measured.
bool is_final(const Record& record);

// Stores the records of cases that end in any order in the order of the cases. A record that is early is kept in a file
// until its turn comes, NAME.early (of a shard NAME.early.0-of-2), so that nothing that is finished is lost if the
// process is killed; a later run finds it there. From any thread.
class RecordsInOrder {
 public:
  // Claims the store for the sweep or its shard, and moves into it what processes that are gone left in such files,
  // other than what it holds already and what a process may have begun anew. Throws as Store.
  explicit RecordsInOrder(Store& store, std::optional<SweepPart> shard = std::nullopt);
  // What case k has come to; nullopt: no record. Every k once. Throws RunError (full disk).
  void put(std::size_t k, const std::optional<Record>& record);
  // Stores what still waits for cases that will not end.
  void finish();

 private:
  void take_over_early_files(std::optional<SweepPart> own);
  void store_all_in_turn();
  void drop_early_file();

  Store& store_;
  std::filesystem::path early_path_;
  std::mutex mutex_;
  std::unique_ptr<Store> early_;
  std::map<std::size_t, std::optional<Record>> waiting_;
  std::size_t next_ = 0;
};

// The records of cases by digest: cases may wait for those that they are chosen from.
class FinishedCases {
 public:
  void put(const std::string& digest, const Record& record);
  const Record* find(const std::string& digest) const;
  // Waits until all of these are there. Empty: the sweep ends before.
  std::vector<Record> wait_for(const std::vector<std::string>& digests, CaseSlots& slots);
  void end();  // no more will come

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Record> records_;  // nodes stay where they are
  bool ended_ = false;
};

}  // namespace sluice
