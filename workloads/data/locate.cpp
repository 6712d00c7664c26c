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

static DataSplit read_folder(const std::string& folder, const std::string& name) {
  if (fs::exists(folder + "/data_batch_1.bin")) return read_cifar10_folder(folder);
  for (const char* ending : {"", ".gz"})
    if (fs::exists(folder + "/train-images-idx3-ubyte" + ending))
      return read_idx_folder(folder, name);
  throw InputError(folder,
                   "holds neither idx files (train-images-idx3-ubyte[.gz]) nor CIFAR-10 files "
                   "(data_batch_1.bin)",
                   "give the folder that holds the files themselves");
}

DataSplit load_dataset(const std::string& name_or_folder) {
  if (name_or_folder.find('/') != std::string::npos) {
    if (!fs::is_directory(name_or_folder))
      throw InputError(name_or_folder, "no such folder", "give a folder with the data set's files");
    return read_folder(name_or_folder, fs::path(name_or_folder).filename().string());
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
  for (const std::string& place : places)
    if (fs::is_directory(place)) return read_folder(place, name_or_folder);
  throw InputError("data set '" + name_or_folder + "'", "is not on this machine",
                   name_or_folder == "fashion-mnist"
                       ? "run workloads/data/fetch (./quickstart does)"
                       : "put its files into $SLUICE_DATA/" + name_or_folder);
}

}  // namespace sluice
