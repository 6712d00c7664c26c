// Finding a data set: by name in $SLUICE_DATA, in .data/ of the checkout and in the system's folder, or by path.
#pragma once

#include <string>

#include "workloads/data/dataset.h"

namespace sluice {

// A name, or a folder with files of one of the formats: "fashion-mnist", "mnist" (idx), "cifar10", "movie-reviews",
// "sst2", "imdb" (sentences with labels), "libreoffice-de", "parallel-text" (translation), "jargon-file", "plain-text"
// (running text). `limits`: of the model; only text needs them. Throws InputError.
DataSplit load_dataset(const std::string& name_or_folder, const TextLimits& limits = {});

}  // namespace sluice
