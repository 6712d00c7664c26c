#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/cli/commands.h"
#include "harness/cli/read_files.h"
#include "results/export.h"
#include "results/record_filter.h"

namespace sluice {

int export_command(const ExportArguments& a) {
  const std::vector<std::string> formats = {"csv", "jsonl"};
  if (a.format != "csv" && a.format != "jsonl")
    throw InputError("--format", "unknown format '" + a.format + "'", suggestion(a.format, formats));
  if (a.curves && a.ranks)
    throw InputError("--per-rank", "goes with the runs, not with their curves", "give one of them");
  const std::vector<Record> records = filtered(read_files(a.files), a.filter);
  const FlatTable table = a.curves ? curves_table(records) : a.ranks ? ranks_table(records) : records_table(records);
  fmt::print("{}", a.format == "csv" ? to_csv(table) : to_json_lines(table));
  return 0;
}

}  // namespace sluice
