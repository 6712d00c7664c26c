#include "harness/run/parallel_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/case/costs.h"
#include "results/metrics.h"

namespace sluice {

bool runs_alone(const RunCase& c) { return c.clock == Clock::wall || c.costs == kMeasuredCosts; }

void CaseSlots::acquire() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return free_ > 0 && going_on_ == 0; });
  --free_;
}

void CaseSlots::release() {
  const std::lock_guard lock(mutex_);
  ++free_;
  changed_.notify_all();
}

void CaseSlots::without(const std::function<void()>& wait) {
  release();
  if (on_wait) on_wait();
  wait();
  std::unique_lock lock(mutex_);
  ++going_on_;
  changed_.wait(lock, [this] { return free_ > 0; });
  --going_on_;
  --free_;
  changed_.notify_all();
}

namespace {

// The cases first, ..., end - 1, side by side.
class Lanes {
 public:
  Lanes(std::size_t first, std::size_t end, int jobs, const std::function<bool(std::size_t, CaseSlots&)>& work)
      : next_(first), end_(end), most_(jobs + kMaxWaiting), work_(work), slots_(jobs) {
    slots_.on_wait = [this] { start_thread(); };
    for (int k = 0; k < jobs; ++k) start_thread();
  }

  // True: all cases have run. Throws what the lowest of them threw.
  bool join() {
    for (std::size_t k = 0;; ++k) {
      std::thread thread;
      {
        const std::lock_guard lock(mutex_);
        if (k == threads_.size()) break;
        thread = std::move(threads_[k]);
      }
      thread.join();
    }
    if (!thrown_.empty()) std::rethrow_exception(thrown_.begin()->second);
    return !stopped_;
  }

 private:
  // Threads whose cases only wait hold a plan and a program each.
  static constexpr int kMaxWaiting = 16;

  void start_thread() {
    const std::lock_guard lock(mutex_);
    if (stopped_ || next_ == end_ || static_cast<int>(threads_.size()) == most_) return;
    try {
      threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {  // no more threads here: those that run do the work
      if (threads_.empty()) throw;
    }
  }

  std::optional<std::size_t> take() {
    const std::lock_guard lock(mutex_);
    if (stopped_ || next_ == end_) return std::nullopt;
    return next_++;
  }

  void run() {
    for (;;) {
      slots_.acquire();
      const auto k = take();
      if (k) run(*k);
      slots_.release();
      if (!k) return;
    }
  }

  void run(std::size_t k) {
    try {
      if (work_(k, slots_)) return;
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      thrown_[k] = std::current_exception();
    }
  }

  std::mutex mutex_;
  std::size_t next_, end_;
  int most_;
  const std::function<bool(std::size_t, CaseSlots&)>& work_;
  CaseSlots slots_;
  std::vector<std::thread> threads_;
  bool stopped_ = false;
  std::map<std::size_t, std::exception_ptr> thrown_;
};

}  // namespace

void run_side_by_side(std::size_t count, int jobs, const std::function<bool(std::size_t)>& alone,
                      const std::function<bool(std::size_t, CaseSlots&)>& work) {
  CaseSlots this_thread(1);
  this_thread.acquire();
  for (std::size_t k = 0; k < count;) {
    if (jobs <= 1 || alone(k)) {
      if (!work(k++, this_thread)) return;
      continue;
    }
    const std::size_t first = k;
    while (k < count && !alone(k)) ++k;
    if (!Lanes(first, k, static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(jobs), k - first)), work)
             .join())
      return;
  }
}

bool is_final(const Record& record) {
  if (is_result(record)) return true;
  if (record.clock != Clock::virtual_clock || record.cost_source == kMeasuredCosts) return false;
  return record.outcome == RecordOutcome::out_of_memory || record.outcome == RecordOutcome::unsupported;
}

