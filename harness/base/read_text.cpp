#include "harness/base/read_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "harness/base/visible_text.h"

namespace sluice {

std::string errno_text(int error) {
  static const std::map<int, const char*> texts = {{ENOENT, "no such file"},
                                                   {ENOTDIR, "no such file: a part of its path is not a folder"},
                                                   {EISDIR, "is a folder"},
                                                   {EACCES, "no permission"},
                                                   {EPERM, "no permission"},
                                                   {EROFS, "the folder can only be read"},
                                                   {ENAMETOOLONG, "the name is too long"},
                                                   {ELOOP, "links that lead in a circle"},
                                                   {ENOSPC, "the disk is full"},
                                                   {EDQUOT, "the disk is full"},
                                                   {EFBIG, "larger than a file may be here (ulimit -f)"},
                                                   {EMFILE, "too many open files (ulimit -n)"},
                                                   {ENFILE, "too many open files (ulimit -n)"}};
  const auto text = texts.find(error);
  return text == texts.end() ? std::system_category().message(error) : text->second;
}

namespace {

class Descriptor {
 public:
  explicit Descriptor(int file) : file_(file) {}
  ~Descriptor() {
    if (file_ >= 0) ::close(file_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return file_; }
  // What close() says: some file systems tell only then that the disk is full.
  int close() { return ::close(std::exchange(file_, -1)) == 0 ? 0 : errno; }

 private:
  int file_;
};

}  // namespace

std::string read_text(const std::filesystem::path& path, std::size_t most, const std::string& advice) {
  const std::string name = path.string();
  const auto fail = [&](const std::string& what) { throw InputError(visible(name), what, advice); };
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
  const Descriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail(errno == ENOENT ? errno_text(errno) : "cannot be read: " + errno_text(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("cannot be read: " + errno_text(errno));
  if (S_ISDIR(status.st_mode)) fail("is a folder");
  if (!S_ISREG(status.st_mode)) fail("is not a regular file but a pipe or a device");
  const auto too_large = [&] { fail("is larger than such a file can be (" + std::to_string(most) + " bytes)"); };
  if (static_cast<std::uintmax_t>(status.st_size) > most) too_large();
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t got = 0;
  for (;;) {
    stop_now();
    if (got == text.size()) text.resize(std::min(most + 1, text.size() + text.size() / 2 + 4096));  // it has grown
    constexpr std::size_t kAtOnce = std::size_t{16} << 20;
    const ssize_t n = ::read(file.get(), text.data() + got, std::min(text.size() - got, kAtOnce));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot be read: " + errno_text(errno));
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
    if (got > most) too_large();
  }
  text.resize(got);
  return text;
}

std::string read_gzip(const std::string& path, std::size_t most, const std::string& advice,
                      const std::function<std::size_t(std::string_view begin)>& size_of) {
  if (read_text(path, most, advice).empty()) return {};
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw InputError(path, "cannot be read", advice);
  std::string text;
  std::array<char, 1 << 16> block;
  for (std::size_t whole = most; text.size() <= whole;) {
    stop_now();
    const int n = gzread(file.get(), block.data(), static_cast<unsigned>(block.size()));
    if (n < 0) throw InputError(path, "is not a whole gzip file (damaged or cut off)", advice);
    if (n == 0) break;
    const std::string_view read(block.data(), static_cast<std::size_t>(n));
    if (size_of && text.empty()) whole = size_of(read);
    text += read;
    if (text.size() > most || whole > most) throw InputError(path, "is larger than such a file can be", advice);
  }
  // gzread passes plain files through and reports a cut-off stream only here.
  if (gzdirect(file.get()))
    throw InputError(path, "is named " + path.substr(path.size() - 3) + " but is not a gzip file", advice);
  int status = Z_OK;
  gzerror(file.get(), &status);
  if (status != Z_OK) throw InputError(path, "is not a whole gzip file (damaged or cut off)", advice);
  return text;
}

void write_text(const std::filesystem::path& path, const std::string& content) {
  const std::string name = path.string(), part = name + ".part" + std::to_string(::getpid());
  const auto fail = [&](int error) { throw RunError(visible(name) + ": cannot be written: " + errno_text(error)); };
  // Whatever stands at that name is removed, not followed: it may be somebody's link.
  ::unlink(part.c_str());
  Descriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file.get() < 0) fail(errno);
  const auto check = [&](int error) {
    if (error == 0) return;
    ::unlink(part.c_str());
    fail(error);
  };
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = ::write(file.get(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) check(n < 0 ? errno : ENOSPC);
    done += static_cast<std::size_t>(n);
  }
  check(file.close());
  check(::rename(part.c_str(), name.c_str()) == 0 ? 0 : errno);
}

}  // namespace sluice
