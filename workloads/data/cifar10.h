// CIFAR-10, binary version (https://www.cs.toronto.edu/~kriz/cifar.html): data_batch_1.bin .. _5.bin and test_batch.bin
// of 10,000 records each: one label byte, then 3 x 32 x 32 pixels, channel-major.
#pragma once

#include <string>

#include "workloads/data/dataset.h"

namespace sluice {

// Throws InputError naming the file: missing, not a whole number of records, empty, a label above 9.
DataSplit read_cifar10_folder(const std::string& folder);

}  // namespace sluice
