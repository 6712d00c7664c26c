// The committed pages are what their records give, and a study cannot say what its records do not.
#include "plots/findings.h"

#include <gtest/gtest.h>
#include <sluice_build.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>

#include "harness/base/error.h"
#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "plots/study_tables.h"
#include "plots/synthetic_test.h"
#include "results/metrics.h"
#include "results/reference.h"
#include "results/stability.h"
#include "results/store.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

const fs::path kReference = SLUICE_SOURCE_DIR "/results/reference";
const fs::path kFindings = SLUICE_SOURCE_DIR "/results/findings";

std::vector<fs::path> committed_studies() {
  std::vector<fs::path> studies;
  for (const auto& entry : fs::directory_iterator(kReference))
    if (entry.path().extension() == ".json") studies.push_back(entry.path());
  return studies;
}

const std::vector<FindingsPage>& pages_made_again() {
  static const std::vector<FindingsPage> pages = [] {
    std::vector<FindingsPage> made;
    for (const fs::path& study : committed_studies()) made.push_back(findings_page(study));
    return made;
  }();
  return pages;
}

TEST(Findings, CommittedPagesAreWhatTheirRecordsGive) {
  ASSERT_FALSE(pages_made_again().empty());
  for (const FindingsPage& page : pages_made_again()) {
    const std::string again = "; run: sluice report --markdown results/reference/" + page.name + ".json";
    EXPECT_EQ(read_whole_file(kFindings / (page.name + ".md")), page.markdown) << page.name << again;
    for (const Chart& picture : page.pictures)
      EXPECT_TRUE(read_whole_file(kFindings / (picture.name + ".svg")).ends_with("\n" + picture_mark(picture)))
          << picture.name << again;
  }
}

TEST(Findings, EveryCommittedFileBelongsToAStudy) {
  std::set<std::string> known{"external.md", "gpu.md"};  // of programs of their own, and tests of their own
  for (const FindingsPage& page : pages_made_again()) {
    known.insert(page.name + ".md");
    for (const Chart& picture : page.pictures) known.insert(picture.name + ".svg");
  }
  for (const auto& entry : fs::directory_iterator(kFindings))
    EXPECT_TRUE(known.contains(entry.path().filename().string())) << entry.path();
}

TEST(Findings, ReferenceRecordsAreSmall) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(kReference)) bytes += entry.file_size();
  EXPECT_LE(bytes, 32u << 20);
}

// Writes a study and reads it.
Study study_of(const std::string& sections, const std::string& question = "Which is faster?",
               const std::string& answer = "[]") {
  // Of this process: tests run side by side.
  const fs::path file = fs::path(testing::TempDir()) / ("findings_test." + std::to_string(::getpid()) + ".json");
  std::ofstream(file) << R"({"title": "A study", "question": ")" << question << R"(", "answer": )" << answer
                      << R"(, "records": "none.jsonl", "commands": ["sluice run a"], "sections": [)" << sections
                      << "]}";
  Study study = read_study(file);
  fs::remove(file);
  return study;
}

std::string error_of(const std::string& sections, const std::string& question = "Which?",
                     const std::string& answer = "[]") {
  try {
    study_of(sections, question, answer);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

const char* const kTable = R"({"table": {"name": "speed", "title": "Speed", "where": {"clock": "virtual"},
  "axes": [{"heading": "ranks", "field": "ranks", "values": [2, 4]}],
  "columns": [{"heading": "GPipe", "where": {"system": "gpipe"}},
              {"heading": "h2", "where": {"system": "zero_bubble", "options.variant": "h2"}},
              {"heading": "ratio", "numerator": "h2", "denominator": "GPipe"},
              {"heading": "rejected", "where": {"system": "chimera"}},
              {"heading": "nobody", "where": {"system": "nobody"}},
              {"heading": "bubble", "where": {"system": "gpipe"}, "metric": "bubble"},
              {"heading": "either", "where": {"system": "nobody"}, "or_where": {"system": "gpipe"}}]}})";

