// Runs the program that draws Vega-Lite specifications: plots/render.py under a Python with vl-convert-python.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

// A command without its arguments: {python, path of plots/render.py}.
using Renderer = std::vector<std::string>;

// Makes NAME.svg, NAME.png and NAME.pdf beside every NAME.vl.json of the folder; `bundle`, if not empty, is a file to
// write the script that defines vegaEmbed to. Throws RunError if the renderer is missing or fails, with the command
// that helps.
void render_charts(const Renderer& renderer, const std::filesystem::path& folder, const std::filesystem::path& bundle);

// Whole or not at all. Throws RunError if it cannot be written.
void write_whole_file(const std::filesystem::path& path, const std::string& content);
std::string read_whole_file(const std::filesystem::path& path);  // "" if it cannot be read

}  // namespace sluice
