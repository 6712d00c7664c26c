#include "workloads/data/language.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "harness/base/error.h"
#include "workloads/data/bpe.h"
#include "workloads/data/lines.h"
#include "workloads/data/sentiment.h"
#include "workloads/data/text.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;

// dictd writes numbers in the digits of base 64, the most significant first.
std::uint64_t base_64_number(std::string_view digits, const std::string& where) {
  static constexpr std::string_view all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::uint64_t value = 0;
  for (const char digit : digits) {
    const std::size_t one = all.find(digit);
    if (one == std::string_view::npos || value > kMaxText)
      throw InputError(where, "'" + std::string(digits) + "' is no number of a dictd index",
                       "is it the .index of a dictionary?");
    value = 64 * value + one;
  }
  return value;
}

bool is_about_the_file(std::string_view headword) {
  return headword.starts_with("00-database") || headword.starts_with("00database");
}

// The tokens of texts in a row.
class TokenRow {
 public:
  explicit TokenRow(const BytePairs& pieces) : pieces_(pieces) {}

  std::vector<std::int32_t> of(const std::vector<std::string>& texts) {
    std::vector<std::int32_t> row;
    for (const std::string& text : texts) {
      each_word(text, [&](const std::string& word) {
        auto& ids = known_[word];  // most words occur many times
        if (ids.empty()) ids = pieces_.encode(std::span(&word, 1));
        row.insert(row.end(), ids.begin(), ids.end());
      });
      row.push_back(kEnd);
    }
    return row;
  }

 private:
  const BytePairs& pieces_;
  std::map<std::string, std::vector<std::int32_t>> known_;
};

Dataset samples_of(const std::vector<std::int32_t>& row, std::int64_t length) {
  Dataset data;
  data.samples = row.empty() ? 0 : (static_cast<std::int64_t>(row.size()) - 1) / length;
  const auto end = row.begin() + data.samples * length;
  data.columns = {{.length = length, .ids = {row.begin(), end}}};
  data.targets.length = length;
  if (data.samples > 0) data.targets.ids.assign(row.begin() + 1, end + 1);
  return data;
}

}  // namespace

std::vector<DictionaryEntry> read_dictionary(const std::string& index, const std::string& text) {
  const std::vector<std::uint8_t> bytes = read_file(text, kMaxText);
  const std::vector<std::string> lines = read_lines(index);
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> headwords;  // by where the entry stands
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto fields = fields_of(lines[i]);
    const std::string where = at_line(index, i);
    if (fields.size() != 3)
      throw InputError(where,
                       "has " + std::to_string(fields.size()) +
                           " fields between tabs, not headword, offset and "
                           "length",
                       "is the file cut off?");
    const std::uint64_t offset = base_64_number(fields[1], where), length = base_64_number(fields[2], where);
    if (offset + length > bytes.size())
      throw InputError(where,
                       "its entry ends at byte " + std::to_string(offset + length) + ", " + text + " has " +
                           std::to_string(bytes.size()),
                       "are they of the same dictionary?");
    if (is_about_the_file(fields[0])) continue;
    auto [found, is_new] = headwords.try_emplace({offset, length}, fields[0]);
    if (!is_new && fields[0] < found->second) found->second = fields[0];
  }
  std::vector<DictionaryEntry> entries;
  std::uint64_t total = 0;
  for (const auto& [place, headword] : headwords) {
    total += place.second;
    if (total > kMaxText) throw InputError(index, "its entries overlap, and are together larger than any dictionary");
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(place.first);
    entries.push_back({headword, std::string(begin, begin + static_cast<std::ptrdiff_t>(place.second))});
    if (!is_utf8(entries.back().text))
      throw InputError(text, "the entry of '" + headword + "' is not UTF-8", "is it the index's dictionary?");
    require_words(entries.back().text, text + ": the entry of '" + headword + "'");
  }
  if (entries.empty()) throw InputError(index, "holds no entries");
  return entries;
}

std::vector<std::string> read_paragraphs(const std::string& path) {
  std::vector<std::string> paragraphs;
  bool open = false;
  for (const std::string& line : read_lines(path)) {
    const bool empty = line.find_first_not_of(" \t\f\v") == std::string::npos;
    if (!empty && open) paragraphs.back() += "\n" + line;
    if (!empty && !open) paragraphs.push_back(line);
    open = !empty;
  }
  return paragraphs;
}

DataSplit encode_running_text(const RunningText& parts, const TextLimits& limits, const std::string& where) {
  std::map<std::string, std::int64_t> counts;
  for (const std::string& text : parts.train) each_word(text, [&](const std::string& word) { ++counts[word]; });
  const BytePairs pieces(counts, limits.source_vocabulary);
  TokenRow row(pieces);
  DataSplit split;
  split.train = samples_of(row.of(parts.train), limits.source_length);
  split.validation = samples_of(row.of(parts.validation), limits.source_length);
  split.test = samples_of(row.of(parts.test), limits.source_length);
  for (const auto& [part, name] : {std::pair(&split.train, "training"), {&split.test, "test"}})
    if (part->samples == 0)
      throw InputError(where,
                       std::string("its ") + name + " part has no " + std::to_string(limits.source_length + 1) +
                           " tokens, which the model reads and predicts",
                       "give more text");
  split.source = where;
  return split;
}

DataSplit read_dictionary_folder(const std::string& folder, const std::string& name, const TextLimits& limits) {
  std::vector<std::string> stems;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().extension() == ".index") stems.push_back((file.path().parent_path() / file.path().stem()).string());
  std::string text;
  if (stems.size() == 1)
    for (const char* ending : {".dict", ".dict.gz", ".dict.dz"})  // the last one found wins
      if (fs::exists(stems[0] + ending)) text = stems[0] + ending;
  if (text.empty())
    throw InputError(folder,
                     "holds " + std::to_string(stems.size()) + " files *.index" +
                         (stems.size() == 1 ? " and no text with it" : ", not one"),
                     "give the .index and the .dict.dz of one dictionary");
  RunningText parts;
  for (DictionaryEntry& entry : read_dictionary(stems[0] + ".index", text)) {
    const Part part = part_of(entry.headword);
    (part == Part::test         ? parts.test
     : part == Part::validation ? parts.validation
                                : parts.train)
        .push_back(std::move(entry.text));
  }
  DataSplit split = encode_running_text(parts, limits, folder);
  split.name = name;
  return split;
}

DataSplit read_plain_text_folder(const std::string& folder, const std::string& name, const TextLimits& limits) {
  RunningText parts{
      .train = read_paragraphs(folder + "/train.txt"), .validation = {}, .test = read_paragraphs(folder + "/test.txt")};
  if (fs::exists(folder + "/dev.txt")) parts.validation = read_paragraphs(folder + "/dev.txt");
  DataSplit split = encode_running_text(parts, limits, folder);
  split.name = name;
  return split;
}

}  // namespace sluice
