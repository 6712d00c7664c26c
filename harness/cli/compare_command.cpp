#include <fmt/format.h>

#include "harness/cli/commands.h"
#include "harness/cli/read_files.h"
#include "harness/core/system.h"
#include "results/compare.h"

namespace sluice {

int compare_command(const CompareArguments& a) {
  CompareOptions options;
  options.metric = parse_compare_metric(a.metric);
  if (!a.baseline.empty()) options.baseline = find_system(a.baseline, "--baseline").name;
  const std::vector<Comparison> comparisons = compare(read_files(a.files), options);
  fmt::print("{}\n", a.json ? to_json(comparisons).dump(2) : to_table(comparisons, options));
  return 0;
}

}  // namespace sluice
