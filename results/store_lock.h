// Locks on an open file of records. They belong to the open file, not to its name, so that a link is the same file, and
// the system drops them however the process ends. They are byte ranges far beyond the file's end, which hold nothing;
// ranges, also on network file systems, where flock() would lock all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace sluice {

struct SweepPart {
  std::int64_t index = 0, count = 1;  // index from 0
};

// What is locked for a moment: waits until no other open file holds it.
class MomentLock {
 public:
  enum class What { append, claim };
  // Throws RunError naming `path` where the file system has no locks.
  MomentLock(int file, What what, const std::filesystem::path& path);
  ~MomentLock();
  MomentLock(const MomentLock&) = delete;
  MomentLock& operator=(const MomentLock&) = delete;

 private:
  int file_;
  What what_;
};

// One `sluice run` a file at a time: two of them would do every case twice. Shards of one sweep (i/n with one n) may
// write one file together. Held until `file` is closed. Needs MomentLock::What::claim. Throws InputError if another
// process has claimed what overlaps.
void claim_records(int file, const std::filesystem::path& path, std::optional<SweepPart> shard);
// Whether another process has claimed this shard, or (nullopt) anything of the file.
bool is_claimed(int file, std::optional<SweepPart> shard);

}  // namespace sluice
