// The append-only store. Every writer holds a lock while it looks at the tail and writes, so that whoever finds a line
// without an end knows that its writer is dead.
#include "results/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/output_file.h"
#include "harness/base/read_text.h"
#include "results/contradictions.h"
#include "results/seal.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Of a file that is open for reading: whether it is empty, or begins as a record or an empty line does.
bool begins_like_records(int file) {
  char first = '{';
  return ::pread(file, &first, 1, 0) >= 0 && (first == '{' || first == '\n');
}

// All of `text`, or an errno.
int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

off_t size_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? status.st_size : 0;
}

// What stands after the last line end but one: the last line, with its line end if it has one.
std::string last_line(int file, off_t size) {
  constexpr off_t kBlock = 1 << 16;
  std::string tail;
  off_t from = size;
  while (from > 0) {
    const off_t step = std::min(kBlock, from);
    std::string block(static_cast<std::size_t>(step), '\0');
    if (::pread(file, block.data(), block.size(), from - step) != step) return tail;
    from -= step;
    tail.insert(0, block);
    const auto end = tail.size() < 2 ? std::string::npos : tail.rfind('\n', tail.size() - 2);
    if (end != std::string::npos) return tail.substr(end + 1);
  }
  return tail;
}

bool is_json_object(std::string_view line) { return Json::parse_if_json(line).value_or(Json()).is_object(); }

// where: file and number of the line, after which the error names the column and not once more a line.
[[noreturn]] void reject_line(const std::string& line, const std::string& where) {
  try {
    Json::parse(line, where);
  } catch (const InputError& error) {
    const std::string text = error.what(), place = where + ":1:";
    throw InputError("", text.starts_with(place) ? where + ":" + text.substr(place.size()) : text);
  }
  throw InputError(where, "is not JSON");
}

bool closes_its_braces(std::string_view line) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') in_text = !in_text;
    if (in_text) {
      i += line[i] == '\\' ? 1 : 0;
    } else {
      depth += (line[i] == '{' ? 1 : 0) - (line[i] == '}' ? 1 : 0);
    }
  }
  return depth == 0;
}

// Whether a process that was killed may have left this of a record's line. A line whose only fault is a key that stands
// twice was edited.
bool is_torn(const std::string& line, bool ended) {
  constexpr std::string_view kBegin = R"({"batch":)";
  return line.starts_with(kBegin.substr(0, std::min(kBegin.size(), line.size()))) &&
         !(ended ? line.ends_with('}') : closes_its_braces(line));
}

constexpr std::size_t kLinesAtATime = 512;

struct Line {
  std::string text;
  int number = 0;
  bool ended = false;
  std::optional<Record> record = {};  // none: the text is not JSON
  std::exception_ptr error = {};      // it is no record
};

void read_line(Line& line, const std::string& path, RecordUse use) {
  const std::optional<Json> value = Json::parse_if_json(line.text, use == RecordUse::figures ? "timeline" : "");
  if (!value) return;
  try {
    const std::string where = fmt::format("{}:{}", path, line.number);
    Record record = record_from_json(*value, where);
    if (has_broken_seal(line.text, *value))
      throw InputError(where, "was changed after it was written: its seal is not that of its other members",
                       "run the case again; or take the member seal out, and answer for the record yourself");
    reject_contradictions(record, where);
    if (use == RecordUse::figures && record.plan)
      for (PlanDescription::Stage& stage : record.plan->stages) stage.layers.reset();
    line.record = std::move(record);
  } catch (...) {
    line.error = std::current_exception();
  }
}

void read_lines(std::vector<Line>& lines, const std::string& path, RecordUse use) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t k; (k = next++) < lines.size();) read_line(lines[k], path, use);
  };
  constexpr std::size_t kWorthAThread = 32;  // lines
  std::vector<std::jthread> others;
  const std::size_t threads = std::min<std::size_t>(std::thread::hardware_concurrency(), lines.size() / kWorthAThread);
  for (std::size_t k = 1; k < threads; ++k) others.emplace_back(work);
  work();
}

}  // namespace

std::string digest(const Json& experiment) { return hash_of_text(experiment.dump()); }