TEST(Study, TablesHoldTheNumbersOfTheRecords) {
  const std::vector<Record> records = synthetic::records();
  const Study study = study_of(kTable);
  const FilledTable table = fill(std::get<StudyTable>(study.sections.front()), study_runs(records));
  ASSERT_EQ(table.lines.size(), 2u);
  const FilledLine& line = table.lines[1];
  EXPECT_EQ(line.titles, std::vector<std::string>{"4"});
  ASSERT_TRUE(line.cells[0].value && line.cells[1].value && line.cells[2].value);
  EXPECT_DOUBLE_EQ(*line.cells[2].value, *line.cells[1].value / *line.cells[0].value);
  EXPECT_EQ(line.cells[3].text, "out of memory");
  EXPECT_EQ(line.cells[4].text, "-");
  EXPECT_NEAR(line.cells[5].value.value_or(0), 3.0 / 11 * 1.05, 1e-12);
  EXPECT_EQ(line.cells[6].text, line.cells[0].text);
}

TEST(Study, ACellWithoutAResultSaysOutOfMemoryRatherThanUnsupported) {
  std::vector<Record> records(2, synthetic::record("gpipe", 4, 0.1, "virtual"));
  records[0].outcome = RecordOutcome::unsupported;
  records[1].outcome = RecordOutcome::out_of_memory;
  for (int k = 0; k < 2; ++k) records[k].microbatches = k + 1, records[k].digest = std::to_string(k);
  const Study study = study_of(R"({"table": {"name": "t", "title": "",
    "axes": [{"heading": "ranks", "field": "ranks", "values": [4]}],
    "columns": [{"heading": "GPipe", "where": {"system": "gpipe"}}]}})");
  const FilledTable table = fill(std::get<StudyTable>(study.sections.front()), study_runs(records));
  EXPECT_EQ(table.lines[0].cells[0].text, "out of memory");
}

TEST(Study, PagesShowWhatWasPublishedBesideWhatWasFound) {
  const std::vector<Record> records = synthetic::records();
  const Study study = study_of(std::string(kTable) +
                               R"(, {"published": {"source": "a paper", "findings": [{"published": "up to 1.5x",
        "measure": "h2 over GPipe", "table": "speed", "column": "ratio", "take": "largest", "lines": {"ranks": 4}}]}},
      {"table_chart": {"name": "speed", "table": "speed", "columns": ["GPipe", "h2"], "relative_to": "GPipe"}},
      {"failed_runs": true})");
  const FindingsPage page = findings_page(study, records);
  EXPECT_NE(page.markdown.find("| up to 1.5x | h2 over GPipe | "), std::string::npos) << page.markdown;
  EXPECT_NE(page.markdown.find("sluice run a"), std::string::npos);
  EXPECT_NE(page.markdown.find("| Chimera | out of memory |"), std::string::npos) << page.markdown;
  ASSERT_EQ(page.pictures.size(), 1u);
  EXPECT_EQ(page.pictures[0].spec["concat"].size(), 2u);
}

TEST(Study, EverySeedWithoutAResultIsCounted) {
  std::vector<Record> records = synthetic::records();
  std::erase_if(records, [](const Record& r) { return r.outcome != RecordOutcome::ok || r.system != "gpipe"; });
  records.resize(1);
  for (const std::uint64_t seed : {11, 12, 13}) {
    records.push_back(records.front());
    records.back().seed = seed;
    records.back().digest = std::to_string(seed);
    records.back().outcome = seed < 13 ? RecordOutcome::diverged : RecordOutcome::failed;
    records.back().reason = "at update " + std::to_string(seed);
  }
  const std::string page =
      findings_page(study_of(std::string(kTable) + R"(, {"failed_runs": true})"), records).markdown;
  EXPECT_NE(page.find("| GPipe | diverged | 2 |"), std::string::npos) << page;
  EXPECT_NE(page.find("| GPipe | failed | 1 |"), std::string::npos) << page;
}

