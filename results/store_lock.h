// One `sluice run` a records file at a time: two of them would do every case twice. Shards of one sweep (i/n with one
// n) may write one file together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace sluice {

struct SweepPart {
  std::int64_t index = 0, count = 1;  // index from 0
};

// Held until it is destroyed or the process ends, however it ends: the system drops the lock of FILE.lock, which is
// taken away by the last who holds it. Nothing is locked where the records are no regular file (/dev/null) or no file
// can be made beside them.
class StoreLock {
 public:
  // Throws InputError naming the process that holds the lock.
  StoreLock(const std::filesystem::path& records, std::optional<SweepPart> shard);
  ~StoreLock();
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace sluice
