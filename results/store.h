// The store: a JSONL file that only grows, one record per line. Several processes may append to one file at once. A
// killed run may leave half a line at the end; it is moved to another file with a warning, and never read as a record.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "results/record.h"
#include "results/store_lock.h"

namespace sluice {

// 16 hexadecimal digits that identify a case (FNV-1a, 64 bits, over its canonical dump: keys sorted, no spaces). The
// same on every machine and in every version.
std::string digest(const Json& experiment);

struct StoredRecords {
  std::vector<Record> records;
  std::vector<std::string> warnings;  // a torn last line that was skipped; one sentence each
};

// figures: without the timelines and the layers of plans, which take most of the memory and of the reading time.
enum class RecordUse { all, figures };

// Reads a file without changing it, on all cores. Throws InputError if it is missing, a folder or unreadable. Throws it
// with file:line and the field if a line (except a torn last one) is not a record, was changed after it was written
// (seal.h), or has two fields that contradict each other.
StoredRecords read_records(const std::filesystem::path& path, RecordUse use = RecordUse::all);

class Store {
 public:
  // Opens the file, creating it and its folders. A torn last line is moved to FILE.torn (appended, so that an earlier
  // one stays). Throws InputError, without any change, if the path cannot be opened for writing, is not a file, or
  // holds a line that is neither a record nor the beginning of one.
  explicit Store(std::filesystem::path path);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // One line, one write, on the disk when it returns. On an error (disk full) the file is restored and RunError says
  // so: the record is not stored, those before it are.
  void append(const Record& record);

  std::vector<Record> read() const;

  // For one sweep, or for its shard, until the store is destroyed; `begin` is called while no other process can claim
  // the file. Throws InputError if another process has an overlapping claim.
  void claim(std::optional<SweepPart> shard, const std::function<void()>& begin);
  // Whether another process has claimed this shard.
  bool is_claimed(std::optional<SweepPart> shard) const;

  const std::filesystem::path& path() const { return path_; }  // links resolved
  // What was moved to another file so far; one sentence each, for the user.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void check_lines() const;  // both with the lock held
  void mend();

  std::filesystem::path path_;
  std::string name_;  // as given, for messages
  int file_ = -1;
  std::vector<std::string> warnings_;
};

}  // namespace sluice