// Over the five seeds the second system is above the first by 1, 2, 3, 4, 5: 3, as in statistics_test.cpp.
TEST(Study, ColumnsShowWhatSystemsDifferByOverTheSameSeeds) {
  std::vector<Record> records;
  for (int seed = 1; seed <= 5; ++seed)
    for (const char* system : {"gpipe", "pipedream"}) {
      Record record = synthetic::record(system, 4, 0.1, "virtual");
      record.seed = static_cast<std::uint64_t>(seed);
      record.digest = std::string(system) + std::to_string(seed);
      const double metric = std::string(system) == "gpipe" ? 10 * seed : 11 * seed;
      record.curve = {{.step = 1, .loss = 1.0, .metric = metric}};
      records.push_back(record);
    }
  const Study study = study_of(R"({"table": {"name": "final", "title": "", "best_by": "final_metric",
    "axes": [{"heading": "ranks", "field": "ranks", "values": [4]}],
    "columns": [{"heading": "a", "where": {"system": "gpipe"}, "metric": "final_metric"},
                {"heading": "b", "where": {"system": "pipedream"}, "metric": "final_metric"},
                {"heading": "b - a", "minuend": "b", "subtrahend": "a"},
                {"heading": "a - a", "minuend": "a", "subtrahend": "a"}]}})");
  const FilledTable table = fill(std::get<StudyTable>(study.sections.front()), study_runs(records));
  EXPECT_EQ(table.lines[0].cells[2].text, "+3.00 (+1.04..+4.96)*");  // p = 0.013
  EXPECT_EQ(table.lines[0].cells[3].text, "the same");
  EXPECT_EQ(table.lines[0].cells[2].value, 3);
}

TEST(Study, AnswersBeginThePageWithFiguresOfItsTables) {
  const std::vector<Record> records = synthetic::records();
  const auto page = [&](const std::string& answer) {
    return findings_page(study_of(kTable, "Which?", answer), records).markdown;
  };
  const Study study = study_of(kTable);
  const FilledTable table = fill(std::get<StudyTable>(study.sections.front()), study_runs(records));
  const std::string ratio = table.lines[1].cells[2].text;  // on four ranks
  EXPECT_NE(page(R"([{"text": "Faster by {gain}, in {rows} rows.", "figures": {
      "gain": {"table": "speed", "column": "ratio", "take": "all", "lines": {"ranks": 4}},
      "rows": {"table": "speed", "column": "bubble", "take": "above", "than": 0}}}])")
                .find("Which?\n\n- Faster by " + ratio + ", in 2 of 2 rows.\n\n## Speed"),
            std::string::npos);
  const auto answer_of = [](const std::string& text) { return error_of(kTable, "Which?", "[" + text + "]"); };
  EXPECT_NE(answer_of(R"({"text": "By {gain}."})").find("no figure has the name 'gain'; give it in figures"),
            std::string::npos);
  EXPECT_NE(answer_of(R"({"text": "By much.", "figures": {"gain": {"table": "speed", "column": "ratio"}}})")
                .find("the text does not say {gain}"),
            std::string::npos);
  EXPECT_NE(
      answer_of(R"({"text": "{g}", "figures": {"g": {"table": "speed", "column": "rat"}}})").find("no column 'rat'"),
      std::string::npos);
  EXPECT_NE(answer_of(R"({"text": "By 1.28."})").find("figure '1.28.'"), std::string::npos);
}

