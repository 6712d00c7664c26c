#include "workloads/data/locate.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "harness/core/error.h"
#include "workloads/data/cifar10.h"
#include "workloads/data/idx.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

enum class Format { none, idx, cifar10 };

// One file is enough to tell, so that the reader can name the ones that are missing.
Format format_of(const std::string& folder) {
  for (const char* stem : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    for (const char* ending : {"", ".gz"})
      if (fs::exists(folder + "/" + stem + ending)) return Format::idx;
  for (const char* file : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"})
    if (fs::exists(folder + "/" + file)) return Format::cifar10;
  return Format::none;
}

DataSplit read_folder(const std::string& folder, const std::string& name) {
  switch (format_of(folder)) {
    case Format::idx:
      return read_idx_folder(folder, name);
    case Format::cifar10:
      return read_cifar10_folder(folder);
    case Format::none:
      break;
  }
  throw InputError(folder,
                   "holds neither idx files (train-images-idx3-ubyte[.gz]) nor CIFAR-10 files "
                   "(data_batch_1.bin)",
                   "give the folder that holds the files themselves");
}

}  // namespace

DataSplit load_dataset(const std::string& name_or_folder) {
  if (name_or_folder.find('/') != std::string::npos) {
    if (!fs::is_directory(name_or_folder))
      throw InputError(name_or_folder, "no such folder", "give a folder with the data set's files");
    return read_folder(name_or_folder,
                       fs::canonical(name_or_folder).filename().string());  // "a/b/" is "b"
  }
  const std::vector<std::string> known = {"fashion-mnist", "mnist", "cifar10"};
  if (std::find(known.begin(), known.end(), name_or_folder) == known.end())
    throw InputError("data set", "unknown data set '" + name_or_folder + "'",
                     suggestion(name_or_folder, known));
  std::vector<std::string> places;
  if (const char* data = std::getenv("SLUICE_DATA"))
    places.push_back(std::string(data) + "/" + name_or_folder);
  const char* home = std::getenv("SLUICE_HOME");
  places.push_back(std::string(home ? home : SLUICE_SOURCE_DIR) + "/.data/" + name_or_folder);
  places.push_back("/usr/share/datasets/" + name_or_folder);
  for (const std::string& place : places)  // an empty folder does not hide the next place
    if (format_of(place) != Format::none) return read_folder(place, name_or_folder);
  throw InputError("data set '" + name_or_folder + "'", "is not on this machine",
                   name_or_folder == "fashion-mnist"
                       ? "run workloads/data/fetch (./quickstart does)"
                       : "put its files into $SLUICE_DATA/" + name_or_folder);
}

}  // namespace sluice
