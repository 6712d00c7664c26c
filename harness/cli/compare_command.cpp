#include <fmt/format.h>

#include "harness/cli/commands.h"
#include "harness/cli/read_files.h"
#include "harness/pipeline/system.h"
#include "results/compare.h"
#include "results/stability.h"

namespace sluice {

int compare_command(const CompareArguments& a) {
  CompareOptions options;
  if (a.metric != kStableRateMetric) options.metric = parse_compare_metric(a.metric);
  if (!a.baseline.empty()) options.baseline = find_system(a.baseline, "--baseline").name;
  const std::vector<Record> records = read_files(a.files);
  if (a.metric == kStableRateMetric) {
    const std::vector<StableRates> boundaries = stable_rates(records);
    fmt::print("{}\n", a.json ? to_json(boundaries).dump(2) : to_table(boundaries));
    return 0;
  }
  const std::vector<Comparison> comparisons = compare(records, options);
  fmt::print("{}\n", a.json ? to_json(comparisons).dump(2) : to_table(comparisons, options));
  if (!a.json && !stable_rates(records).empty())
    fmt::print("divergence boundaries are in these records: --metric {}\n", kStableRateMetric);
  return 0;
}

}  // namespace sluice
