#include "results/store_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/visible_text.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

// Shard i of n holds byte n (n - 1) / 2 + i of the lock file, a run without shards all of them.
struct flock range_of(std::optional<SweepPart> shard) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  if (!shard) return range;  // length 0: to the end
  range.l_start = shard->count * (shard->count - 1) / 2 + shard->index;
  range.l_len = 1;
  return range;
}

bool is_gone(int file) {
  struct stat status {};
  return ::fstat(file, &status) != 0 || status.st_nlink == 0;
}

}  // namespace

StoreLock::StoreLock(const fs::path& records, std::optional<SweepPart> shard) : path_(records.string() + ".lock") {
  std::error_code error;
  if (fs::exists(records, error) && !fs::is_regular_file(records, error)) return;
  for (;;) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) return;
    struct flock range = range_of(shard);
    if (::fcntl(file_, F_SETLK, &range) != 0) {
      const bool held = errno == EAGAIN || errno == EACCES;
      struct flock holder = range_of(shard);
      const bool known = held && ::fcntl(file_, F_GETLK, &holder) == 0 && holder.l_type != F_UNLCK && holder.l_pid > 0;
      ::close(std::exchange(file_, -1));
      if (!held) return;  // a file system without locks
      throw InputError(visible(records.string()),
                       known ? "process " + std::to_string(holder.l_pid) + " is writing its results there"
                             : "another process is writing its results there",
                       "wait for it, choose another --out, or give each process a part with --shard");
    }
    // Whoever held it before may have taken the file away since it was opened here.
    if (!is_gone(file_)) return;
    ::close(std::exchange(file_, -1));
  }
}

StoreLock::~StoreLock() {
  if (file_ < 0) return;
  struct flock all = range_of(std::nullopt);
  if (::fcntl(file_, F_SETLK, &all) == 0) ::unlink(path_.c_str());
  ::close(file_);
}

}  // namespace sluice
