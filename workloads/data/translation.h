// Translation of short texts, from two formats:
//   - gettext catalogues (.mo) of a program's user interface, English to another language. Texts are cleaned as
//     clean_ui_text() says; an entry whose source or target has no word left is dropped, plural entries give their
//     first two forms, and of several translations of one source the first counts. Split by catalogue: sd.mo
//     (presentations) is the test part, chart.mo and sfx.mo are the validation part, all others train; sources of the
//     test part are taken out of the two others, sources of the validation part out of training.
//   - parallel text, line by line: train.X and train.Y, test.X and test.Y, optionally dev.X and dev.Y. X and Y are file
//     name endings such as en and de; "source", "src" or, failing these, "en" is the source.
// Both languages share one byte-pair vocabulary, learned on the training part. Pairs that are longer than the model's
// limits are left out of every part (a UI text is a few words; cut off it would not be a translation). Model inputs:
// the source and </s>; <s> and the target. Targets: the target and </s>.
#pragma once

#include <string>
#include <vector>

#include "workloads/data/dataset.h"

namespace sluice {

struct TextPair {
  std::string source, target;
};

// For a catalogue: texts cleaned, pairs with an empty text dropped, duplicates kept.
std::vector<TextPair> read_catalogue_pairs(const std::string& path);
// Throws InputError naming both files if they differ in their number of lines.
std::vector<TextPair> read_parallel_lines(const std::string& source, const std::string& target);

struct TextPairs {
  std::vector<TextPair> train, validation, test;
};
// For the folder's .mo files: split, without duplicates. Throws InputError if a part is empty.
TextPairs split_catalogues(const std::string& folder);

DataSplit read_catalogue_folder(const std::string& folder, const std::string& name, const TextLimits& limits);
DataSplit read_parallel_folder(const std::string& folder, const std::string& name, const TextLimits& limits);

}  // namespace sluice
