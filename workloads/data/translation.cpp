#include "workloads/data/translation.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "harness/base/error.h"
#include "workloads/data/bpe.h"
#include "workloads/data/lines.h"
#include "workloads/data/mo.h"
#include "workloads/data/text.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

const std::set<std::string> kTestCatalogues = {"sd.mo"};
const std::set<std::string> kValidationCatalogues = {"chart.mo", "sfx.mo"};

// One pair a source, the first one; sources in `taken` are left out, those kept join it.
std::vector<TextPair> without_duplicates(std::vector<TextPair> pairs, std::set<std::string>& taken) {
  std::vector<TextPair> kept;
  for (TextPair& pair : pairs) {
    std::string key;  // what the model sees of it
    for (const std::string& word : words_of(pair.source)) key += word + " ";
    if (taken.insert(std::move(key)).second) kept.push_back(std::move(pair));
  }
  return kept;
}

// Samples are appended one at a time: source, target in, target out.
struct Encoder {
  const BytePairs& pieces;
  TextLimits limits;

  Dataset data;
  std::vector<std::vector<std::string>> references;

  Encoder(const BytePairs& pieces_, const TextLimits& limits_) : pieces(pieces_), limits(limits_) {
    data.columns.resize(2);
    data.columns[0].length = limits.source_length;
    data.columns[1].length = data.targets.length = limits.target_length;
  }

  // Ids, then `fill` up to the column's length.
  static void append(TokenColumn& column, const std::vector<std::int32_t>& ids, std::int32_t fill) {
    column.ids.insert(column.ids.end(), ids.begin(), ids.end());
    column.ids.resize(column.ids.size() + column.length - ids.size(), fill);
  }

  void add(const TextPair& pair) {
    std::vector<std::string> words = words_of(pair.target);
    std::vector<std::int32_t> source = pieces.encode(words_of(pair.source));
    std::vector<std::int32_t> target = pieces.encode(words);
    if (source.empty() || target.empty() || static_cast<std::int64_t>(source.size()) >= limits.source_length ||
        static_cast<std::int64_t>(target.size()) >= limits.target_length)
      return;
    source.push_back(kEnd);
    append(data.columns[0], source, kPad);
    target.insert(target.begin(), kBegin);
    append(data.columns[1], target, kPad);
    target.erase(target.begin());
    target.push_back(kEnd);
    append(data.targets, target, kNoTarget);
    references.push_back(std::move(words));
    ++data.samples;
  }
};

DataSplit encode(const TextPairs& parts, const TextLimits& limits, const std::string& where) {
  std::map<std::string, std::int64_t> counts;
  const auto words = static_cast<std::size_t>(std::max(limits.source_length, limits.target_length));
  for (const TextPair& pair : parts.train)
    for (const std::string* text : {&pair.source, &pair.target})
      // Texts that are too long in words are too long in pieces: they are in no part.
      if (const auto all = words_of(*text); all.size() < words)
        for (const std::string& word : all) ++counts[word];
  const auto pieces =
      std::make_shared<const BytePairs>(counts, std::min(limits.source_vocabulary, limits.target_vocabulary));
  DataSplit split;
  const auto encode_part = [&](const std::vector<TextPair>& pairs, Dataset& into) {
    Encoder encoder(*pieces, limits);
    for (const TextPair& pair : pairs) encoder.add(pair);
    into = std::move(encoder.data);
    return std::move(encoder.references);
  };
  encode_part(parts.train, split.train);
  encode_part(parts.validation, split.validation);
  split.references = encode_part(parts.test, split.test);
  if (split.train.samples == 0 || split.test.samples == 0)
    throw InputError(where, "holds no texts that are short enough for this model");
  split.words = [pieces](std::span<const std::int32_t> ids) { return pieces->decode(ids); };
  split.source = where;
  return split;
}

}  // namespace

std::vector<TextPair> read_catalogue_pairs(const std::string& path) {
  std::vector<TextPair> pairs;
  const auto add = [&](const std::string& source, const std::string& target) {
    TextPair pair{clean_ui_text(source), clean_ui_text(target)};
    if (!words_of(pair.source).empty() && !words_of(pair.target).empty()) pairs.push_back(std::move(pair));
  };
  for (const CatalogueEntry& entry : read_catalogue(path)) {
    add(entry.original, entry.translations[0]);
    if (!entry.original_plural.empty() && entry.translations.size() > 1)
      add(entry.original_plural, entry.translations[1]);
  }
  return pairs;
}

std::vector<TextPair> read_parallel_lines(const std::string& source, const std::string& target) {
  const std::vector<std::string> from = read_lines(source), to = read_lines(target);
  if (from.size() != to.size())
    throw InputError(source,
                     "has " + std::to_string(from.size()) + " lines, " + target + " has " + std::to_string(to.size()),
                     "line n of one must be the translation of line n of the other");
  std::vector<TextPair> pairs;
  for (std::size_t i = 0; i < from.size(); ++i) pairs.push_back({from[i], to[i]});
  return pairs;
}

TextPairs split_catalogues(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().extension() == ".mo") names.push_back(file.path().filename().string());
  std::sort(names.begin(), names.end());
  TextPairs parts;
  for (const std::string& name : names) {
    std::vector<TextPair>& part = kTestCatalogues.contains(name)         ? parts.test
                                  : kValidationCatalogues.contains(name) ? parts.validation
                                                                         : parts.train;
    std::vector<TextPair> pairs = read_catalogue_pairs(folder + "/" + name);
    std::move(pairs.begin(), pairs.end(), std::back_inserter(part));
  }
  std::set<std::string> taken;
  parts.test = without_duplicates(std::move(parts.test), taken);
  parts.validation = without_duplicates(std::move(parts.validation), taken);
  parts.train = without_duplicates(std::move(parts.train), taken);
  if (parts.test.empty()) throw InputError(folder, "has no sd.mo, which is the test part", "run workloads/data/fetch");
  if (parts.train.empty()) throw InputError(folder, "has no catalogues to train on", "run workloads/data/fetch");
  return parts;
}

DataSplit read_catalogue_folder(const std::string& folder, const std::string& name, const TextLimits& limits) {
  DataSplit split = encode(split_catalogues(folder), limits, folder);
  split.name = name;
  return split;
}

DataSplit read_parallel_folder(const std::string& folder, const std::string& name, const TextLimits& limits) {
  std::vector<std::string> endings;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().stem() == "train" && file.path().extension() != ".tsv")
      endings.push_back(file.path().extension().string());
  std::sort(endings.begin(), endings.end());
  auto source = endings.end();
  for (const char* wanted : {".en", ".src", ".source"})  // the last one found wins
    if (const auto found = std::find(endings.begin(), endings.end(), wanted); found != endings.end()) source = found;
  if (endings.size() != 2 || source == endings.end())
    throw InputError(
        folder,
        "has " + std::to_string(endings.size()) + " files named train.*, not a source (source, src or en) and a target",
        "name them as train.en and train.de");
  const std::string from = *source, to = endings[source == endings.begin() ? 1 : 0];
  const auto read = [&](const std::string& part) {
    return read_parallel_lines(folder + "/" + part + from, folder + "/" + part + to);
  };
  TextPairs parts{.train = read("train"), .validation = {}, .test = read("test")};
  if (fs::exists(folder + "/dev" + from)) parts.validation = read("dev");
  DataSplit split = encode(parts, limits, folder);
  split.name = name;
  return split;
}

}  // namespace sluice
