// Names in records and studies that a hostile person would choose, through every format that is written: none of them
// becomes a command of the terminal, a formula, Markdown, LaTeX, HTML or another JSON value, and none is lost.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/visible_text.h"
#include "harness/claims/claim_page.h"
#include "harness/cli/read_files.h"
#include "plots/charts.h"
#include "plots/findings.h"
#include "plots/report.h"
#include "plots/synthetic_test.h"
#include "results/compare.h"
#include "results/compare_columns.h"
#include "results/export.h"
#include "results/regression.h"
#include "results/stability.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string>& hostile_names() {
  static const std::vector<std::string> names = {"a|b||c",
                                                 "`code` ``",
                                                 "```\nsluice run\n```",
                                                 "<script>alert(1)</script>",
                                                 "\"><img src=x onerror=alert(1)>",
                                                 "[x](javascript:alert(1))",
                                                 "![x](http://evil/x.png)",
                                                 "[x]: javascript:alert(1)",
                                                 "# heading",
                                                 "- item",
                                                 "1. item",
                                                 "> quote",
                                                 "line\n\n# heading\n| a |",
                                                 "**bold** _em_ ~~gone~~",
                                                 "&lt;script&gt;",
                                                 "ends in \\",
                                                 "\\|x",
                                                 "\\input{/etc/passwd}",
                                                 "}\\write18{rm}{$x^2$ & % # ~",
                                                 "x\n\\input{y}",
                                                 "=HYPERLINK(\"http://evil\")",
                                                 "+1+1",
                                                 "-2+3",
                                                 "@SUM(A1)",
                                                 "\t=1+1",
                                                 "\r=1+1",
                                                 "a,b;\"c\"",
                                                 "\x1b[31mred\x1b]0;title\x07",
                                                 std::string("\xc2\x9b") + "31m",
                                                 std::string("\xe2\x80\xae") + "desrever",
                                                 "\xff\xfe",
                                                 "</td></tr></table><h1>x",
                                                 "{{7*7}} ${x}",
                                                 "\",\"outcome\":\"ok"};
  return names;
}

// Records in which every text from outside is one of these names; all of one comparison, except for the title.
std::vector<Record> hostile_records(const std::string& name) {
  std::vector<Record> records = {synthetic::record("gpipe", 4, 0.1, "virtual"),
                                 synthetic::record(name, 4, 0.2, "virtual"),
                                 synthetic::record("1f1b", 4, 0.2, "virtual")};
  records[2].outcome = RecordOutcome::failed;
  for (std::size_t k = 0; k < records.size(); ++k) {
    Record& r = records[k];
    r.digest = "d" + std::to_string(k);
    r.workload = r.workload_facts->title = r.workload_facts->metric = r.cluster = r.cost_source = r.device = name;
    r.transport = r.reason = name;
    r.options = {{"variant", name}};
    r.environment = {.machine = Environment::Machine{.commit = name, .compiler = name, .torch = name, .cpu = name}};
  }
  return records;
}

std::string terminal_faults(const std::string& text) {
  std::string lines = text;
  std::erase(lines, '\n');
  return visible(lines) == lines ? "" : "holds characters that a terminal obeys or that are not UTF-8";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The same, the lines of a paragraph as one: code may go on over the end of a line.
std::vector<std::string> paragraphs_of(const std::string& page) {
  std::vector<std::string> result;
  bool goes_on = false;
  for (const std::string& line : lines_of(page)) {
    const bool plain = !line.empty() && std::string_view("|#<`").find(line[0]) == std::string_view::npos;
    if (goes_on && plain)
      result.back() += " " + line;
    else
      result.push_back(line);
    goes_on = plain;
  }
  return result;
}

// Markdown without what is escaped and without code spans.
std::string live_markdown(const std::string& line) {
  std::string live;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      ++i;
    } else if (line[i] == '`') {
      const std::size_t run = std::min(line.find_first_not_of('`', i), line.size()) - i;
      std::size_t end = line.find(std::string(run, '`'), i + run);
      if (end == std::string::npos) return live + "` without an end";
      i = end + run - 1;
    } else {
      live += line[i];
    }
  }
  return live;
}

