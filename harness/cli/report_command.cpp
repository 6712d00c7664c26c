#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "harness/cli/commands.h"
#include "harness/cli/read_files.h"
#include "plots/findings.h"
#include "plots/report.h"
#include "results/reference.h"

namespace sluice {
namespace {

// The private environment of ./quickstart, or any Python with vl-convert-python.
Renderer find_renderer() {
  const std::string home = source_folder();
  const char* chosen = std::getenv("SLUICE_PYTHON");
  const std::string own = home + "/.venv/bin/python";
  const std::string python = chosen ? chosen : std::filesystem::exists(own) ? own : "python3";
  return {python, home + "/plots/render.py"};
}

int write_pages(const ReportArguments& a) {
  std::vector<std::filesystem::path> studies;
  std::vector<std::string> record_files;
  for (const std::string& file : a.files) {
    if (file.ends_with(".jsonl")) {
      record_files.push_back(file);
    } else {
      studies.emplace_back(file);
    }
  }
  if (studies.empty()) throw InputError("report --markdown", "no study given", "name results/reference/NAME.json");
  if (!record_files.empty()) {
    if (studies.size() > 1) throw InputError("report --markdown", "records of which study?", "name one study");
    const Study study = read_study(studies.front());
    write_reference(study.records, read_files(record_files), fmt::format("{}", fmt::join(study.commands, "; ")));
  }
  const std::string out = a.out.empty() ? source_folder() + "/results/findings" : a.out;
  for (const std::filesystem::path& page : write_findings(studies, out, find_renderer()))
    fmt::print("page: {}\n", std::filesystem::relative(page).string());
  return 0;
}

}  // namespace

int report_command(const ReportArguments& a) {
  if (a.markdown) return write_pages(a);
  const std::string out =
      a.out.empty() ? source_folder() + "/plots/out/" + std::filesystem::path(a.files.front()).stem().string() : a.out;
  const Report report = write_report(read_files(a.files), out, find_renderer());
  fmt::print("report: {}\npictures: {} charts, each as SVG, PNG and PDF, in {}\n",
             std::filesystem::relative(report.html).string(), report.charts.size(),
             std::filesystem::relative(out).string());
  return 0;
}

}  // namespace sluice
