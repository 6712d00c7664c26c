// Running text for language models: at every position the next token is predicted. From two formats:
//   - a dictionary as dictd keeps it: NAME.index and NAME.dict, NAME.dict.dz or NAME.dict.gz. Every entry is a text;
//     entries about the file itself (00-database...) are left out, and several headwords of one entry count once. The
//     first headword of an entry decides where it belongs: hash mod 10 is 0 for test, 1 for validation, others train,
//     so that no entry is in two parts.
//   - plain text: train.txt and test.txt, optionally dev.txt (the validation part); empty lines separate the texts.
// The tokens are byte pairs (bpe.h) of the words of words_of(), learned on the training part. The texts of a part, each
// followed by </s>, make one row of tokens, which is cut into samples of the model's length without overlap: inputs
// are tokens i L .. i L + L - 1, targets those from i L + 1 to i L + L. What is left at the end is no sample.
#pragma once

#include <string>
#include <vector>

#include "workloads/data/dataset.h"

namespace sluice {

struct DictionaryEntry {
  std::string headword;  // the first of its headwords, by bytes
  std::string text;
};
// In the order of the text. Throws InputError naming the index and its line: not three fields, an invalid number, an
// entry beyond the end of the text; also if there is no entry, or a text is not UTF-8.
std::vector<DictionaryEntry> read_dictionary(const std::string& index, const std::string& text);

// Texts between empty lines. Throws InputError as read_lines does.
std::vector<std::string> read_paragraphs(const std::string& path);

struct RunningText {
  std::vector<std::string> train, validation, test;
};
// Throws InputError naming `where` if the training or the test part has too few tokens for a sample.
DataSplit encode_running_text(const RunningText& parts, const TextLimits& limits, const std::string& where);

DataSplit read_dictionary_folder(const std::string& folder, const std::string& name, const TextLimits& limits);
DataSplit read_plain_text_folder(const std::string& folder, const std::string& name, const TextLimits& limits);

}  // namespace sluice
