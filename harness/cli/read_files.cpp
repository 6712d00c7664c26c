#include "harness/cli/read_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/visible_text.h"
#include "results/metrics.h"

namespace sluice {

std::vector<Record> read_files(const std::vector<std::string>& files, RecordUse use) {
  std::vector<Record> records;
  for (const std::string& file : files) {
    StoredRecords stored = read_records(file, use);
    for (const std::string& warning : stored.warnings) fmt::print(stderr, "warning: {}\n", visible(warning));
    if (records.empty())
      records = std::move(stored.records);
    else
      std::ranges::move(stored.records, std::back_inserter(records));
  }
  if (records.empty()) throw InputError(files.front(), "holds no record", "make some with sluice run");
  const std::vector<std::string> repeated = repeated_results(records);
  constexpr std::size_t kShown = 5;
  for (std::size_t k = 0; k < std::min(repeated.size(), kShown); ++k)
    fmt::print(stderr, "warning: {}\n", visible(repeated[k]));
  if (repeated.size() > kShown)
    fmt::print(stderr, "warning: and {} more cases with several results\n", repeated.size() - kShown);
  return latest(std::move(records));
}

}  // namespace sluice
