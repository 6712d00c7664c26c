// See renderer.h.
#include "plots/renderer.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "harness/base/error.h"
#include "harness/base/read_text.h"
#include "harness/base/run_program.h"
#include "harness/base/split.h"
#include "harness/base/stop.h"

namespace sluice {

namespace fs = std::filesystem;

std::string read_whole_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path new_drawing_folder(const fs::path& parent) {
  std::error_code failure;
  fs::create_directories(parent, failure);
  if (failure) throw InputError(parent.string(), "cannot be made: " + failure.message(), "choose another folder");
  std::string name = (parent / ".drawing-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw RunError(name + ": cannot be made: " + errno_text(errno));
  set_scratch_folder(name);
  handle_signals();
  end_after_signal(Seconds(0), "interrupted");
  return name;
}

OutputFile picture_output(const fs::path& path, PictureFormat format) {
  using Text = const std::string&;
  switch (format) {
    case PictureFormat::png:
      return {path, "a PNG", [](Text text) { return text.starts_with("\x89PNG"); }};
    case PictureFormat::pdf:
      return {path, "a PDF", [](Text text) { return text.starts_with("%PDF"); }};
    case PictureFormat::pgf:
      return {path, "a figure of sluice", [](Text text) { return text.starts_with("% Drawn by sluice"); }};
    default:
      return {path, "an SVG", [](Text text) { return text.starts_with("<svg") || text.starts_with("<?xml"); }};
  }
}

bool is_specification(const std::string& text) { return text.starts_with("{\n \"$schema\""); }

OutputFile specification_output(const fs::path& path) { return {path, "a chart's specification", is_specification}; }

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

  const std::string where = "the charts cannot be drawn: ";
  const std::string python = renderer.empty() ? "python3" : renderer.front();
  // 3: render.py says that its package is missing. 127: what env(1) and shells say for "not found".
  if (ended.error == 0 && ended.code == 3)
    throw RunError(where + "the renderer lacks a package; run: " + python + " -m pip install vl-convert-python");
  if (ended.error != 0 || ended.code == 127)
    throw RunError(
        fmt::format("{}the renderer '{}' cannot be started ({}); run ./quickstart to set it up, or: "
                    "python3 -m pip install vl-convert-python",
                    where, python, errno_text(ended.error ? ended.error : ENOENT)));
  if (ended.code > 128 || ended.code == 4)  // it, or a process of it; what it printed is for its authors
    throw RunError(where + "the renderer crashed: out of memory (ulimit -v), or a defect of vl-convert");
  throw RunError(fmt::format("{}the renderer ended with code {}: {}", where, ended.code, ended.output));
}

}  // namespace sluice
