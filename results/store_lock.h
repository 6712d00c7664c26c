// Locks on an open file of records. They belong to the open file, not to its name, so a link is the same file, and the
// system releases them at any end of the process. They are byte ranges far beyond the file's end, which hold no data:
// byte ranges also work on network file systems, where flock() would lock the whole file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace sluice {

struct SweepPart {
  std::int64_t index = 0, count = 1;  // index from 0
};

// A short lock: waits until no other open file holds it.
class MomentLock {
 public:
  enum class What { append, claim };
  // Throws RunError naming `path` if the file system has no locks.
  MomentLock(int file, What what, const std::filesystem::path& path);
  ~MomentLock();
  MomentLock(const MomentLock&) = delete;
  MomentLock& operator=(const MomentLock&) = delete;

 private:
  int file_;
  What what_;
};

// One `sluice run` per file at a time: two would run every case twice. Shards of one sweep (i/n with one n) may write
// one file together. Held until `file` is closed. Needs MomentLock::What::claim. Throws InputError if another process
// has an overlapping claim.
void claim_records(int file, const std::filesystem::path& path, std::optional<SweepPart> shard);
// Whether another process has claimed this shard, or (nullopt) any part of the file.
bool is_claimed(int file, std::optional<SweepPart> shard);

}  // namespace sluice
