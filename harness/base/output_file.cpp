#include "harness/base/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/read_text.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

constexpr const char* kAnotherPlace = "name a new file";

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "is a folder";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "is a device, not a file";
  if (S_ISFIFO(mode)) return "is a pipe, not a file";
  return "is a socket, not a file";
}

}  // namespace

fs::path output_place(const fs::path& path) {
  const auto fail = [&](const std::string& what, const std::string& advice = kAnotherPlace) {
    throw InputError(path.string(), what, advice);
  };
  struct stat status {};
  if (path.empty()) throw InputError("output", "the name of the file is empty", kAnotherPlace);
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) fail(kind_of(status.st_mode));
    if (::access(path.c_str(), W_OK) != 0) fail("cannot be opened for writing: " + errno_text(errno));
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      struct stat printed {};
      if (::fstat(stream, &printed) == 0 && printed.st_dev == status.st_dev && printed.st_ino == status.st_ino)
        fail("is the file that this command prints to");
    }
    return fs::canonical(path);
  }
  const int missing = errno;
  if (::lstat(path.c_str(), &status) == 0) {
    if (missing == ENOENT && !S_ISLNK(status.st_mode)) return output_place(path);  // another process just made it
    fail(missing == ENOENT ? "is a link to a file that does not exist"
                           : "cannot be opened for writing: " + errno_text(missing));
  }
  if (!path.has_filename()) fail("ends with / like a folder");
  if (missing != ENOENT && missing != ENOTDIR) fail("cannot be opened for writing: " + errno_text(missing));
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (::stat(folder.c_str(), &status) != 0)
    fail("cannot be written: the folder '" + folder.string() + "' does not exist", "make the folder first");
  if (!S_ISDIR(status.st_mode)) fail("cannot be written: '" + folder.string() + "' is not a folder");
  if (::access(folder.c_str(), W_OK | X_OK) != 0) fail("cannot be opened for writing: " + errno_text(errno));
  return fs::canonical(folder) / path.filename();
}

void reject_same_output(const std::vector<fs::path>& paths) {
  std::set<fs::path> places;
  std::error_code none;
  for (const fs::path& path : paths)
    if (!path.empty() && !places.insert(fs::weakly_canonical(fs::absolute(path, none), none)).second)
      throw InputError(path.string(), "is the file of two outputs", "give each output a file of its own");
}

OutputFile::OutputFile(fs::path path, std::string kind, bool (*is_ours)(const std::string& text))
    : path_(std::move(path)), kind_(std::move(kind)), is_ours_(is_ours) {
  checked();
}

fs::path OutputFile::checked() const {
  constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;
  fs::path place = output_place(path_);
  std::error_code none;
  if (fs::exists(place, none)) {
    const std::string advice = "name a new file, or remove this one";
    if (const std::string text = read_text(place, kMaxFileBytes, advice); !text.empty() && !is_ours_(text))
      throw InputError(path_.string(), "holds something else than " + kind_ + " and is not replaced", advice);
  }
  return place;
}

void OutputFile::write(const std::string& content) const { write_text(checked(), content); }

}  // namespace sluice