// Every table is as wide as its heading, and nothing is live but what the program writes itself: its own headings,
// pictures and links with plain targets.
std::string faults_of_markdown(const std::string& page, std::vector<std::string> marks) {
  std::size_t columns = 0;
  std::string fence;  // of the block of code that the line is in
  for (const std::string& line : paragraphs_of(page)) {
    if (!fence.empty()) {
      if (line == fence) fence.clear();
      continue;
    }
    if (line.starts_with("<!-- ")) continue;
    if (line.starts_with("```") && line.find('`', line.find_first_not_of('`')) == std::string::npos) {
      fence = line;
      if (fence.find_first_not_of('`') != std::string::npos) return "a fence with text: " + line;
      continue;
    }
    const std::string live = live_markdown(line);
    if (live.ends_with("without an end")) return "an open code span: " + line;
    for (const std::string& mark : marks)
      if (live.find(mark) != std::string::npos) return "a live " + mark + ": " + line;
    if (live.starts_with("# heading")) return "a heading: " + line;
    for (const char* begin : {"> ", "- ", "1. ", "==="})
      if (live.starts_with(begin)) return "a block: " + line;
    if (!live.starts_with("|")) {
      columns = 0;
      continue;
    }
    const auto here = static_cast<std::size_t>(std::ranges::count(live, '|'));
    if (columns == 0) columns = here;
    if (here != columns)
      return "a line of " + std::to_string(here) + " columns of " + std::to_string(columns) + ": " + line;
  }
  return fence.empty() ? "" : "code without an end";
}

const std::vector<std::string> kNeverLive = {"<", "](javascript", "](http", "]:"};

// Of an author's text, in which emphasis is allowed.
std::string prose_faults(const std::string& page) { return faults_of_markdown(page, kNeverLive); }

std::string markdown_faults(const std::string& page) {
  std::vector<std::string> marks = kNeverLive;
  marks.insert(marks.end(), {"**", "~~", "`"});
  return faults_of_markdown(page, marks);
}

std::string latex_faults(const std::string& text) {
  std::size_t columns = 0;
  for (const std::string& line : lines_of(text)) {
    if (line.empty() || line.starts_with("% ")) continue;
    if (line.starts_with("\\begin{tabular}{") || line == "\\end{tabular}") {
      columns = 0;
      continue;
    }
    if (line == "\\toprule" || line == "\\midrule" || line == "\\bottomrule") continue;
    std::string live = line;
    for (const std::string command : {"\\textasciitilde{}", "\\textasciicircum{}", "\\textbackslash{}", "\\&", "\\%",
                                      "\\$", "\\#", "\\_", "\\{", "\\}"})
      for (std::size_t at; (at = live.find(command)) != std::string::npos;) live.replace(at, command.size(), "x");
    if (!live.ends_with(" \\\\")) return "a line without an end: " + line;
    live.resize(live.size() - 3);
    if (live.find_first_of("\\%$#_{}~^") != std::string::npos) return "a live character: " + line;
    const auto here = static_cast<std::size_t>(std::ranges::count(live, '&'));
    if (columns == 0) columns = here;
    if (here != columns) return "a line of another width: " + line;
  }
  return "";
}

std::string csv_faults(const std::string& text) {
  std::size_t columns = 0;
  for (const std::string& line : lines_of(text)) {
    std::vector<std::string> cells = {""};
    bool quoted = false;
    for (const char c : line) {
      if (c == '"')
        quoted = !quoted;
      else if (c == ',' && !quoted)
        cells.emplace_back();
      else
        cells.back() += c;
    }
    if (quoted) return "an open quote: " + line;
    if (columns == 0) columns = cells.size();
    if (cells.size() != columns) return "a line of another width: " + line;
    for (const std::string& cell : cells)
      if (!cell.empty() && std::string_view("=+-@\t\r").find(cell[0]) != std::string_view::npos &&
          cell.find_first_not_of("-+.0123456789einf") != std::string::npos)
        return "a formula: " + cell;
  }
  return "";
}

std::string json_faults(const std::string& text, bool lines) {
  for (const std::string& line : lines ? lines_of(text) : std::vector<std::string>{text})
    if (!Json::parse_if_json(line)) return "not JSON: " + line.substr(0, 200);
  return "";
}

