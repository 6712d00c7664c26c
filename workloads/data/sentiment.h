// Sentiment of sentences, two classes (0 negative, 1 positive), from two formats:
//   - movieReviewSnippets_GroundTruth.txt (Hutto and Gilbert, "VADER", ICWSM 2014; MIT licence): id, mean rating from
//     -4 to 4 over twenty people, and a sentence of a review on rottentomatoes.com. The label is the rating's sign; 37
//     of the 10,605 sentences are rated 0 and left out, and of sentences with the same words the first counts. A
//     sentence's id decides where it belongs: hash mod 10 is 0 for test, 1 for validation, others train.
//   - tab-separated files in the form of SST-2 and IMDb: label<TAB>text or, as a header can say, sentence<TAB>label;
//     labels 0 or 1, neg or pos, negative or positive. A folder has train.tsv and test.tsv (then dev.tsv is the
//     validation part, if it is there), or train.tsv and dev.tsv, which then is the test part: the labels of GLUE's
//     test.tsv are secret.
// Words are those of words_of(); the vocabulary is the training part's words that occur twice. Sentences have the
// model's length: longer ones lose their end, shorter ones are padded.
#pragma once

#include <string>
#include <vector>

#include "workloads/data/dataset.h"

namespace sluice {

struct LabelledText {
  std::string id, text;
  int label = 0;
};

// Both throw InputError naming file and line: missing, empty, not UTF-8, a line without its fields, a rating or label
// that is none.
std::vector<LabelledText> read_rated_sentences(const std::string& path);  // those rated 0 left out
std::vector<LabelledText> read_labelled_lines(const std::string& path);

enum class Part { train, validation, test };
Part part_of(const std::string& id);

DataSplit read_rated_folder(const std::string& folder, const std::string& name, const TextLimits& limits);
DataSplit read_labelled_folder(const std::string& folder, const std::string& name, const TextLimits& limits);

}  // namespace sluice