TEST(Study, AQuestionHasAtMostTwoLinesOnThePageAndAnAnswerFive) {
  const auto error = [](const std::string& question, const std::string& answer) -> std::string {
    try {
      findings_page(study_of(kTable, question, "[" + answer + "]"), synthetic::records());
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  const std::string line(118, 'a'), text = R"({"text": ")" + line + " " + line + "\"}", one = R"({"text": "a"})";
  EXPECT_EQ(error("Which?", text + "," + text + "," + one), "");
  EXPECT_NE(error("Which?", text + "," + text + "," + text).find("the answer has 6 lines on the page, at most 5"),
            std::string::npos);
  EXPECT_EQ(error(line + " " + line, one), "");
  EXPECT_NE(error(line + " " + line + " aaa", one).find("the question has 3 lines on the page, at most 2"),
            std::string::npos);
}

TEST(Study, HoldsTheVirtualClockAgainstTheWallClock) {
  std::vector<Record> records;
  for (const auto& [system, wall, simulated] :
       {std::tuple("gpipe", 0.1, 0.11), std::tuple("one_f_one_b", 0.2, 0.15), std::tuple("zero_bubble", 0.15, 0.16)})
    for (const char* clock : {"wall", "virtual"}) {
      records.push_back(synthetic::record(system, 4, *clock == 'w' ? wall : simulated, clock));
      records.back().cluster = "this machine";
      records.back().digest = std::string(system) + clock;
    }
  const Study study = study_of(
      R"({"validation": {"name": "all", "title": "Errors"}},
         {"validation": {"name": "system", "by": "system"}}, {"validation": {"name": "far", "by": "cases"}},
         {"text": "A middle error of {middle}.",
          "figures": {"middle": {"table": "all", "column": "median",
                                 "lines": {"compared": "seconds of an update"}}}})");
  const std::string page = findings_page(study, records).markdown;
  EXPECT_NE(page.find("A middle error of 10.0 %."), std::string::npos) << page;  // of 10, 25 and 6.7 %
  EXPECT_NE(page.find("| 66.7 % (2 of 3) |"), std::string::npos) << page;  // one_f_one_b before zero_bubble is wrong
  EXPECT_NE(page.find("| GPipe | 1 | 10.0 % | 10.0 % | 10.0 % | +10.0 % | 100.0 % (2 of 2) |"), std::string::npos)
      << page;
  EXPECT_NE(page.find("| 199.5 ms | 149.6 ms | -25.0 % |"), std::string::npos) << page;
  EXPECT_NE(error_of(R"({"validation": {"name": "all", "by": "sistem"}})").find("did you mean 'system'?"),
            std::string::npos)
      << error_of(R"({"validation": {"name": "all", "by": "sistem"}})");
}

TEST(Study, PagesShowLearningCurves) {
  const Study study = study_of(R"({"chart": {"name": "curves", "kind": "curves", "where": {"ranks": [1, 4]}}})");
  const FindingsPage page = findings_page(study, synthetic::records());
  ASSERT_EQ(page.pictures.size(), 1u);
  const std::string drawing = page.pictures[0].spec.dump();
  EXPECT_NE(drawing.find("GPipe"), std::string::npos);
  EXPECT_NE(drawing.find("\"updates\":480"), std::string::npos) << drawing.substr(0, 3000);
}

// It showed the first, without a word.
TEST(Study, AChartOfOneComparisonRejectsRecordsOfSeveral) {
  const auto chart_where = [](const std::string& where) {
    return study_of(R"({"chart": {"name": "memory", "kind": "memory_throughput", "where": )" + where + "}}");
  };
  EXPECT_EQ(findings_page(chart_where(R"({"clock": "virtual", "workload": "fashion_mlp", "ranks": 4, "seed": 1})"),
                          synthetic::records())
                .pictures.size(),
            1u);
  const Study all = chart_where("{}");  // two clocks with two numbers of ranks, and another network
  EXPECT_EQ(
      sluice::error_of([&] { findings_page(all, synthetic::records()); }),
      "chart 'memory': draws one comparison, and its records make 5, of other workloads, batches, ranks, clusters "
      "or numbers of updates; let its \"where\" choose one");
}

TEST(Study, PagesShowTheLargestStableRates) {
  Record stable = synthetic::records().front();
  stable.purpose = Purpose::boundary;
  stable.outcome = RecordOutcome::ok;
  stable.optimizer = OptimizerSpec{.learning_rate = 0.1};
  stable.curve = {{.step = 1, .loss = 2.0}, {.step = 2, .loss = 1.0}};
  Record diverged = stable;
  diverged.outcome = RecordOutcome::diverged;
  diverged.optimizer->learning_rate = 0.2;
  diverged.diverged_at = 7;
  diverged.digest += " at 0.2";
  const std::vector<Record> records = {stable, diverged};
  const std::string page = findings_page(study_of(R"({"stable_rates": true})"), records).markdown;
  EXPECT_NE(page.find("| system | largest stable | 0.1 | 0.2 | first divergence |"), std::string::npos) << page;
  EXPECT_NE(page.find("| 0.1 | 1/1 | diverged | update 7 |"), std::string::npos) << page;
}

TEST(Study, PagesSayWhenGradientsWereReduced) {
  std::vector<Record> records = synthetic::records();
  const auto page = [&] {
    std::string text = findings_page(study_of(kTable), records).markdown;
    std::ranges::replace(text, '\n', ' ');
    return text;
  };
  for (Record& record : records) record.observed.sent_bytes.reset();
  EXPECT_EQ(page().find("gradients reduced"), std::string::npos);
  records[0].observed.sent_bytes = SentByRanks{.reductions = {100, 100}};
  EXPECT_NE(page().find("gradients reduced after the backward"), std::string::npos);
  records[0].options["gradient_buckets"] = "25MB";
  EXPECT_EQ(page().find("after the backward"), std::string::npos);
  EXPECT_NE(page().find("gradients reduced in buckets of 25MB during the backward"), std::string::npos);
}

TEST(Findings, WritesPagesAndPicturesAndRemovesOldOnes) {
  std::string pattern = (fs::path(testing::TempDir()) / "sluice-findings-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  std::ofstream(folder / "speed.json") << R"({"title": "Speed", "question": "Which?", "records": "speed.jsonl",
      "commands": ["sluice run a"], "sections": [)"
                                       << kTable << R"(,
      {"table_chart": {"name": "bars", "table": "speed", "columns": ["GPipe"]}}]})";
  write_reference(folder / "speed.jsonl", synthetic::records());
  std::ofstream(folder / "render.sh") << "for spec in $1/*.vl.json; do echo '<svg/>' >${spec%.vl.json}.svg; done\n";
  fs::create_directories(folder / "out");
  for (const char* old : {"speed.old.svg", "speedy.bars.svg"})
    std::ofstream(folder / "out" / old) << "<svg/>\n<!-- drawn from 1 -->\n";
  std::ofstream(folder / "out" / "speed.own.svg") << "<svg/>";  // no picture of ours
  const std::vector<fs::path> studies = {folder / "speed.json"};
  const std::vector<fs::path> files = write_findings(studies, folder / "out", {"sh", (folder / "render.sh").string()});
  const FindingsPage page = findings_page(studies.front());
  ASSERT_EQ(files, std::vector<fs::path>{folder / "out" / "speed.md"});
  EXPECT_EQ(read_whole_file(files.front()), page.markdown);
  EXPECT_EQ(read_whole_file(folder / "out" / "speed.bars.svg"), "<svg/>\n\n" + picture_mark(page.pictures.at(0)));
  EXPECT_FALSE(fs::exists(folder / "out" / "speed.old.svg"));
  EXPECT_TRUE(fs::exists(folder / "out" / "speedy.bars.svg"));  // another study's
  EXPECT_TRUE(fs::exists(folder / "out" / "speed.own.svg"));
  EXPECT_FALSE(fs::exists(folder / "out" / ".drawing"));
  // Nothing else at their places is replaced.
  for (const char* place : {"speed.md", "speed.bars.svg"}) {
    const std::string before = read_whole_file(folder / "out" / place);
    std::ofstream(folder / "out" / place) << "notes";
    EXPECT_THROW(write_findings(studies, folder / "out", {"sh", (folder / "render.sh").string()}), InputError) << place;
    EXPECT_EQ(read_whole_file(folder / "out" / place), "notes");
    std::ofstream(folder / "out" / place) << before;
  }
  fs::remove_all(folder);
}

TEST(Study, ATableShowsTheRecordsOfAnotherStudyBesides) {
  std::string pattern = (fs::path(testing::TempDir()) / "sluice-findings-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  std::vector<Record> own = synthetic::records(), others;
  std::erase_if(own, [&](const Record& record) {
    if (record.system == "zero_bubble") others.push_back(record);
    return record.system == "zero_bubble";
  });
  write_reference(folder / "own.jsonl", own);
  write_reference(folder / "others.jsonl", others);
  write_reference(folder / "all.jsonl", synthetic::records());
  const auto table_of = [&](const std::string& records, const std::string& also) {
    std::string table = kTable;
    if (!also.empty()) table.replace(table.find("\"axes\""), 0, R"("also": ")" + also + "\", ");
    std::ofstream(folder / "speed.json") << R"({"title": "Speed", "question": "Which?", "commands": [], "records": ")"
                                         << records << R"(", "sections": [)" << table << "]}";
    const std::string page = findings_page(folder / "speed.json").markdown;
    return page.substr(0, page.find("## How it was run"));
  };
  EXPECT_EQ(table_of("own.jsonl", "others.jsonl"), table_of("all.jsonl", ""));
  EXPECT_NE(table_of("own.jsonl", ""), table_of("all.jsonl", ""));
  fs::remove_all(folder);
  std::string outside = kTable;
  outside.replace(outside.find("\"axes\""), 0, R"("also": "../others.jsonl", )");
  EXPECT_NE(error_of(outside).find("'../others.jsonl' is no file in the study's folder"), std::string::npos);
}