std::string html_faults(const std::string& page) {
  for (const char* mark : {"<script>alert", "<img src=x", "\"><img", "<h1>x", "</table><h1>"})
    if (page.find(mark) != std::string::npos) return std::string("a live ") + mark;
  return "";
}

// A format: its name, what it makes of records, and what may be wrong with that.
struct Format {
  std::string name;
  std::function<std::string(const std::vector<Record>&)> make;
  std::function<std::string(const std::string&)> faults;
  bool on_terminal = true;
};

std::string compared(const std::vector<Record>& records, TableForm form) {
  return to_table(compare(records, {}), {}, form);
}

// The same runs, some slower than they were.
std::vector<RegressionRow> slower(const std::vector<Record>& records) {
  std::vector<Record> now = records;
  for (Record& record : now)
    for (double& seconds : record.step_seconds) seconds *= 2;
  now.pop_back();
  return regressions(records, now, 0.02);
}

std::string findings_of(const std::vector<Record>& records) {
  const std::string name = records[1].system;
  const StudyTable table{.name = "speed",
                         .title = name,
                         .axes = {{.heading = name, .entries = {{name, {}}}}},
                         .columns = {{.heading = name, .where = {}}}};
  Study study{.name = "study", .title = name, .question = name, .records = name, .commands = {name, "```"}};
  study.sections = {table, Paragraph{name}, FailedRuns{}};
  return findings_page(study, records).markdown;
}

std::vector<Format> formats() {
  const auto json_lines = [](const std::string& text) { return json_faults(text, true); };
  const auto json = [](const std::string& text) { return json_faults(text, false); };
  const auto none = [](const std::string&) { return std::string(); };
  using Records = const std::vector<Record>&;
  return {
      {"compare, text", [](Records r) { return compared(r, TableForm::text); }, none},
      {"compare, markdown", [](Records r) { return compared(r, TableForm::markdown); }, markdown_faults},
      {"compare, latex", [](Records r) { return compared(r, TableForm::latex); }, latex_faults},
      {"compare, csv", [](Records r) { return to_csv(to_flat_table(compare(r, {}))); }, csv_faults},
      {"compare, json", [](Records r) { return to_json(compare(r, {})).dump(2); }, json},
      {"regressions, text", [](Records r) { return to_text(regression_table(slower(r), true)); }, none},
      {"regressions, markdown", [](Records r) { return to_markdown(regression_table(slower(r), true)); },
       markdown_faults},
      {"regressions, latex", [](Records r) { return to_latex(regression_table(slower(r), true)); }, latex_faults},
      {"regressions, csv", [](Records r) { return to_csv(regression_flat_table(slower(r))); }, csv_faults},
      {"regressions, json", [](Records r) { return to_json_lines(regression_flat_table(slower(r))); }, json_lines},
      {"export, csv", [](Records r) { return to_csv(records_table(r)); }, csv_faults},
      {"export, jsonl", [](Records r) { return to_json_lines(records_table(r)); }, json_lines},
      {"export of ranks", [](Records r) { return to_csv(ranks_table(r)); }, csv_faults},
      {"export of curves", [](Records r) { return to_csv(curves_table(r)); }, csv_faults},
      {"stable rates", [](Records r) { return to_table(stable_rates(r)); }, none},
      {"records",
       [](Records r) {
         std::string lines;
         for (const Record& record : r) lines += to_json(record).dump() + "\n";
         return lines;
       },
       json_lines},
      {"findings", findings_of, prose_faults},
      {"report", [](Records r) { return report_html(make_charts(r), r, {}); }, html_faults, false},
  };
}

TEST(HostileNames, AreTextInEveryFormat) {
  for (const std::string& name : hostile_names()) {
    const std::vector<Record> records = hostile_records(name);
    for (const Format& format : formats()) {
      SCOPED_TRACE(format.name + " of '" + visible(name) + "'");
      const std::string written = format.make(records);
      EXPECT_EQ(format.faults(written), "") << written.substr(0, 2000);
      EXPECT_EQ(format.on_terminal ? terminal_faults(written) : "", "") << visible_lines(written).substr(0, 2000);
    }
  }
}