namespace {

std::string early_ending(std::optional<SweepPart> shard) {
  return shard ? fmt::format(".early.{}-of-{}", shard->index, shard->count) : ".early";
}

// The files of early records of `store` and whose they are.
std::vector<std::pair<std::filesystem::path, std::optional<SweepPart>>> early_files(const Store& store) {
  std::vector<std::pair<std::filesystem::path, std::optional<SweepPart>>> files;
  const std::string begin = store.path().filename().string();
  for (const auto& entry : std::filesystem::directory_iterator(store.path().parent_path())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin + ".early")) continue;
    SweepPart part;
    const bool of_shard =
        std::sscanf(name.c_str() + begin.size(), ".early.%" SCNd64 "-of-%" SCNd64, &part.index, &part.count) == 2;
    const auto shard = of_shard ? std::optional(part) : std::nullopt;
    if (name == begin + early_ending(shard)) files.emplace_back(entry.path(), shard);
  }
  return files;
}

}  // namespace

RecordsInOrder::RecordsInOrder(Store& store, std::optional<SweepPart> shard)
    : store_(store), early_path_(store.path().string() + early_ending(shard)) {
  store.claim(shard, [&] { take_over_early_files(shard); });
}

void RecordsInOrder::take_over_early_files(std::optional<SweepPart> own) {
  // A shard of another number, which was killed under another name of the file, has cases in common with shards that
  // run now and have looked at the store already: its records wait until nobody else runs.
  const bool alone = !store_.is_claimed(std::nullopt);
  std::vector<std::filesystem::path> left;
  for (const auto& [file, shard] : early_files(store_)) {
    const bool same_parts = own && shard && own->count == shard->count;
    if (!store_.is_claimed(shard) && (alone || same_parts)) left.push_back(file);
  }
  if (left.empty()) return;
  // A process may have been killed after it stored a record in turn, or while it moved records.
  std::set<std::string> lines, final_digests;
  for (const Record& record : store_.read()) {
    lines.insert(to_json(record).dump());
    if (is_final(record)) final_digests.insert(record.digest);
  }
  for (const std::filesystem::path& file : left) {
    for (const Record& record : read_records(file).records) {
      if (!lines.insert(to_json(record).dump()).second || final_digests.contains(record.digest)) continue;
      if (is_final(record)) final_digests.insert(record.digest);
      store_.append(record);
    }
    std::filesystem::remove(file);
  }
}

void RecordsInOrder::put(std::size_t k, const std::optional<Record>& record) {
  const std::lock_guard lock(mutex_);
  if (k != next_ && record) {
    if (!early_) early_ = std::make_unique<Store>(early_path_);
    early_->append(*record);
  }
  waiting_.emplace(k, record);
  store_all_in_turn();
}

void RecordsInOrder::store_all_in_turn() {
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; ++next_) {
    if (first->second) store_.append(*first->second);
    first = waiting_.erase(first);
  }
  if (waiting_.empty()) drop_early_file();
}

void RecordsInOrder::finish() {
  const std::lock_guard lock(mutex_);
  for (const auto& [k, record] : waiting_)
    if (record) store_.append(*record);
  waiting_.clear();
  drop_early_file();
}

void RecordsInOrder::drop_early_file() {
  if (!early_) return;
  early_.reset();
  std::filesystem::remove(early_path_);
}

void FinishedCases::put(const std::string& digest, const Record& record) {
  const std::lock_guard lock(mutex_);
  records_[digest] = record;
  changed_.notify_all();
}

const Record* FinishedCases::find(const std::string& digest) const {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(digest);
  return found == records_.end() ? nullptr : &found->second;
}

std::vector<Record> FinishedCases::wait_for(const std::vector<std::string>& digests, CaseSlots& slots) {
  const auto all_there = [&] {
    return std::ranges::all_of(digests, [&](const std::string& digest) { return records_.contains(digest); });
  };
  std::unique_lock lock(mutex_);
  if (!all_there() && !ended_) {
    lock.unlock();
    slots.without([&] {
      std::unique_lock waiting(mutex_);
      changed_.wait(waiting, [&] { return ended_ || all_there(); });
    });
    lock.lock();
  }
  std::vector<Record> records;
  if (!all_there()) return records;
  for (const std::string& digest : digests) records.push_back(records_.at(digest));
  return records;
}

void FinishedCases::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

}  // namespace sluice