TEST(Study, ProseHoldsNoFigureOfItsOwn) {
  EXPECT_NE(error_of(R"({"text": "It is 1.28x faster."})").find("figure '1.28x'"), std::string::npos);
  EXPECT_NE(error_of(R"({"text": "It is (35 %) faster."})").find("figure '(35'"), std::string::npos);
  EXPECT_NE(error_of("", "Is it 20 faster?").find("figure '20'"), std::string::npos);
  EXPECT_NE(error_of(R"({"text": "A 20-fold gain."})").find("figure '20-fold'"), std::string::npos);
  EXPECT_NE(error_of(R"({"text": "It is \u00bd as fast."})").find("figure '\u00bd'"), std::string::npos);
  EXPECT_EQ(error_of(R"({"text": "1F1B and 2BW on V100, with `zero=3` (ZeRO-3)."})"), "no error");
}

TEST(Study, MistakesAreNamed) {
  EXPECT_NE(error_of(R"({"tabel": {}})").find("a section is one of"), std::string::npos);
  EXPECT_NE(error_of(R"({"table_chart": {"name": "a", "table": "speed"}})").find("columns"), std::string::npos);
  const std::string unknown = std::string(kTable) + R"(, {"table_chart": {"name": "a", "table": "speed",
      "columns": ["GPip"]}})";
  EXPECT_NE(error_of(unknown).find("no column 'GPip'; did you mean 'GPipe'"), std::string::npos) << error_of(unknown);
}

