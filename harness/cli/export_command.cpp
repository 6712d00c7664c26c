#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/cli/commands.h"
#include "harness/cli/read_files.h"
#include "results/export.h"

namespace sluice {

int export_command(const ExportArguments& a) {
  if (a.format != "csv") throw InputError("--format", "unknown format '" + a.format + "'", "known: csv");
  const std::vector<Record> records = read_files(a.files);
  fmt::print("{}", a.curves ? curves_csv(records) : records_csv(records));
  return 0;
}

}  // namespace sluice
