#include "workloads/data/sentiment.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "workloads/data/lines.h"
#include "workloads/data/text.h"

namespace sluice {

namespace {

constexpr std::int64_t kMinCount = 2;

std::optional<int> as_label(std::string_view text) {
  if (text == "0" || text == "neg" || text == "negative") return 0;
  if (text == "1" || text == "pos" || text == "positive") return 1;
  return std::nullopt;
}

Dataset encode(std::span<const LabelledText> texts, const WordVocabulary& vocabulary, std::int64_t length) {
  Dataset data;
  data.samples = static_cast<std::int64_t>(texts.size());
  data.classes = 2;
  TokenColumn column{.length = length, .ids = {}};
  column.ids.assign(texts.size() * length, kPad);
  auto row = column.ids.begin();
  for (const LabelledText& text : texts) {
    std::vector<std::string> words = words_of(text.text);
    if (words.empty()) words.push_back("");  // unknown: every sample has a token
    for (std::size_t i = 0; i < words.size() && i < static_cast<std::size_t>(length); ++i)
      row[static_cast<std::ptrdiff_t>(i)] = vocabulary.id(words[i]);
    row += length;
    data.labels.push_back(static_cast<std::uint8_t>(text.label));
  }
  data.columns = {std::move(column)};
  return data;
}

DataSplit encode(std::span<const LabelledText> train, std::span<const LabelledText> validation,
                 std::span<const LabelledText> test, const TextLimits& limits) {
  std::map<std::string, std::int64_t> counts;
  for (const LabelledText& text : train) each_word(text.text, [&](const std::string& word) { ++counts[word]; });
  const WordVocabulary vocabulary(counts, kMinCount, limits.source_vocabulary);
  DataSplit split;
  split.train = encode(train, vocabulary, limits.source_length);
  split.validation = encode(validation, vocabulary, limits.source_length);
  split.test = encode(test, vocabulary, limits.source_length);
  return split;
}

}  // namespace

std::vector<LabelledText> read_rated_sentences(const std::string& path) {
  std::vector<LabelledText> result;
  const std::vector<std::string> lines = read_lines(path);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto fields = fields_of(lines[i]);
    if (fields.size() != 3)
      throw InputError(at_line(path, i),
                       "has " + std::to_string(fields.size()) + " fields between tabs, not id, rating and text",
                       "is the file cut off?");
    const auto rating = number_as<double>(fields[1]);
    if (!rating || !(std::abs(*rating) <= 4))
      throw InputError(at_line(path, i), "rating '" + std::string(fields[1]) + "' is not a number from -4 to 4");
    if (*rating != 0) result.push_back({std::string(fields[0]), std::string(fields[2]), *rating > 0 ? 1 : 0});
  }
  return result;
}

std::vector<LabelledText> read_labelled_lines(const std::string& path) {
  std::vector<LabelledText> result;
  const std::vector<std::string> lines = read_lines(path);
  const auto header = fields_of(lines[0]);
  const bool text_first = header.size() == 2 && header[1] == "label";
  const bool has_header = text_first || header[0] == "label" || header[0] == "sentiment";
  for (std::size_t i = has_header ? 1 : 0; i < lines.size(); ++i) {
    const auto fields = fields_of(lines[i]);
    if (fields.size() != 2)
      throw InputError(at_line(path, i),
                       "has " + std::to_string(fields.size()) + " fields between tabs, not label and text",
                       "is the file cut off?");
    const std::string_view label = fields[text_first ? 1 : 0], text = fields[text_first ? 0 : 1];
    const auto value = as_label(label);
    if (!value)
      throw InputError(at_line(path, i), "label '" + std::string(label) + "' is none",
                       "labels are 0 or 1, neg or pos, negative or positive");
    result.push_back({std::to_string(i), std::string(text), *value});
  }
  if (result.empty()) throw InputError(path, "holds no samples");
  return result;
}

Part part_of(const std::string& id) {
  const std::uint64_t tenth = stable_hash(id) % 10;
  return tenth == 0 ? Part::test : tenth == 1 ? Part::validation : Part::train;
}

DataSplit read_rated_folder(const std::string& folder, const std::string& name, const TextLimits& limits) {
  const std::string path = folder + "/movieReviewSnippets_GroundTruth.txt";
  std::map<Part, std::vector<LabelledText>> parts;
  std::set<std::vector<std::string>> seen;
  for (LabelledText& text : read_rated_sentences(path))
    if (seen.insert(words_of(text.text)).second) parts[part_of(text.id)].push_back(std::move(text));
  for (const Part part : {Part::train, Part::test})
    if (parts[part].empty()) throw InputError(path, "has too few sentences to split", "is the file cut off?");
  DataSplit split = encode(parts[Part::train], parts[Part::validation], parts[Part::test], limits);
  split.name = name, split.source = folder;
  return split;
}

DataSplit read_labelled_folder(const std::string& folder, const std::string& name, const TextLimits& limits) {
  const std::string test_path = folder + "/test.tsv", dev_path = folder + "/dev.tsv";
  bool has_test = std::filesystem::exists(test_path);
  const bool has_dev = std::filesystem::exists(dev_path);
  if (has_test && has_dev && read_lines(test_path)[0] == "index\tsentence") has_test = false;
  if (!has_test && !has_dev)
    throw InputError(folder, "holds neither test.tsv nor dev.tsv", "put one into the folder of train.tsv");
  const auto train = read_labelled_lines(folder + "/train.tsv");
  const auto test = read_labelled_lines(has_test ? test_path : dev_path);
  const auto validation = has_test && has_dev ? read_labelled_lines(dev_path) : std::vector<LabelledText>();
  DataSplit split = encode(train, validation, test, limits);
  split.name = name, split.source = folder;
  return split;
}

}  // namespace sluice