TEST(Study, TablesTellHowLongARunTookAndWhatItsMovesDid) {
  Record still = synthetic::record("gpipe", 4, 0.1, "virtual"),
         moving = synthetic::record("dynpipe", 4, 0.1, "virtual");
  still.step_seconds = {1, 2, 0.5};
  moving.step_seconds = {1, 0.5};
  moving.observed.adaptation = {.changes = {{.update = 1}, {.update = 2}},
                                .moved_bytes = 2048,
                                .oracle_seconds = 1.25,
                                .answered = {{.seconds_to_detect = 0.25, .seconds_to_recover = 0.5},
                                             {.seconds_to_detect = 0.125, .seconds_to_recover = 2}}};
  const Study study = study_of(R"({"table": {"name": "moves", "title": "", "best_by": "run_seconds",
    "axes": [{"heading": "system", "field": "system", "values": ["gpipe", "dynpipe"]}],
    "columns": [{"heading": "run", "metric": "run_seconds"}, {"heading": "moves", "metric": "moves"},
                {"heading": "moved", "metric": "moved_bytes"}, {"heading": "detect", "metric": "seconds_to_detect"},
                {"heading": "recover", "metric": "seconds_to_recover"},
                {"heading": "regret", "metric": "regret"}]}})");
  const std::vector<Record> records{still, moving};
  const FilledTable table = fill(std::get<StudyTable>(study.sections.front()), study_runs(records));
  const auto texts = [&](std::size_t line) {
    std::vector<std::string> result;
    for (const FilledCell& cell : table.lines[line].cells) result.push_back(cell.text);
    return result;
  };
  EXPECT_EQ(texts(0), (std::vector<std::string>{"3.5 s", "-", "-", "-", "-", "-"}));
  EXPECT_EQ(texts(1), (std::vector<std::string>{"1.5 s", "2", "2 KiB", "250 ms", "2 s", "250 ms"}));
}

