// The idx format of MNIST and Fashion-MNIST (http://yann.lecun.com/exdb/mnist/): big-endian magic 0x00000803 (images:
// count, rows, columns, bytes) or 0x00000801 (labels: count, bytes). Plain or gzip.
#pragma once

#include <string>

#include "workloads/data/dataset.h"

namespace sluice {

// Throws InputError naming the file: missing, cut off, bytes left over, wrong magic, counts that differ between images
// and labels, a label of `classes` or more, no samples.
Dataset read_idx(const std::string& images, const std::string& labels, int classes);

// A folder with train-images-idx3-ubyte[.gz], train-labels-..., t10k-images-..., t10k-labels-...
DataSplit read_idx_folder(const std::string& folder, const std::string& name);

}  // namespace sluice
