// Cases in parallel: which of a sweep's cases may run at the same time, and how their records still reach the file in
// the order of the sweep.
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

// Whether nothing else may run in parallel with the case: it measures this machine, on the wall clock or for measured
// costs.
bool runs_alone(const RunCase& c);

// Limits the number of cases that compute at the same time. A case that waits for another one frees its slot, and gets
// the next free slot before any new case.
class CaseSlots {
 public:
  explicit CaseSlots(int free) : free_(free) {}
  void acquire();
  void release();
  // Calls `wait`, which blocks, without holding a slot.
  void without(const std::function<void()>& wait);
  std::function<void()> on_wait;  // called before the wait, to start a further thread

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_;
  int going_on_ = 0;  // cases that have waited and need a slot again
};

// Calls work(k) for k = 0, 1, ..., count - 1, begun in this order: those with alone(k) on this thread with no other
// running, the others up to `jobs` at the same time, on separate threads if jobs > 1. Stops beginning calls if work
// returns false or throws, waits for those that run, and rethrows the exception of the lowest k.
void run_side_by_side(std::size_t count, int jobs, const std::function<bool(std::size_t)>& alone,
                      const std::function<bool(std::size_t, CaseSlots&)>& work);

// Whether a rerun would have the same outcome: a result (ok or diverged) or, on the virtual clock without measured
// costs, out of memory or rejected by the system.
bool is_final(const Record& record);

// Stores the records of cases, which end in any order, in the order of the cases. A record that is early is kept in a
// file, NAME.early (for a shard NAME.early.0-of-2), until its turn, so that no finished case is lost if the process is
// killed; a later run finds it there. Thread-safe.
class RecordsInOrder {
 public:
  // Claims the store for the sweep or its shard. Moves into it the records that ended processes left in such files,
  // except those that it holds already and cases that a running process may have begun again. Throws as Store.
  explicit RecordsInOrder(Store& store, std::optional<SweepPart> shard = std::nullopt);
  // Result of case k; nullopt: no record. Call it once for every k. Throws RunError (full disk).
  void put(std::size_t k, const std::optional<Record>& record);
  // Stores the records that still wait for cases that will not end.
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

// The records of cases by digest, for cases that wait for the trainings from which they are chosen.
class FinishedCases {
 public:
  void put(const std::string& digest, const Record& record);
  const Record* find(const std::string& digest) const;
  // Waits until all of these exist. Empty: the sweep ends before.
  std::vector<Record> wait_for(const std::vector<std::string>& digests, CaseSlots& slots);
  void end();  // no more will come

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Record> records_;  // node-based: pointers to records stay valid
  bool ended_ = false;
};

}  // namespace sluice