TEST(Study, TablesTellTunedRatesFromGivenOnes) {
  Record given = synthetic::record("gpipe", 4, 0.1, "virtual"), tuned = given;
  for (const auto& [record, rate] : {std::pair(&given, 0.1), std::pair(&tuned, 0.4)})
    record->optimizer = {.learning_rate = rate};
  tuned.tuning = {.grid = {0.1, 0.4}, .seed = 101, .chosen = 0.4};
  tuned.digest = "tuned";
  tuned.step_seconds.assign(20, 0.2);
  const Study study = study_of(R"({"table": {"name": "rates", "title": "", "best_by": "final_metric",
    "axes": [{"heading": "rates", "entries": [{"title": "one", "where": {"rate": "given"}},
                                              {"title": "own", "where": {"rate": "tuned"}}]}],
    "columns": [{"heading": "rate", "metric": "learning_rate"}]}})");
  const std::vector<Record> records{given, tuned};
  const FilledTable table = fill(std::get<StudyTable>(study.sections.front()), study_runs(records));
  EXPECT_EQ(table.lines[0].cells[0].text, "0.1");
  EXPECT_EQ(table.lines[1].cells[0].text, "0.4");
}

TEST(Study, TablesSetAPlannedPeriodBesideTheMeasuredOne) {
  Record planned = synthetic::record("edgepipe", 2, 0.1, "wall"), other = synthetic::record("gpipe", 2, 0.1, "wall");
  for (Record* record : {&planned, &other}) {
    record->microbatches = 4;
    record->step_seconds.assign(20, 0.1);
    record->plan = {.stages = {{.layers = {{0, 1}}, .devices = {0}, .data = 1}}};
  }
  planned.plan->objective = 0.02;
  planned.plan->objective_name = "slowest stage or transfer, seconds a micro-batch";
  other.plan->objective = 0.03;
  other.plan->objective_name = "slowest stage";
  const Study study = study_of(R"({"table": {"name": "periods", "title": "",
    "axes": [{"heading": "system", "field": "system", "values": ["edgepipe", "gpipe"]}],
    "columns": [{"heading": "planned", "metric": "planned_period"}, {"heading": "measured", "metric": "period"},
                {"heading": "planned over measured", "numerator": "planned", "denominator": "measured"}]}})");
  const std::vector<Record> records{planned, other};
  const FilledTable table = fill(std::get<StudyTable>(study.sections.front()), study_runs(records));
  const auto texts = [&](std::size_t line) {
    std::vector<std::string> result;
    for (const FilledCell& cell : table.lines[line].cells) result.push_back(cell.text);
    return result;
  };
  EXPECT_EQ(texts(0), (std::vector<std::string>{"20 ms", "25 ms", "0.80"}));
  EXPECT_EQ(texts(1), (std::vector<std::string>{"-", "25 ms", "-"}));
}

TEST(Reference, CandidatesOfASearchForARateAreLeftOut) {
  const fs::path file = fs::path(testing::TempDir()) / ("reference_test." + std::to_string(::getpid()) + ".jsonl");
  Record measured = synthetic::record("gpipe", 4, 0.1), candidate = measured;
  candidate.purpose = Purpose::tune;
  candidate.digest += " candidate";
  const std::vector<Record> records = {measured, candidate};
  write_reference(file, records);
  const std::vector<Record> kept = read_records(file).records;
  fs::remove(file);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].purpose, Purpose::measure);
}

TEST(Reference, OfAValidationEveryRoundIsKeptWithoutItsLosses) {
  const fs::path file = fs::path(testing::TempDir()) / ("reference_test." + std::to_string(::getpid()) + ".jsonl");
  std::vector<Record> records(3, synthetic::record("gpipe", 4, 0.1, "virtual"));
  for (int k = 0; k < 2; ++k) records[k].environment.validation = {.number = 0, .label = "gpipe", .round = k};
  write_reference(file, records);
  records.push_back(records.back());  // a case that ran twice
  write_reference(file, records);
  const std::vector<Record> kept = read_records(file).records;
  fs::remove(file);
  ASSERT_EQ(kept.size(), 3u);
  for (const Record& record : kept) EXPECT_EQ(record.curve.empty(), record.environment.validation.has_value());
}

