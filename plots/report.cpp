// See report.h.
#include "plots/report.h"

#include <system_error>

#include "harness/base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Charts of an earlier report would be rendered again and stand beside the new ones.
void remove_charts(const fs::path& folder) {
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".vl.json")) old.push_back(folder / name.substr(0, name.size() - 8));
  }
  for (const fs::path& stem : old)
    for (const char* ending : {".vl.json", ".svg", ".png", ".pdf"}) fs::remove(stem.string() + ending);
}

std::vector<Chart> all_charts(const ChartSet& set) {
  std::vector<Chart> charts = set.overview;
  for (const ChartSection& section : set.sections)
    charts.insert(charts.end(), section.charts.begin(), section.charts.end());
  charts.insert(charts.end(), set.boundary_charts.begin(), set.boundary_charts.end());
  return charts;
}

}  // namespace

Report write_report(std::span<const Record> records, const fs::path& out_dir, const Renderer& renderer) {
  if (records.empty()) throw InputError("", "no records to report on", "run a sweep first");
  const fs::path folder = out_dir / "charts";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw InputError(out_dir.string(), "cannot create the folder: " + error.message(),
                     "choose another place with --out");
  const ChartSet charts = make_charts(records);
  Report report{out_dir / "report.html", {}};
  const fs::path bundle = folder / ".vega.js";
  try {
    remove_charts(folder);
    for (const Chart& chart : all_charts(charts)) {
      report.charts.push_back(folder / (chart.name + ".vl.json"));
      write_whole_file(report.charts.back(),
                       chart.spec.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    }
    render_charts(renderer, folder, bundle);
    const std::string script = read_whole_file(bundle);
    fs::remove(bundle);
    write_whole_file(report.html, report_html(charts, records, script));
  } catch (const fs::filesystem_error& failure) {
    throw RunError(std::string("the report cannot be written: ") + failure.what());
  }
  return report;
}

}  // namespace sluice
