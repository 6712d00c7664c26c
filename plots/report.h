// The report: a folder with every chart as a specification and a picture, and report.html, one page that needs neither
// a network nor any other file. Scripts draw the timelines, and sort, filter and fold; without scripts the page shows
// everything else.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plots/charts.h"
#include "plots/renderer.h"
#include "results/record.h"

namespace sluice {

struct Report {
  std::filesystem::path html;
  std::vector<std::filesystem::path> charts;  // the .vl.json files
};

// Writes OUT/charts/NAME.{vl.json,svg} with the other requested formats, and OUT/report.html (completely or not at all;
// an earlier one stays until then). An unchanged chart is not drawn again; charts of an earlier report in OUT that this
// one does not have are removed. Throws InputError if there are no records or OUT cannot be written, RunError as
// render_charts does.
Report write_report(std::span<const Record> records, const std::filesystem::path& out_dir, const Renderer& renderer,
                    const std::vector<PictureFormat>& formats = {}, std::vector<ReportPart> parts = {},
                    const std::string& title = "");

// The page. `pictures` are the SVGs by the names of their charts.
std::string report_html(const ChartSet& charts, std::span<const Record> records,
                        const std::map<std::string, std::string>& pictures,
                        const std::vector<PictureFormat>& formats = {});

std::string escape_html(const std::string& text);

}  // namespace sluice
