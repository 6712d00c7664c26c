// The records of several files, with warnings (torn lines) on stderr.
#pragma once

#include <string>
#include <vector>

#include "results/record.h"
#include "results/store.h"

namespace sluice {

// Throws InputError; also if there is no record.
std::vector<Record> read_files(const std::vector<std::string>& files, RecordUse use = RecordUse::all);

}  // namespace sluice
