// The report: a folder with every chart as a specification, SVG, PNG and PDF, and report.html, one interactive page
// that needs neither a network nor any file beside it.
#pragma once

#include <filesystem>
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

// Writes OUT/charts/NAME.{vl.json,svg,png,pdf} and OUT/report.html (whole or not at all; an earlier one stays until
// then). Charts of an earlier report in OUT that this one does not have are removed. Throws InputError if there are no
// records or OUT cannot be written, RunError as render_charts does.
Report write_report(std::span<const Record> records, const std::filesystem::path& out_dir, const Renderer& renderer);

// The page itself; `bundle` is the script that defines vegaEmbed.
std::string report_html(const ChartSet& charts, std::span<const Record> records, const std::string& bundle);

std::string escape_html(const std::string& text);

}  // namespace sluice
