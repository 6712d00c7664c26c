// Runs the program that draws Vega-Lite specifications: plots/render.py under a Python with vl-convert-python.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/choice.h"
#include "harness/base/output_file.h"

namespace sluice {

// A new folder in `parent`, which is created, for specifications and pictures on their way to their places. A signal
// ends the process with exit code 1 and removes it. Throws InputError for a parent that cannot be created, RunError.
std::filesystem::path new_drawing_folder(const std::filesystem::path& parent);

// A command without its arguments: {python, path of plots/render.py}.
using Renderer = std::vector<std::string>;

// Formats of a chart. SVG is always made: the others are made from it. pgf: for \input in a LaTeX document, whose font
// it takes.
enum class PictureFormat { svg, png, pdf, pgf };
template <>
struct Choices<PictureFormat> {
  static constexpr Choice<PictureFormat> all[] = {{PictureFormat::svg, "svg"},
                                                  {PictureFormat::png, "png"},
                                                  {PictureFormat::pdf, "pdf"},
                                                  {PictureFormat::pgf, "pgf"}};
};
// "svg,png" -> both. Throws InputError.
std::vector<PictureFormat> parse_formats(const std::string& text, const std::string& flag = "--formats");

// A picture, or a chart's specification, at `path`, which may replace only one of its format.
OutputFile picture_output(const std::filesystem::path& path, PictureFormat format);
OutputFile specification_output(const std::filesystem::path& path);
bool is_specification(const std::string& text);

// Makes NAME.svg, and the other `formats`, for every NAME.vl.json of the folder, in it: in parallel, and only if it has
// changed since it was drawn. Throws RunError if the renderer is missing or fails, with the command that helps.
// in_points: a unit of the specifications is a point, so an SVG states its size and a PNG has 300 pixels per inch.
void render_charts(const Renderer& renderer, const std::filesystem::path& folder,
                   const std::vector<PictureFormat>& formats = {}, bool in_points = false);

std::string read_whole_file(const std::filesystem::path& path);  // "" if it cannot be read

}  // namespace sluice
