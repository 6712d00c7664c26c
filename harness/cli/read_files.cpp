#include "harness/cli/read_files.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "results/metrics.h"
#include "results/store.h"

namespace sluice {

std::vector<Record> read_files(const std::vector<std::string>& files) {
  std::vector<Record> records;
  for (const std::string& file : files) {
    StoredRecords stored = read_records(file);
    for (const std::string& warning : stored.warnings) fmt::print(stderr, "warning: {}\n", warning);
    records.insert(records.end(), stored.records.begin(), stored.records.end());
  }
  if (records.empty())
    throw InputError(files.front(), "holds no record", "make some with sluice run");
  return latest(records);
}

}  // namespace sluice
