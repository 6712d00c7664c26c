// See findings.h.
#include "plots/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/base/error.h"
#include "harness/base/markdown_text.h"
#include "harness/base/passing_folder.h"
#include "harness/base/read_text.h"
#include "harness/base/visible_text.h"
#include "plots/markdown.h"
#include "plots/row_outcome.h"
#include "plots/study_charts.h"
#include "plots/study_tables.h"
#include "plots/style.h"
#include "plots/validation_tables.h"
#include "results/comparison_rows.h"
#include "results/metrics.h"
#include "results/stability.h"
#include "results/store.h"
#include "results/targets.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string markdown(const FilledTable& table) {
  std::vector<std::string> headings;
  for (const TableAxis& axis : table.description.axes) headings.push_back(markdown_prose(axis.heading));
  for (const TableColumn& column : table.description.columns) headings.push_back(markdown_prose(column.heading));
  std::string text = table.description.title.empty() ? "" : "## " + markdown_prose(table.description.title) + "\n\n";
  text += markdown_head(headings);
  std::vector<std::string> before(table.description.axes.size());
  for (const FilledLine& line : table.lines) {
    text += "|";
    bool same = true;  // what the line before says as well is left out
    for (std::size_t i = 0; i < line.titles.size(); ++i) {
      same = same && line.titles[i] == before[i];
      text += markdown_cell(same ? "" : markdown_prose(line.titles[i]));
    }
    before = line.titles;
    for (const FilledCell& filled : line.cells) text += markdown_cell(markdown_text(filled.text));
    text += "\n";
  }
  return text;
}

std::string failed_runs(std::span<const StudyRun> runs) {
  struct Group {
    std::set<std::string> workloads;
    int count = 0;
    std::string reason;  // of the first
  };
  std::map<std::pair<std::string, std::string>, Group> groups;  // by system and outcome
  for (const StudyRun& run : runs)
    for (const Record& record : run.row.records) {
      if (record.outcome == RecordOutcome::ok) continue;
      Group& group = groups[{record.system, outcome_words(record.outcome)}];
      group.workloads.insert(record.workload);
      ++group.count;
      if (group.reason.empty()) group.reason = shortened(why_failed(record), 160);
    }
  std::string text = "## Runs without a result\n\n";
  if (groups.empty()) return text + "None.\n";
  text += markdown_head({"system", "outcome", "runs", "workloads", "reason of the first"});
  for (const auto& [key, group] : groups) {
    text += "|" + markdown_cell(markdown_text(title_of(key.first, ""))) + markdown_cell(key.second) +
            markdown_cell(std::to_string(group.count)) +
            markdown_cell(markdown_text(fmt::format("{}", fmt::join(group.workloads, ", ")))) +
            markdown_cell(markdown_text(group.reason)) + "\n";
  }
  return text;
}

std::string stable_rate_tables(std::span<const Record> records) {
  std::string text = "## Largest stable learning rates\n";
  for (const StableRates& grid : stable_rates(records)) {
    text += "\n" + wrapped(markdown_text(title_of(grid)) + ":") + "\n";
    const std::vector<std::vector<std::string>> lines = cells_of(grid);
    text += markdown_head(lines.front());
    for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
      text += "|";
      for (const std::string& cell : *line) text += markdown_cell(markdown_text(cell));
      text += "\n";
    }
  }
  return text + "\n" + wrapped(markdown_text(fmt::format("{}", fmt::join(kStabilityNote, " "))));
}

// What the records say of the machines that they are of; commits only where there is one.
std::string machine_text(std::span<const Record> records) {
  std::map<std::string, std::set<std::string>> facts;
  for (const Record& record : records) {
    if (!record.environment.machine) continue;
    const Environment::Machine& machine = record.environment.machine.value();
    facts["cpu"].insert(machine.cpu);
    facts["cores"].insert(std::to_string(machine.cores));
    for (const Environment::Gpu& gpu : machine.gpus) facts["gpu"].insert(gpu.name);
    facts["compiler"].insert(machine.compiler);
    facts["torch"].insert(machine.torch);
    facts["mpi"].insert(machine.mpi.value_or(""));
    facts["commit"].insert(machine.commit);
  }
  std::string text;
  for (const char* fact : {"cpu", "cores", "gpu", "compiler", "torch", "mpi", "commit"}) {
    std::set<std::string>& values = facts[fact];
    std::erase_if(values, [](const std::string& value) { return value.empty() || value == "none"; });
    if (values.empty() || (values.size() > 1 && std::string(fact) == "commit")) continue;
    text += (text.empty() ? "" : "; ") + std::string(fact) + " " +
            markdown_text(fmt::format("{}", fmt::join(values, " or ")));
  }
  return text;
}

