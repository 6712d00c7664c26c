#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "harness/base/passing_folder.h"
#include "harness/base/read_text.h"
#include "harness/base/source_folder.h"
#include "harness/base/visible_text.h"
#include "harness/cli/commands.h"
#include "harness/cli/find_renderer.h"
#include "harness/cli/read_files.h"
#include "harness/pipeline/system.h"
#include "plots/charts.h"
#include "plots/figure.h"
#include "plots/renderer.h"
#include "results/record_filter.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// "3.3in" in points. Throws InputError.
double length_of(const std::string& text, const std::string& flag) {
  static const std::map<std::string_view, double> units = {
      {"in", 72}, {"cm", 72 / 2.54}, {"mm", 7.2 / 2.54}, {"pt", 1}};
  std::string_view unit = text;
  const std::optional<double> value = take_number(unit);
  const auto found = units.find(unit);
  const double points = value && found != units.end() ? *value * found->second : 0;
  constexpr double least = 36, most = 14400;  // half an inch, 200 inches: a PDF's largest page
  if (points < least || points > most)
    throw InputError(flag, "'" + text + "' is no length from 0.5in to 200in", "write 3.3in, 84mm, 8.4cm or 240pt");
  return points;
}

// "gpipe=GPipe [12],one_f_one_b variant=h1=ours": each at its last '='. Throws InputError.
std::map<std::string, std::string> names_of(const std::vector<std::string>& words) {
  std::map<std::string, std::string> names;
  for (const std::string& word : words) {
    const std::size_t equals = word.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
      throw InputError("--names", "'" + word + "' renames nothing", "write SYSTEM=TEXT, as in one_f_one_b=1F1B");
    std::string key = word.substr(0, equals);
    if (const System* system = system_called(key)) key = system->name;
    names[key] = word.substr(equals + 1);
  }
  return names;
}

}  // namespace

int figure_command(const FigureArguments& a) {
  if (std::ranges::count(kFigureKinds, a.kind) == 0)
    throw InputError("figure", "unknown kind '" + a.kind + "'", suggestion(a.kind, kFigureKinds));
  if (std::ranges::count(kFigureOrders, a.order) == 0)
    throw InputError("--order", "unknown order '" + a.order + "'", suggestion(a.order, kFigureOrders));
  if (a.order == "given" && a.systems.empty())
    throw InputError("--order", "'given' is the order of --systems, which is not given", "add --systems a,b");
  if (!(a.font_size >= 4 && a.font_size <= 72))
    throw InputError("--font-size", fmt::format("is {:g} points", a.font_size), "give 4 to 72");
  FigureOptions options{.kind = a.kind,
                        .width = length_of(a.width, "--width"),
                        .height = a.height.empty() ? 0 : length_of(a.height, "--height"),
                        .font_size = a.font_size,
                        .title = a.title == "none" ? "" : a.title,
                        .order = a.order,
                        .names = names_of(a.names),
                        .clusters = source_folder() + "/workloads/clusters"};
  const std::vector<PictureFormat> formats = parse_formats(a.format, "--format");
  const std::vector<Record> records = filtered(read_files(a.files), a.filter);
  for (const std::string& system : a.systems)
    options.systems.push_back(std::ranges::count(records, system, &Record::system) > 0
                                  ? system  // also one of another program
                                  : find_system(system, "--systems").name);
  const Json spec = figure_spec(records, options);

  const fs::path out = a.out.empty() ? "." : a.out;
  const PassingFolder drawing(new_drawing_folder(out));
  std::vector<OutputFile> pictures;  // all are checked before the first is drawn
  const auto name_of = [&](PictureFormat format) { return a.kind + "." + choice_name(format); };
  for (const PictureFormat format : formats) pictures.push_back(picture_output(out / name_of(format), format));
  write_text(drawing.path / (a.kind + ".vl.json"), spec_text(spec));
  render_charts(find_renderer(), drawing.path, formats, /*in_points=*/true);
  for (std::size_t i = 0; i < formats.size(); ++i) {
    pictures[i].write(read_whole_file(drawing.path / name_of(formats[i])));
    fmt::print("figure: {}\n", visible((out / name_of(formats[i])).string()));
  }
  return 0;
}

}  // namespace sluice