TEST(Reference, FiguresHaveNineDigits) {
  const fs::path file = fs::path(testing::TempDir()) / "digits.jsonl";
  Record record = synthetic::record("gpipe", 4, 0.1, "virtual");
  record.curve = {{.step = 1, .seconds = 1.0 / 3, .loss = 2.0 / 3, .metric = 1.0 / 7}};
  record.observed.bubble_ratio = 1.0 / 9;
  record.plan = {.objective = 1.0 / 11, .micro_batch = 16};
  record.optimizer = OptimizerSpec{.learning_rate = 1.0 / 3};
  write_reference(file, std::vector{record});
  const Record kept = read_records(file).records.at(0);
  fs::remove(file);
  EXPECT_EQ(kept.curve.at(0).metric, 0.142857143);
  EXPECT_EQ(kept.observed.bubble_ratio, 0.111111111);
  EXPECT_EQ(kept.plan->objective, 0.0909090909);
  EXPECT_EQ(kept.optimizer->learning_rate, 1.0 / 3);  // a setting stays as it was given
}

TEST(Reference, RecordsKeepWhatPagesShow) {
  Record record = synthetic::record("gpipe", 4, 0.1, "virtual");
  record.plan = {.stages = {{.layers = {{0, 1}}, .devices = {0, 1}, .data = 2}}};
  record.plan->module_names.emplace().emplace_back(1, "up");
  const double end = std::accumulate(record.step_seconds.begin(), record.step_seconds.end(), 0.0);
  record.observed.interference = {.episodes = {{.device = 1, .start = end / 2}, {.device = 2, .start = end + 1}}};
  const Record kept = reference_record(record);
  EXPECT_TRUE(kept.timeline.empty());
  EXPECT_EQ(kept.peak_bytes.size(), 1u);
  EXPECT_EQ(kept.plan->stages.at(0).layers, std::nullopt);
  EXPECT_EQ(kept.plan->module_names, std::nullopt);
  EXPECT_EQ(kept.plan->stages.at(0).data, 2);
  EXPECT_EQ(kept.step_seconds.size(), record.step_seconds.size());
  for (std::size_t k = 0; k < kept.step_seconds.size(); ++k)
    EXPECT_NEAR(kept.step_seconds[k], record.step_seconds[k], 5e-9 * record.step_seconds[k]);
  record.clock = Clock::wall;
  record.step_seconds = {0.0123456789};
  EXPECT_EQ(reference_record(record).step_seconds, (std::vector<double>{0.01234568}));
  ASSERT_EQ(kept.observed.interference->episodes.size(), 1u);  // the other one begins after the run
  EXPECT_EQ(kept.observed.interference->episodes[0].device, 1);
}

TEST(Reference, LossesAreTheFirstThoseWithAnEvaluationAndTheLastTenth) {
  Record record = synthetic::record("gpipe", 4, 0.1, "virtual");
  record.curve.clear();
  for (int step = 1; step <= 40; ++step)
    record.curve.push_back({.step = step, .seconds = 0.1 * step, .loss = 50.0 - step});
  record.curve[9].metric = 0.5;
  const Record kept = reference_record(record);
  ASSERT_EQ(kept.curve.size(), 6u);
  EXPECT_EQ(kept.curve[0].step, 1);
  EXPECT_EQ(kept.curve[1].step, 10);
  EXPECT_EQ(kept.curve[2].step, 37);
  EXPECT_EQ(stability_of(kept), stability_of(record));
  EXPECT_DOUBLE_EQ(closing_loss(kept).value(), 11.5);  // of 13, 12, 11, 10
}

TEST(Reference, ObservedVersionsThatThePaperPromisesStandThereOnce) {
  Record record = synthetic::record("gpipe", 2, 0.1, "virtual");
  record.theory = {.in_flight = {2, 1}, .weight_versions = {2, 1}};
  record.observed.in_flight = {2, 1};
  record.observed.weight_versions = {1, 1};
  const Record kept = reference_record(record);
  EXPECT_FALSE(kept.observed.in_flight);
  EXPECT_EQ(kept.observed.weight_versions, (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace sluice