std::string settings_text(std::span<const Record> records) {
  std::set<std::string> clocks, reductions, clusters;
  for (const Record& record : records) {
    const auto bucket = record.options.find("gradient_buckets");
    if (bucket != record.options.end())
      reductions.insert("; gradients reduced in buckets of " + markdown_text(bucket->second) + " during the backward");
    else if (max_sent(record, SentKind::reductions).value_or(0) > 0)
      reductions.insert("; gradients reduced after the backward");
    clocks.insert(choice_name(record.clock) + " clock" +
                  (record.cost_source.empty() ? "" : " with " + markdown_text(record.cost_source) + " costs"));
    clusters.insert(markdown_code(record.cluster));
  }
  return fmt::format("{}{}; {}", fmt::join(clocks, ", "), fmt::join(reductions, ""), fmt::join(clusters, ", "));
}

std::string how_it_was_run(const Study& study, std::span<const Record> records) {
  std::string commands;
  for (const std::string& command : study.commands) commands += visible(command) + "\n";
  const std::string file = markdown_code("results/reference/" + study.records.filename().string());
  return "## How it was run\n\n" + markdown_code_block(commands) + "\n" +
         wrapped(fmt::format("{} records, {}: {}. Machine: {}.", records.size(), file, settings_text(records),
                             machine_text(records)));
}

// Makes the sections of one page.
class PageWriter {
 public:
  PageWriter(const Study& study, std::span<const Record> records)
      : study_(study), records_(records), runs_(study_runs(records)), validation_(validate(validated_cases(records))) {
    for (const auto& section : study.sections) {
      if (const auto* table = std::get_if<StudyTable>(&section)) fill_in(*table);
      if (const auto* table = std::get_if<ValidationTable>(&section))
        tables_.insert_or_assign(table->name, fill(*table, validation_));
    }
  }

  FindingsPage page() {
    page_.name = study_.name;
    page_.markdown = fmt::format(
        "<!-- Made by: sluice report --markdown results/reference/{}.json; a test compares it with its records. -->\n"
        "# {}\n\n",
        study_.name, markdown_prose(study_.title));
    page_.markdown += short_enough("question", wrapped(markdown_prose(study_.question)), 2);
    if (!study_.answer.empty()) page_.markdown += "\n";
    std::string answer;
    for (const Paragraph& line : study_.answer) answer += list_item(text_of(line));
    page_.markdown += short_enough("answer", answer, 5);
    for (const auto& section : study_.sections) {
      page_.markdown += "\n";
      std::visit([&](const auto& s) { add(s); }, section);
    }
    if (const std::string note = provenance_of(records_); !note.empty())
      page_.markdown += "\n" + wrapped(markdown_text(note));
    page_.markdown += "\n" + how_it_was_run(study_, records_);
    return std::move(page_);
  }

 private:
  // A page begins with what one look takes in.
  std::string short_enough(const char* what, const std::string& text, std::ptrdiff_t max) const {
    const std::ptrdiff_t lines = std::ranges::count(text, '\n');
    if (lines > max)
      throw InputError(study_.name,
                       fmt::format("the {} has {} lines on the page, at most {} are possible", what, lines, max),
                       "shorten it: what explains a table goes next to it");
    return text;
  }

  // With its figures in their places.
  std::string text_of(const Paragraph& paragraph) const {
    std::string text = paragraph.text;
    for (const auto& [name, figure] : paragraph.figures) {
      const std::string place = '{' + name + '}', found = found_text(figure, tables_.at(figure.table));
      for (std::size_t at = 0; (at = text.find(place, at)) != std::string::npos; at += found.size())
        text.replace(at, place.size(), found);
    }
    return markdown_prose(text);
  }

  void add(const Paragraph& paragraph) { page_.markdown += wrapped(text_of(paragraph)); }
  void add(const StudyTable& table) { page_.markdown += markdown(tables_.at(table.name)); }
  void add(const ValidationTable& table) { page_.markdown += markdown(tables_.at(table.name)); }

  void fill_in(const StudyTable& table) {
    std::vector<StudyRun> runs = runs_;
    if (!table.also.empty()) {
      const std::vector<Record> others = read_records(study_.records.parent_path() / table.also).records;
      const std::vector<StudyRun> more = study_runs(others);
      runs.insert(runs.end(), more.begin(), more.end());
    }
    tables_.insert_or_assign(table.name, fill(table, runs));
  }

