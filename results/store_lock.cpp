#include "results/store_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <string>

#include "harness/base/error.h"
#include "harness/base/read_text.h"

namespace sluice {

namespace {

// One byte each for MomentLock. From kClaims on: byte n, which all shards i/n share, then a byte for every i. A run
// without shards holds all of that.
constexpr off_t kMoments = off_t{1} << 40, kClaims = kMoments + 16, kShards = kClaims + (off_t{1} << 32);

struct flock range(short type, off_t first, off_t count) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = first;
  range.l_len = count;  // 0: to the end
  return range;
}

struct flock moment(short type, MomentLock::What what) {
  return range(type, kMoments + static_cast<off_t>(what), 1);
}

// False: somebody else holds it.
bool try_lock(int file, struct flock range) { return ::fcntl(file, F_OFD_SETLK, &range) == 0; }

bool is_locked(int file, struct flock range) {
  return ::fcntl(file, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

}  // namespace

MomentLock::MomentLock(int file, What what, const std::filesystem::path& path) : file_(file), what_(what) {
  struct flock wanted = moment(F_WRLCK, what);
  while (::fcntl(file, F_OFD_SETLKW, &wanted) != 0) {
    if (errno == EINTR) continue;
    throw RunError(path.string() + ": cannot lock the file: " + errno_text(errno));
  }
}

MomentLock::~MomentLock() {
  struct flock held = moment(F_UNLCK, what_);
  ::fcntl(file_, F_OFD_SETLK, &held);
}

void claim_records(int file, const std::filesystem::path& path, std::optional<SweepPart> shard) {
  const auto held = [&](const std::string& what) {
    throw InputError(
        path.string(), what,
        "wait for it ('fuser FILE' names it), choose another --out, or give each process a part i/n of one "
        "n with --shard");
  };
  const char* another = "another process is writing its results there";
  if (!shard) {
    if (!try_lock(file, range(F_WRLCK, kClaims, 0))) held(another);
    return;
  }
  if (!try_lock(file, range(F_RDLCK, kClaims + shard->count, 1))) held(another);
  if (is_locked(file, range(F_WRLCK, kClaims, shard->count)) ||
      is_locked(file, range(F_WRLCK, kClaims + shard->count + 1, kShards - kClaims - shard->count - 1)))
    held("another process is writing the results of shards there that are not of " + std::to_string(shard->count));
  if (!try_lock(file, range(F_WRLCK, kShards + shard->index, 1))) held("another process is writing this shard there");
}

bool is_claimed(int file, std::optional<SweepPart> shard) {
  if (!shard) return is_locked(file, range(F_WRLCK, kClaims, 0));
  return is_locked(file, range(F_RDLCK, kClaims + shard->count, 1)) ||
         (is_locked(file, range(F_WRLCK, kClaims + shard->count, 1)) &&
          is_locked(file, range(F_WRLCK, kShards + shard->index, 1)));
}

}  // namespace sluice
