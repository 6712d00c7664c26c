// The records of several files, with warnings (torn lines) on stderr.
#pragma once

#include <string>
#include <vector>

#include "results/record.h"

namespace sluice {

std::vector<Record> read_files(const std::vector<std::string>& files);  // throws InputError; also if there is no record

}  // namespace sluice