  void add(const ComparisonPicture& picture) { add_picture(study_chart(picture, records_)); }
  void add(const TablePicture& picture) { add_picture(study_chart(picture, tables_.at(picture.table))); }

  void add(const ValidationPicture& picture) { add_picture(validation_chart(picture.name, validation_)); }

  void add(const PublishedFindings& published) {
    page_.markdown += "## Published and found\n\n";
    page_.markdown += wrapped("Published in: " + markdown_prose(published.source) + ".") + "\n";
    page_.markdown += markdown_head({"published", "measured here", "found"});
    for (const PublishedFinding& finding : published.findings)
      page_.markdown += "|" + markdown_cell(markdown_prose(finding.published)) +
                        markdown_cell(markdown_prose(finding.measure)) +
                        markdown_cell(markdown_text(found_text(finding.found, tables_.at(finding.found.table)))) + "\n";
  }

  void add(const FailedRuns&) { page_.markdown += failed_runs(runs_); }
  void add(const StableRateTables&) { page_.markdown += stable_rate_tables(records_); }

  void add_picture(Chart chart) {
    if (chart.spec.is_null()) throw InputError(study_.name + ": " + chart.name, "the records give no such picture");
    chart.name = study_.name + "." + chart.name;
    page_.markdown += fmt::format("![{}]({}.svg)\n", markdown_text(chart.title), chart.name);
    page_.pictures.push_back(std::move(chart));
  }

  const Study& study_;
  std::span<const Record> records_;
  std::vector<StudyRun> runs_;
  const Validation validation_;
  std::map<std::string, FilledTable> tables_;  // by name
  FindingsPage page_;
};

constexpr const char* kMadeBy = "<!-- Made by: sluice ";  // begins every page
constexpr const char* kDrawnFrom = "<!-- drawn from ";    // the last line of every picture

bool is_drawn_picture(const std::string& text) { return text.find(kDrawnFrom) != std::string::npos; }

void remove_old_pictures(const FindingsPage& page, const fs::path& out) {
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(out)) {
    const std::string stem = entry.path().stem().string();
    const bool is_current = std::ranges::count(page.pictures, stem, &Chart::name) > 0;
    if (entry.path().extension() == ".svg" && stem.starts_with(page.name + ".") && !is_current &&
        is_drawn_picture(read_whole_file(entry.path())))
      old.push_back(entry.path());
  }
  for (const fs::path& picture : old) fs::remove(picture);
}

}  // namespace

FindingsPage findings_page(const fs::path& study) {
  const Study description = read_study(study);
  std::vector<Record> records = read_records(description.records).records;
  if (!description.targets.empty()) set_targets(records, measured_targets(read_records(description.targets).records));
  return findings_page(description, records);
}

FindingsPage findings_page(const Study& study, std::span<const Record> records) {
  return PageWriter(study, records).page();
}

std::string picture_mark(const Chart& picture) { return kDrawnFrom + digest(picture.spec) + " -->\n"; }

OutputFile page_file(const fs::path& file) {
  return {file, "a page that Sluice makes", [](const std::string& text) { return text.starts_with(kMadeBy); }};
}

OutputFile picture_file(const fs::path& file) { return {file, "a picture that Sluice draws", is_drawn_picture}; }

std::vector<fs::path> write_findings(std::span<const fs::path> studies, const fs::path& out, const Renderer& renderer) {
  std::vector<FindingsPage> pages;
  for (const fs::path& study : studies) pages.push_back(findings_page(study));
  std::vector<fs::path> files;
  try {
    fs::create_directories(out);
    for (const FindingsPage& page : pages) {
      page_file(out / (page.name + ".md"));
      for (const Chart& picture : page.pictures) picture_file(out / (picture.name + ".svg"));
    }
    const PassingFolder passing(new_drawing_folder(out));
    const fs::path& drawing = passing.path;
    for (const FindingsPage& page : pages)
      for (const Chart& picture : page.pictures)
        write_text(drawing / (picture.name + ".vl.json"), spec_text(picture.spec));
    render_charts(renderer, drawing);
    for (const FindingsPage& page : pages) {
      remove_old_pictures(page, out);
      for (const Chart& picture : page.pictures)
        picture_file(out / (picture.name + ".svg"))
            .write(read_whole_file(drawing / (picture.name + ".svg")) + "\n" + picture_mark(picture));
      files.push_back(out / (page.name + ".md"));
      page_file(files.back()).write(page.markdown);
    }
  } catch (const fs::filesystem_error& failure) {
    throw RunError(std::string("the findings cannot be written: ") + failure.what());
  }
  return files;
}

}  // namespace sluice
