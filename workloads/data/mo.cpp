#include "workloads/data/mo.h"

#include <cstdint>
#include <string_view>

#include "harness/base/error.h"
#include "harness/base/split.h"
#include "workloads/data/dataset.h"

namespace sluice {

namespace {

constexpr std::uint32_t kMagic = 0x950412de, kSwappedMagic = 0xde120495;
constexpr const char* kCatalogueAdvice =
    "if workloads/data/fetch brought it, run that again; otherwise compile it again with msgfmt";
constexpr std::string_view kBetweenForms("\0", 1);

class CatalogueFile {
 public:
  explicit CatalogueFile(const std::string& path) : path_(path), bytes_(read_file(path, std::size_t{1} << 30)) {
    if (bytes_.size() < 20) fail("is cut off inside its header");
    const std::uint32_t magic = little_endian(0);
    if (magic != kMagic && magic != kSwappedMagic) fail("is not a gettext catalogue (.mo)");
    is_big_endian_ = magic == kSwappedMagic;
    // The upper half is the major number: 0 and 1 have the same tables.
    if (number(4) >> 16 > 1) fail("has format revision " + std::to_string(number(4) >> 16) + ", this reads 0 and 1");
    count_ = number(8);
  }

  std::size_t count() const { return count_; }
  std::string_view original(std::size_t i) const { return text(number(12), i); }
  std::string_view translation(std::size_t i) const { return text(number(16), i); }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw InputError(path_, what, kCatalogueAdvice); }

  std::uint32_t little_endian(std::uint64_t at) const {
    std::uint32_t value = 0;
    for (int k = 3; k >= 0; --k) value = value << 8 | bytes_[at + k];
    return value;
  }
  std::uint32_t number(std::uint64_t at) const {
    if (at + 4 > bytes_.size()) fail("is cut off inside its tables");
    const std::uint32_t value = little_endian(at);
    return is_big_endian_ ? __builtin_bswap32(value) : value;
  }
  // String i of the table that begins at `table`.
  std::string_view text(std::uint64_t table, std::size_t i) const {
    const std::uint64_t entry = table + 8 * static_cast<std::uint64_t>(i);
    const std::uint64_t length = number(entry), begin = number(entry + 4);
    if (begin + length >= bytes_.size()) fail("string " + std::to_string(i) + " lies outside of the file (cut off?)");
    if (bytes_[begin + length] != 0) fail("string " + std::to_string(i) + " does not end in a zero byte");
    return {reinterpret_cast<const char*>(&bytes_[begin]), static_cast<std::size_t>(length)};
  }

  std::string path_;
  std::vector<std::uint8_t> bytes_;
  bool is_big_endian_ = false;
  std::size_t count_ = 0;
};

}  // namespace

std::vector<CatalogueEntry> read_catalogue(const std::string& path) {
  const CatalogueFile file(path);
  std::vector<CatalogueEntry> entries;
  for (std::size_t i = 0; i < file.count(); ++i) {
    std::string_view original = file.original(i);
    CatalogueEntry entry;
    if (const std::size_t end = original.find('\4'); end != std::string_view::npos) {
      entry.context = original.substr(0, end);
      original.remove_prefix(end + 1);
    }
    const std::vector<std::string> forms = split(original, kBetweenForms);
    entry.original = forms[0];
    if (forms.size() > 1) entry.original_plural = forms[1];
    entry.translations = split(file.translation(i), kBetweenForms);
    if (!entry.original.empty()) entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace sluice
