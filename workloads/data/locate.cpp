#include "workloads/data/locate.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "workloads/data/cifar10.h"
#include "workloads/data/idx.h"
#include "workloads/data/language.h"
#include "workloads/data/sentiment.h"
#include "workloads/data/translation.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

enum class Format { none, idx, cifar10, rated, labelled, catalogues, parallel, dictionary, plain };

bool is_text(Format format) { return format >= Format::rated; }

// What a text is there for, in words that follow "holds" and "the model".
struct TextUse {
  const char *held, *read;
};
constexpr TextUse kClassified{"labelled texts", "classifies texts"}, kTranslated{"translations", "translates"},
    kContinued{"running text", "predicts the next token"};

const TextUse& use_of(Format format) {
  const bool translation = format == Format::catalogues || format == Format::parallel;
  const bool running = format == Format::dictionary || format == Format::plain;
  return translation ? kTranslated : running ? kContinued : kClassified;
}

const TextUse& use_of(const TextLimits& limits) {
  return limits.target_length > 0 ? kTranslated : limits.predicts_next ? kContinued : kClassified;
}

// One file is enough to tell, so that the reader can name the ones that are missing.
Format format_of(const std::string& folder) {
  for (const char* stem :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    for (const char* ending : {"", ".gz"})
      if (fs::exists(folder + "/" + stem + ending)) return Format::idx;
  for (const char* file : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"})
    if (fs::exists(folder + "/" + file)) return Format::cifar10;
  if (fs::exists(folder + "/movieReviewSnippets_GroundTruth.txt")) return Format::rated;
  for (const char* file : {"train.tsv", "dev.tsv", "test.tsv"})
    if (fs::exists(folder + "/" + file)) return Format::labelled;
  for (const char* file : {"train.txt", "test.txt"})
    if (fs::exists(folder + "/" + file)) return Format::plain;
  if (fs::is_directory(folder))
    for (const auto& file : fs::directory_iterator(folder)) {
      if (file.path().extension() == ".mo") return Format::catalogues;
      if (file.path().extension() == ".index") return Format::dictionary;
      if (file.path().stem() == "train" || file.path().stem() == "test") return Format::parallel;
    }
  return Format::none;
}

DataSplit read_folder(const std::string& folder, const std::string& name, const TextLimits& limits) {
  const Format format = format_of(folder);
  if (format != Format::none && is_text(format) != (limits.source_length > 0))
    throw InputError(folder,
                     is_text(format) ? "holds text, the model reads images" : "holds images, the model reads text");
  if (is_text(format) && &use_of(format) != &use_of(limits))
    throw InputError(folder, std::string("holds ") + use_of(format).held + ", the model " + use_of(limits).read);
  switch (format) {
    case Format::idx:
      return read_idx_folder(folder, name);
    case Format::cifar10:
      return read_cifar10_folder(folder);
    case Format::rated:
      return read_rated_folder(folder, name, limits);
    case Format::labelled:
      return read_labelled_folder(folder, name, limits);
    case Format::catalogues:
      return read_catalogue_folder(folder, name, limits);
    case Format::parallel:
      return read_parallel_folder(folder, name, limits);
    case Format::dictionary:
      return read_dictionary_folder(folder, name, limits);
    case Format::plain:
      return read_plain_text_folder(folder, name, limits);
    case Format::none:
      break;
  }
  throw InputError(folder,
                   "holds neither idx files (train-images-idx3-ubyte[.gz]) nor CIFAR-10 files "
                   "(data_batch_1.bin) nor text (train.tsv, train.en and train.de, train.txt, *.mo, *.index)",
                   "give the folder that holds the files themselves");
}

}  // namespace

DataSplit load_dataset(const std::string& name_or_folder, const TextLimits& limits) {
  if (name_or_folder.find('/') != std::string::npos) {
    if (!fs::is_directory(name_or_folder))
      throw InputError(name_or_folder, "no such folder", "give a folder with the data set's files");
    return read_folder(name_or_folder,
                       fs::canonical(name_or_folder).filename().string(),  // "a/b/" is "b"
                       limits);
  }
  const std::vector<std::string> fetched = {"fashion-mnist", "movie-reviews", "libreoffice-de", "jargon-file"};
  std::vector<std::string> known = {"mnist", "cifar10", "sst2", "imdb", "parallel-text", "plain-text"};
  known.insert(known.begin(), fetched.begin(), fetched.end());
  if (std::find(known.begin(), known.end(), name_or_folder) == known.end())
    throw InputError("data set", "unknown data set '" + name_or_folder + "'", suggestion(name_or_folder, known));
  std::vector<std::string> places;
  if (const char* data = std::getenv("SLUICE_DATA")) places.push_back(std::string(data) + "/" + name_or_folder);
  places.push_back(source_folder() + "/.data/" + name_or_folder);
  places.push_back("/usr/share/datasets/" + name_or_folder);
  for (const std::string& place : places)  // an empty folder does not hide the next place
    if (format_of(place) != Format::none) return read_folder(place, name_or_folder, limits);
  throw InputError("data set '" + name_or_folder + "'", "is not on this machine",
                   std::ranges::count(fetched, name_or_folder) > 0
                       ? "run workloads/data/fetch " + name_or_folder + " (./quickstart does)"
                       : "put its files into $SLUICE_DATA/" + name_or_folder);
}

}  // namespace sluice
