// See report.h.
#include "plots/report.h"

#include <map>
#include <set>
#include <system_error>

#include "harness/base/error.h"
#include "harness/base/output_file.h"
#include "harness/base/read_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Charts of an earlier report that are not in this one would stay among the new ones.
void remove_other_charts(const fs::path& folder, const std::set<std::string>& names) {
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(".vl.json")) continue;
    const std::string name = file.substr(0, file.size() - 8);
    if (!names.contains(name) && is_specification(read_whole_file(entry.path()))) old.push_back(folder / name);
  }
  for (const fs::path& stem : old)
    for (const char* ending : {".vl.json", ".svg", ".png", ".pdf"}) fs::remove(stem.string() + ending);
}

std::vector<Chart> all_charts(const ChartSet& set) {
  std::vector<Chart> charts = set.overview;
  for (const ChartSection& section : set.sections)
    charts.insert(charts.end(), section.charts.begin(), section.charts.end());
  charts.insert(charts.end(), set.boundary_charts.begin(), set.boundary_charts.end());
  for (const ReportPart& part : set.parts) charts.insert(charts.end(), part.charts.begin(), part.charts.end());
  return charts;
}

}  // namespace

Report write_report(std::span<const Record> records, const fs::path& out_dir, const Renderer& renderer,
                    const std::vector<PictureFormat>& formats, std::vector<ReportPart> parts,
                    const std::string& title) {
  if (records.empty()) throw InputError("", "no records to report on", "run a sweep first");
  const auto make_folder = [&](const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
      throw InputError(out_dir.string(), "cannot create the folder: " + error.message(),
                       "choose another place with --out");
  };
  make_folder(out_dir);
  const OutputFile page(out_dir / "report.html", "a page of sluice report",
                        [](const std::string& text) { return text.find("Sluice report</title>") != text.npos; });
  const fs::path folder = out_dir / "charts";
  make_folder(folder);
  ChartSet set = make_charts(records);
  set.parts = std::move(parts);
  set.title = title;
  const std::vector<Chart> charts = all_charts(set);
  Report report{out_dir / "report.html", {}};
  try {
    std::set<std::string> names;
    for (const Chart& chart : charts) names.insert(chart.name);
    std::vector<OutputFile> specifications;  // with the pictures, all are checked before anything is written
    for (const Chart& chart : charts) {
      report.charts.push_back(folder / (chart.name + ".vl.json"));
      specifications.push_back(specification_output(report.charts.back()));
      picture_output(folder / (chart.name + ".svg"), PictureFormat::svg);
      for (const PictureFormat format : formats)
        picture_output(folder / (chart.name + "." + choice_name(format)), format);
    }
    remove_other_charts(folder, names);
    for (std::size_t i = 0; i < charts.size(); ++i) specifications[i].write(spec_text(charts[i].spec));
    render_charts(renderer, folder, formats);
    std::map<std::string, std::string> pictures;
    for (const std::string& name : names) pictures[name] = read_whole_file(folder / (name + ".svg"));
    page.write(report_html(set, records, pictures, formats));
  } catch (const fs::filesystem_error& failure) {
    throw RunError(std::string("the report cannot be written: ") + failure.what());
  }
  return report;
}

}  // namespace sluice
