// See renderer.h.
#include "plots/renderer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "harness/base/error.h"
#include "harness/base/read_text.h"
#include "harness/base/run_program.h"
#include "harness/base/split.h"

namespace sluice {

namespace fs = std::filesystem;

std::string read_whole_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<PictureFormat> parse_formats(const std::string& text, const std::string& flag) {
  std::vector<PictureFormat> formats;
  for (const std::string& word : split(text, ",")) {
    const auto format = choice_named<PictureFormat>(word);
    if (!format) throw InputError(flag, "'" + word + "' is no format of a picture", "give some of svg,png,pdf,pgf");
    if (std::ranges::count(formats, *format) == 0) formats.push_back(*format);
  }
  return formats;
}

void render_charts(const Renderer& renderer, const fs::path& charts, const std::vector<PictureFormat>& formats,
                   bool in_points) {
  std::vector<std::string> command = renderer;
  command.push_back(charts.string());
  std::string names = choice_name(PictureFormat::svg);
  for (const PictureFormat format : formats)
    if (format != PictureFormat::svg) names += "," + choice_name(format);
  command.insert(command.end(), {"--formats", names});
  if (in_points) command.emplace_back("--points");
  const ProgramEnd ended =
      renderer.empty() ? ProgramEnd{.error = ENOENT} : run_program(command, {.with_errors = true, .max_output = 2000});
  if (ended.ok()) return;

  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + word;
  const std::string where = "the charts are written as Vega-Lite specs to " + charts.string() + ", but ";
  const std::string python = renderer.empty() ? "python3" : renderer.front();
  // 3: render.py says that its package is missing. 127: what env(1) and shells say for "not found".
  if (ended.error == 0 && ended.code == 3)
    throw RunError(where + "the renderer lacks a package; run: " + python + " -m pip install vl-convert-python");
  if (ended.error != 0 || ended.code == 127)
    throw RunError(
        fmt::format("{}the renderer '{}' cannot be started ({}); run ./quickstart to set it up, or: "
                    "python3 -m pip install vl-convert-python && python3 plots/render.py {}",
                    where, python, errno_text(ended.error ? ended.error : ENOENT), charts.string()));
  throw RunError(fmt::format("{}rendering ended with code {}; run: {}\n{}", where, ended.code, line, ended.output));
}

}  // namespace sluice
