// Finding a data set: by name in $SLUICE_DATA, in .data/ of the checkout and in the system's
// folder, or by path.
#pragma once

#include <string>

#include "workloads/data/dataset.h"

namespace sluice {

// "fashion-mnist", "mnist", "cifar10", or a folder that holds idx or CIFAR-10 files. Throws
// InputError.
DataSplit load_dataset(const std::string& name_or_folder);

}  // namespace sluice