// What is not UTF-8 is the one thing that JSON cannot hold.
TEST(HostileNames, ComeBackFromJsonAsTheyWere) {
  for (const std::string& name : hostile_names()) {
    if (name == "\xff\xfe") continue;
    const Record record = hostile_records(name)[1];
    const Json read = Json::parse(to_json(record).dump());
    EXPECT_EQ(read["system"].get<std::string>(), name);
    EXPECT_EQ(record_from_json(read, "here").workload_facts->title, name);
  }
}

TEST(HostileNames, AreTextInTheWarningsOfRecordsThatStandTwice) {
  std::ifstream stored(std::string(SLUICE_SOURCE_DIR) + "/harness/tests/fuzz/corpus/records/good.jsonl");
  std::string line;
  std::getline(stored, line);
  Json record = Json::parse(line);
  const std::string file = testing::TempDir() + "hostile_names_test." + std::to_string(::getpid()) + ".jsonl";
  for (const std::string& name : hostile_names()) {
    if (name == "\xff\xfe") continue;
    record["workload"] = name;
    std::ofstream out(file);
    for (const int seed : {1, 2}) {
      record["seed"] = seed;
      out << record.dump() << "\n";
    }
    out.close();
    testing::internal::CaptureStderr();
    read_files({file});
    const std::string warnings = testing::internal::GetCapturedStderr();
    EXPECT_NE(warnings.find("has 2 results"), std::string::npos) << warnings;
    EXPECT_EQ(terminal_faults(warnings), "") << visible_lines(warnings);
  }
  fs::remove(file);
}

TEST(HostileNames, AreTextOnPagesOfClaims) {
  const auto text = [](const std::string& name) { return Json(name).dump(); };
  for (const std::string& name : hostile_names()) {
    if (name == "\xff\xfe") continue;
    SCOPED_TRACE(visible(name));
    const std::string claims = R"({"title": )" + text(name) + R"(, "citation": )" + text("A " + name) +
                               R"(, "set_up": )" + text("A " + name) + R"(, "groups": [{"name": )" + text("A " + name) +
                               R"(, "kind": "headline", "source": )" + text(name) + R"(, "evidence": "A", "what": )" +
                               text("A " + name) + R"(, "unit": )" + text(name) + R"(, "differences": )" + text(name) +
                               R"(, "claims": [{"name": )" + text(name) + R"(, "published": 1, "reason": )" +
                               text(name) + "}]}]}";
    PaperOutcomes paper{claims_from_json(Json::parse(claims), "paper", "paper.json"), {}};
    for (const Claim& claim : paper.claims.claims)
      paper.outcomes.push_back({.name = claim.name, .group = claim.group, .reason = name});
    const std::string page = paper_page(paper);
    EXPECT_EQ(prose_faults(page), "") << page;
    EXPECT_EQ(terminal_faults(page), "");
    EXPECT_EQ(prose_faults(index_page(std::span(&paper, 1))), "");
    EXPECT_EQ(html_faults(claims_part(std::span(&paper, 1)).table), "");
  }
}

TEST(HostileNames, OfStudiesAndPicturesNameNoOtherFile) {
  std::string pattern = (fs::temp_directory_path() / "sluice-names-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  const auto rejected = [](const fs::path& file) {
    try {
      read_study(file);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("not rejected");
  };
  for (const std::string name : {"../evil", "a/b", "..", "a)b", "-x", "", "<b>"}) {
    const Json picture = {{"name", name}, {"kind", "throughput"}, {"where", Json::object()}};
    const Json study = {{"title", "T"},
                        {"question", "Which?"},
                        {"records", "r.jsonl"},
                        {"commands", Json::array({"sluice run"})},
                        {"sections", Json::array({Json({{"chart", picture}})})}};
    std::ofstream(folder / "study.json") << study.dump();
    EXPECT_NE(rejected(folder / "study.json").find("cannot name a file"), std::string::npos)
        << name << ": " << rejected(folder / "study.json");
  }
  std::ofstream(folder / "--><b>.json") << "{}";
  EXPECT_NE(rejected(folder / "--><b>.json").find("its page's"), std::string::npos);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace sluice
