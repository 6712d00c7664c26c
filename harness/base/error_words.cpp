#include "harness/base/error_words.h"

#include <filesystem>
#include <mutex>
#include <new>
#include <system_error>
#include <vector>

#include "harness/base/read_text.h"
#include "harness/base/stop.h"

namespace sluice {

namespace {

struct Known {
  std::mutex mutex;
  std::vector<ErrorWords> words;
};
Known& known() {
  static Known all;
  return all;
}

}  // namespace

void add_error_words(ErrorWords words) {
  const std::lock_guard lock(known().mutex);
  known().words.push_back(words);
}

std::string words_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error)) return kOutOfMemory;
  if (dynamic_cast<const std::length_error*>(&error)) return kOutOfMemory;  // a container of absurd size
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return file->path1().string() + ": " + errno_text(file->code().value());
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    if (system->code() == std::errc::resource_unavailable_try_again)  // of std::thread
      return "no more threads can be started here (ulimit -u, ulimit -v); use --jobs 1 or fewer ranks";
    return errno_text(system->code().value());
  }
  {
    const std::lock_guard lock(known().mutex);
    for (const ErrorWords words : known().words)
      if (const auto text = words(error)) return *text;
  }
  const bool defect = dynamic_cast<const std::logic_error*>(&error) || typeid(error) == typeid(std::exception);
  return defect ? std::string("internal error: ") + error.what() : error.what();
}

}  // namespace sluice
