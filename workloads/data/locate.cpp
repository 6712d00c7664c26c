#include "workloads/data/locate.h"

#include <sluice_build.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "harness/base/error.h"
#include "workloads/data/cifar10.h"
#include "workloads/data/idx.h"
#include "workloads/data/sentiment.h"
#include "workloads/data/translation.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

enum class Format { none, idx, cifar10, rated, labelled, catalogues, parallel };

bool is_text(Format format) { return format >= Format::rated; }
bool is_translation(Format format) { return format >= Format::catalogues; }

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
  if (fs::is_directory(folder))
    for (const auto& file : fs::directory_iterator(folder)) {
      if (file.path().extension() == ".mo") return Format::catalogues;
      if (file.path().stem() == "train" || file.path().stem() == "test") return Format::parallel;
    }
  return Format::none;
}

DataSplit read_folder(const std::string& folder, const std::string& name, const TextLimits& limits) {
  const Format format = format_of(folder);
  if (format != Format::none && is_text(format) != (limits.source_length > 0))
    throw InputError(folder,
                     is_text(format) ? "holds text, the model reads images" : "holds images, the model reads text");
  if (is_text(format) && is_translation(format) != (limits.target_length > 0))
    throw InputError(folder, is_translation(format) ? "holds translations, the model classifies texts"
                                                    : "holds labelled texts, the model translates");
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
    case Format::none:
      break;
  }
  throw InputError(folder,
                   "holds neither idx files (train-images-idx3-ubyte[.gz]) nor CIFAR-10 files "
                   "(data_batch_1.bin) nor text (train.tsv, train.en and train.de, *.mo)",
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
  const std::vector<std::string> known = {"fashion-mnist", "mnist", "cifar10",        "movie-reviews",
                                          "sst2",          "imdb",  "libreoffice-de", "parallel-text"};
  if (std::find(known.begin(), known.end(), name_or_folder) == known.end())
    throw InputError("data set", "unknown data set '" + name_or_folder + "'", suggestion(name_or_folder, known));
  std::vector<std::string> places;
  if (const char* data = std::getenv("SLUICE_DATA")) places.push_back(std::string(data) + "/" + name_or_folder);
  const char* home = std::getenv("SLUICE_HOME");
  places.push_back(std::string(home ? home : SLUICE_SOURCE_DIR) + "/.data/" + name_or_folder);
  places.push_back("/usr/share/datasets/" + name_or_folder);
  for (const std::string& place : places)  // an empty folder does not hide the next place
    if (format_of(place) != Format::none) return read_folder(place, name_or_folder, limits);
  throw InputError(
      "data set '" + name_or_folder + "'", "is not on this machine",
      name_or_folder == "fashion-mnist" || name_or_folder == "movie-reviews" || name_or_folder == "libreoffice-de"
          ? "run workloads/data/fetch " + name_or_folder + " (./quickstart does)"
          : "put its files into $SLUICE_DATA/" + name_or_folder);
}

}  // namespace sluice
