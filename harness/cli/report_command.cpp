#include <fmt/format.h>

#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/source_folder.h"
#include "harness/base/visible_text.h"
#include "harness/claims/claim_page.h"
#include "harness/cli/commands.h"
#include "harness/cli/find_renderer.h"
#include "harness/cli/read_files.h"
#include "plots/findings.h"
#include "plots/report.h"
#include "results/record_filter.h"
#include "results/reference.h"

namespace sluice {
namespace {

// Where the pages of studies go: results/findings for those of results/reference, next to other studies.
std::filesystem::path folder_of_pages(const std::vector<std::filesystem::path>& studies) {
  const auto folder_of = [](const std::filesystem::path& study) {
    return std::filesystem::absolute(study).parent_path().lexically_normal();
  };
  const std::filesystem::path folder = folder_of(studies.front());
  for (const std::filesystem::path& study : studies)
    if (folder_of(study) != folder)
      throw InputError("report --markdown", "studies of several folders", "give studies of one folder, or --out");
  return folder.filename() == "reference" ? folder.parent_path() / "findings" : folder;
}

int write_pages(const ReportArguments& a) {
  std::vector<std::filesystem::path> studies;
  std::vector<std::string> record_files;
  for (const std::string& file : a.files) {
    if (file.ends_with(".jsonl")) {
      record_files.push_back(file);
    } else {
      studies.emplace_back(file);
    }
  }
  if (studies.empty()) throw InputError("report --markdown", "no study given", "name results/reference/NAME.json");
  if (!record_files.empty()) {
    if (studies.size() > 1) throw InputError("report --markdown", "records of which study?", "name one study");
    const Study study = read_study(studies.front());
    write_reference(study.records, read_files(record_files));
  }
  const std::filesystem::path out = a.out.empty() ? folder_of_pages(studies) : std::filesystem::path(a.out);
  for (const std::filesystem::path& page : write_findings(studies, out, find_renderer()))
    fmt::print("page: {}\n", visible(std::filesystem::relative(page).string()));
  return 0;
}

// The `title` of the sweep whose records these are: a file in their folder with their name, as the command `run SWEEP`
// has them, or one of harness/sweeps; "" for none.
std::string sweep_title(const std::filesystem::path& records) {
  const std::string name = records.stem().string() + ".json";
  for (const std::filesystem::path& folder :
       {records.parent_path(), std::filesystem::path("."), std::filesystem::path(source_folder()) / "harness/sweeps"}) {
    const std::filesystem::path file = folder / name;
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;
    try {
      const Json sweep = parse_json_file(file.string());
      if (sweep.is_object() && sweep.contains("grid")) return sweep.value("title", "");
    } catch (const InputError&) {  // no sweep: a file of another kind with that name
    }
  }
  return "";
}

}  // namespace

int report_command(const ReportArguments& a) {
  if (a.markdown) return write_pages(a);
  const std::string out =
      a.out.empty() ? source_folder() + "/plots/out/" + std::filesystem::path(a.files.front()).stem().string() : a.out;
  const std::vector<PictureFormat> formats = parse_formats(a.formats);
  std::vector<ReportPart> parts;
  if (a.claims) parts.push_back(claims_part(stored_papers(source_folder() + "/results/claims")));
  const Report report = write_report(filtered(read_files(a.files), a.filter), out, find_renderer(), formats,
                                     std::move(parts), a.title.empty() ? sweep_title(a.files.front()) : a.title);
  fmt::print("report: {}\npictures: {} charts ({}) in {}\n", visible(std::filesystem::relative(report.html).string()),
             report.charts.size(), a.formats, visible((std::filesystem::relative(out) / "charts").string()));
  return 0;
}

}  // namespace sluice
