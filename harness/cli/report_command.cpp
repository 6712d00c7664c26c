#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "harness/base/source_folder.h"
#include "harness/cli/commands.h"
#include "harness/cli/read_files.h"
#include "plots/report.h"

namespace sluice {

int report_command(const ReportArguments& a) {
  const std::string home = source_folder();
  const std::string out =
      a.out.empty() ? home + "/plots/out/" + std::filesystem::path(a.files.front()).stem().string() : a.out;
  // The private environment of ./quickstart, or any Python with vl-convert-python.
  const char* chosen = std::getenv("SLUICE_PYTHON");
  const std::string own = home + "/.venv/bin/python";
  const std::string python = chosen ? chosen : std::filesystem::exists(own) ? own : "python3";
  const Report report = write_report(read_files(a.files), out, {python, home + "/plots/render.py"});
  fmt::print("report: {}\npictures: {} charts, each as SVG, PNG and PDF, in {}\n",
             std::filesystem::relative(report.html).string(), report.charts.size(),
             std::filesystem::relative(out).string());
  return 0;
}

}  // namespace sluice
