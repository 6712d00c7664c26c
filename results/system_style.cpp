// See system_style.h.
#include "results/system_style.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/source_folder.h"
#include "harness/pipeline/system.h"

namespace sluice {
namespace {

bool is_color(const std::string& text) {
  return text.size() == 7 && text[0] == '#' && text.find_first_not_of("0123456789abcdef", 1) == std::string::npos;
}

void read_styles(const std::string& file, std::map<std::string, SystemStyle>& styles) {
  const Json json = parse_json_file(file);
  JsonReader rows(json, file);
  for (const std::string& system : rows.keys()) {
    JsonReader row = rows.object(system);
    SystemStyle style{row.text("title"), row.text("color"), row.text("marker"), row.numbers("dash", 0, 100)};
    if (!is_color(style.color))
      throw InputError(row.where("color"), "'" + style.color + "' is no colour", "write #rrggbb in lower case");
    if (std::ranges::count(kMarkers, style.marker) == 0)
      throw InputError(row.where("marker"), "unknown marker '" + style.marker + "'",
                       suggestion(style.marker, kMarkers));
    if (style.dash.size() % 2 != 0)
      throw InputError(row.where("dash"), "has an odd number of lengths", "write line and gap in turn");
    row.no_other_keys();
    styles.emplace(system, std::move(style));
  }
}

}  // namespace

const std::map<std::string, SystemStyle>& system_styles() {
  static const std::map<std::string, SystemStyle> styles = [] {
    std::map<std::string, SystemStyle> all;
    std::vector<std::string> folders = extra_system_folders();
    folders.insert(folders.begin(), source_folder() + "/plots");  // a user's copy of workloads/ and harness/ lacks it
    for (const std::string& folder : folders)
      if (const std::string file = folder + "/systems.json"; std::filesystem::exists(file)) read_styles(file, all);
    return all;
  }();
  return styles;
}

SystemStyle system_style(const std::string& system) {
  if (const auto found = system_styles().find(system); found != system_styles().end()) return found->second;
  const System* known = system_called(system);
  static const std::vector<std::vector<double>> dashes = {{}, {5, 2}, {2, 2}, {8, 2, 2, 2}};
  const unsigned sum = std::accumulate(system.begin(), system.end(), 0u,
                                       [](unsigned hash, char c) { return hash * 31 + static_cast<unsigned char>(c); });
  return {known ? known->title : system, "#000000", kMarkers[sum % kMarkers.size()],
          dashes[sum / kMarkers.size() % dashes.size()]};
}

}  // namespace sluice