StoredRecords read_records(const fs::path& path, RecordUse use) {
  std::error_code error;
  if (fs::is_directory(path, error)) throw InputError(path.string(), "is a folder", "name the .jsonl file in it");
  if (!fs::exists(path, error))
    throw InputError(path.string(), "no such file", "write one with: sluice run ... --out FILE");
  if (!fs::is_regular_file(path, error))
    throw InputError(path.string(), "is not a regular file but a pipe or a device", "write its lines into a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path.string(), "cannot be read: " + errno_text(errno), "check its permissions");
  StoredRecords result;
  std::string text;
  std::vector<Line> lines;
  bool more = true;
  for (int number = 1; more;) {
    lines.clear();
    for (; lines.size() < kLinesAtATime && (more = static_cast<bool>(std::getline(file, text))); ++number)
      if (!text.empty()) lines.push_back({std::move(text), number, !file.eof(), {}, {}});
    read_lines(lines, path.string(), use);
    for (Line& line : lines) {
      if (line.error) std::rethrow_exception(line.error);
      if (line.record) {
        result.records.push_back(std::move(*line.record));
        continue;
      }
      const std::string where = fmt::format("{}:{}", path.string(), line.number);
      const bool last = line.number == number - 1 && (!line.ended || file.peek() == std::ifstream::traits_type::eof());
      if (!last || !is_torn(line.text, line.ended)) reject_line(line.text, where);
      result.warnings.push_back(where + ": the last line is torn and was skipped");
      more = false;
    }
  }
  return result;
}

Store::Store(fs::path path) : path_(std::move(path)), name_(path_.string()) {
  std::error_code error;
  if (const fs::path folder = path_.parent_path(); !folder.empty() && path_.has_filename()) {
    fs::create_directories(folder, error);
    if (error || !fs::is_directory(folder))
      throw InputError(folder.string(), "cannot create the folder: " + (error ? error.message() : "not a folder"),
                       "choose another place with --out");
  }
  path_ = output_place(path_);
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0)
    throw InputError(name_, "cannot be opened for writing: " + errno_text(errno), "choose another place with --out");
  try {
    const MomentLock lock(file_, MomentLock::What::append, name_);
    check_lines();
    mend();
  } catch (...) {
    ::close(file_);
    throw;
  }
}

Store::~Store() { ::close(file_); }

void Store::check_lines() const {
  const std::string advice = "name a new file, or one of records, with --out";
  // Before reading: a line of a file that is not ours may have any length.
  if (!begins_like_records(file_))
    throw InputError(name_, "is not a file of records; results are not added to it", advice);
  try {
    read_records(name_);
  } catch (const InputError& e) {
    throw InputError("", std::string(e.what()) + "; results are added to records alone", advice);
  }
}

void Store::mend() {
  const off_t size = size_of(file_);
  if (size == 0) return;
  const std::string line = last_line(file_, size);
  const bool ended = line.ends_with('\n');
  const bool whole = line == "\n" || is_json_object(line);
  if (ended && whole) return;
  if (whole) {  // only the line end is missing: an editor's doing, or the last byte of a write
    if (const int error = write_all(file_, "\n"); error != 0)
      throw RunError(name_ + ": cannot be written: " + errno_text(error));
    warnings_.push_back(name_ + ": the last line had no line end; it was added");
    return;
  }
  const std::string aside = output_place(path_.string() + ".torn").string();
  const int torn = ::open(aside.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (torn >= 0 && !begins_like_records(torn)) {
    ::close(torn);
    throw InputError(aside, "holds something else than lines that were torn; that of " + name_ + " is not added to it",
                     "move it to another name");
  }
  int error = torn < 0 ? errno : write_all(torn, ended ? line : line + "\n");
  if (torn >= 0) {
    if (error == 0 && ::fdatasync(torn) != 0) error = errno;
    ::close(torn);
  }
  // Only what is safe elsewhere is cut off.
  if (error == 0 && ::ftruncate(file_, size - static_cast<off_t>(line.size())) != 0) error = errno;
  if (error != 0)
    throw RunError(
        fmt::format("{}: the last line is torn and cannot be set aside to {}: {}", name_, aside, errno_text(error)));
  warnings_.push_back(
      fmt::format("{}: the last line was torn ({} bytes); it was set aside to {}", name_, line.size(), aside));
}

void Store::append(const Record& record) {
  // Text from outside (a reason, a log line) may hold stray bytes: replaced, not thrown over.
  const std::string line = sealed(to_json(record).dump()) + "\n";
  const MomentLock lock(file_, MomentLock::What::append, name_);
  const off_t before = size_of(file_);
  char last = '\n';
  if (before > 0 && ::pread(file_, &last, 1, before - 1) == 1 && last != '\n') mend();
  const off_t size = size_of(file_);
  int error = write_all(file_, line);
  if (error == 0 && ::fdatasync(file_) != 0) error = errno;
  if (error == 0) return;
  std::string message = fmt::format("{}: the record of {} on {} could not be stored: {}", name_, record.system,
                                    record.workload, errno_text(error));
  if (size_of(file_) > size && ::ftruncate(file_, size) != 0)
    message += "; half of its line is left at the end and will be set aside by the next run";
  throw RunError(message + "; make room and run again with --resume");
}

void Store::claim(std::optional<SweepPart> shard, const std::function<void()>& begin) {
  const MomentLock lock(file_, MomentLock::What::claim, name_);
  claim_records(file_, name_, shard);
  begin();
}

bool Store::is_claimed(std::optional<SweepPart> shard) const { return sluice::is_claimed(file_, shard); }

std::vector<Record> Store::read() const {
  const MomentLock lock(file_, MomentLock::What::append, name_);  // no other process is in the middle of a line
  return read_records(path_).records;
}

}  // namespace sluice
