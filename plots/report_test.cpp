// The report with stand-ins for the renderer: what it writes, what it escapes, how it fails.
#include "plots/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "harness/base/error.h"
#include "plots/report_tables.h"
#include "plots/synthetic_test.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

class ReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "sluice-report-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    records_ = {synthetic::record("single_device", 1, 0.1), synthetic::record("gpipe", 4, 0.05)};
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A renderer in shell: called with CHARTS --formats LIST.
  std::vector<std::string> renderer(const std::string& script) {
    std::ofstream(folder_ / "render.sh") << script << "\n";
    return {"sh", (folder_ / "render.sh").string()};
  }
  std::string failure(const std::vector<std::string>& command) {
    try {
      write_report(records_, folder_ / "out", command);
    } catch (const RunError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }
  static std::string content(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
  std::vector<Record> records_;
};

constexpr const char* kDrawsEachChart =
    "for spec in $1/*.vl.json; do echo \"<svg width='8' viewBox='0 0 8 8'><g id=\\\"clip0\\\"/></svg>\" > "
    "${spec%.vl.json}.svg; done; echo $3 > $1/../formats";

TEST_F(ReportTest, WritesThePageWithItsPicturesInside) {
  const Report report = write_report(records_, folder_ / "out", renderer(kDrawsEachChart), parse_formats("png"));
  const std::string html = content(report.html);
  EXPECT_EQ(html.find("http://"), std::string::npos);  // nothing is fetched
  EXPECT_EQ(html.find(" src="), std::string::npos);
  EXPECT_NE(html.find("Theory and observation"), std::string::npos);
  ASSERT_FALSE(report.charts.empty());
  for (const fs::path& chart : report.charts) {
    EXPECT_TRUE(fs::exists(chart)) << chart;
    std::string name = chart.filename().string();
    name.resize(name.size() - std::string(".vl.json").size());
    EXPECT_NE(html.find("id=\"" + name + "-clip0\""), std::string::npos) << name;  // ids of two pictures differ
    EXPECT_NE(html.find("charts/" + name + ".png"), std::string::npos) << name;
  }
  EXPECT_EQ(content(folder_ / "out" / "formats"), "svg,png\n");
}

TEST_F(ReportTest, TokensAndUtilisationStandBesideThroughputWhereTheyAreKnown) {
  const auto page = [&] { return content(write_report(records_, folder_ / "out", renderer(kDrawsEachChart)).html); };
  EXPECT_EQ(page().find("<th>MFU</th>"), std::string::npos);
  records_[1].work = {.tokens = 10, .flop = 1e9, .devices = 4, .peak_flops = 1e13};
  const std::string html = page();
  EXPECT_NE(html.find("<th>tokens/s</th><th>MFU</th>"), std::string::npos);
}

TEST_F(ReportTest, RejectsFormatsItDoesNotHave) {
  EXPECT_EQ(parse_formats("svg,pdf,svg"), (std::vector{PictureFormat::svg, PictureFormat::pdf}));
  for (const char* text : {"", "gif", "svg,,png", "svg,"}) EXPECT_THROW(parse_formats(text), InputError) << text;
}

TEST_F(ReportTest, TheAnswersComeFirst) {
  const std::vector<Record> all = synthetic::records();
  const std::string html = report_html(make_charts(all), all, {});
  const std::size_t answers = html.find("<h2 id=\"answers\">");
  ASSERT_NE(answers, std::string::npos);
  EXPECT_LT(answers, html.find("<details class=\"section\""));
  EXPECT_LT(html.find("<details class=\"section\""), html.find("<h2 id=\"fairness\">"));
  for (const char* text :
       {"Fastest synchronous system on the wall clock: ", "the model&#39;s error of 8 %", "1 out of memory",
        "on its fullest rank", "Soonest at its target", "Its quality", "reached in"})
    EXPECT_NE(html.find(text), std::string::npos) << text;
  EXPECT_EQ(html.find("exact: the simulation"), std::string::npos);
}

TEST_F(ReportTest, EveryFigureLinksToItsRecords) {
  const std::vector<Record> all = synthetic::records();
  const std::string html = report_html(make_charts(all), all, {});
  std::size_t figures = 0;
  for (std::size_t at = 0; (at = html.find("<figure", at)) != std::string::npos; ++at, ++figures) {
    const std::size_t link = html.find("<a href=\"#", at) + 10;
    const std::string id = html.substr(link, html.find('"', link) - link);
    EXPECT_LT(link, html.find("</figure>", at));
    EXPECT_NE(html.find("id=\"" + id + "\""), std::string::npos) << id;
  }
  EXPECT_GT(figures, 20u);
  for (const Record& record : all) EXPECT_NE(html.find(record.digest), std::string::npos) << record.digest;
}

TEST_F(ReportTest, PartsBesideTheRecordsAreShownAndEscaped) {
  ChartSet set = make_charts(records_);
  set.parts.push_back({.id = "more", .heading = "<b>More</b>", .text = "<i>text</i>", .table = "<table></table>"});
  const std::string html = report_html(set, records_, {});
  EXPECT_NE(html.find("<h2>&lt;b&gt;More&lt;/b&gt;</h2>"), std::string::npos);
  EXPECT_EQ(html.find("<i>text"), std::string::npos);
  EXPECT_NE(html.find("<table></table>"), std::string::npos);
  EXPECT_NE(html.find("href=\"#more\""), std::string::npos);
}

TEST(ReportSentences, NameSystemsByTheirTitles) {
  std::vector<Record> records = {synthetic::record("single_device", 1, 0.4, "virtual"),
                                 synthetic::record("one_f_one_b", 4, 0.1, "virtual"),
                                 synthetic::record("zero_bubble", 4, 0.1, "virtual")};
  const std::string html = report_html(make_charts(records), records, {});
  EXPECT_NE(html.find("1. 1F1B, Zero bubble"), std::string::npos);
  EXPECT_NE(html.find("Ratio: throughput relative to Single device."), std::string::npos);
  for (const char* identifier : {"1. one_f_one_b", "relative to single_device", "dashed: single_device"})
    EXPECT_EQ(html.find(identifier), std::string::npos) << identifier;
}

TEST(FoldedList, RunsBecomeRanges) {
  EXPECT_EQ(folded_list({"8", "7", "6", "5"}), "8 to 5");
  EXPECT_EQ(folded_list({"1", "2", "3", "9"}), "1 to 3, 9");
  EXPECT_EQ(folded_list({"1", "1", "1", "2"}), "3 × 1, 2");
  EXPECT_EQ(folded_list({"2", "1"}), "2, 1");
  EXPECT_EQ(folded_list({"16", "16", "15", "15", "13"}), "16, 16, 15, 15, 13");
  EXPECT_EQ(folded_list({"0.5", "x", "-1", "0", "1"}), "0.5, x, -1 to 1");
  EXPECT_EQ(folded_list({}), "");
}

TEST_F(ReportTest, SaysInWordsWhatTheStudyShows) {
  const std::vector<Record> study = synthetic::study();
  const std::string html = report_html(make_charts(study), study, {});
  for (const char* text :
       {"Results, 8 ranks, learning rate tuned", "cannot be told apart: ", "How the learning rates were tuned",
        "0.05: 0.83", "seeds diverged, the first at update", "Divergence boundaries",
        "a result, and counts as not reaching the", "without<br>drain", "2/5"})
    EXPECT_NE(html.find(text), std::string::npos) << text;
}

TEST_F(ReportTest, RemovesChartsOfAnEarlierReport) {
  fs::create_directories(folder_ / "out" / "charts");
  for (const char* name : {"old.png", "mine.png", "theirs.vl.json"})
    std::ofstream(folder_ / "out" / "charts" / name) << "x";
  std::ofstream(folder_ / "out" / "charts" / "old.vl.json") << "{\n \"$schema\": \"\"\n}\n";
  write_report(records_, folder_ / "out", renderer("true"));
  EXPECT_FALSE(fs::exists(folder_ / "out" / "charts" / "old.png"));
  EXPECT_FALSE(fs::exists(folder_ / "out" / "charts" / "old.vl.json"));
  for (const char* name : {"mine.png", "theirs.vl.json"})  // no charts of ours
    EXPECT_TRUE(fs::exists(folder_ / "out" / "charts" / name)) << name;
}

TEST_F(ReportTest, EscapesWhatRecordsSay) {
  records_[1].system = "<script>alert(1)</script>";
  records_[1].reason = "a < b & \"c\"";
  records_[1].environment = {.machine = Environment::Machine{.cpu = "<img>"}};
  records_[1].options = {{"variant", "<svg onload=alert(2)>"}};
  records_[1].digest = "\"><script>alert(3)</script>";
  records_[1].cluster = records_[0].cluster = "<script>alert(4)</script>";
  const std::string html = report_html(make_charts(records_), records_, {});
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("</script>alert"), std::string::npos);
  EXPECT_EQ(html.find("<svg onload"), std::string::npos);
  EXPECT_EQ(html.find("<img>"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert(1)&lt;/script&gt;"), std::string::npos);
  EXPECT_EQ(escape_html("<a b='\"&"), "&lt;a b=&#39;&quot;&amp;");
}

TEST_F(ReportTest, SaysWhichCommandHelps) {
  EXPECT_NE(failure({"/no/such/python", "render.py"}).find("./quickstart"), std::string::npos);
  EXPECT_NE(failure({}).find("./quickstart"), std::string::npos);
  EXPECT_NE(failure(renderer("exit 3")).find("-m pip install vl-convert-python"), std::string::npos);
  const std::string message = failure(renderer("echo bad mark >&2; exit 1"));
  EXPECT_NE(message.find("ended with code 1"), std::string::npos) << message;
  EXPECT_NE(message.find("bad mark"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(folder_ / "out" / "report.html"));
}

TEST_F(ReportTest, AnEarlierPageStaysWhenRenderingFails) {
  fs::create_directories(folder_ / "out");
  const std::string earlier = "<title>Sluice report</title>earlier";
  std::ofstream(folder_ / "out" / "report.html") << earlier;
  failure(renderer("exit 1"));
  EXPECT_EQ(content(folder_ / "out" / "report.html"), earlier);
}

TEST_F(ReportTest, APageOfSomebodyElseIsNotReplaced) {
  fs::create_directories(folder_ / "out");
  std::ofstream(folder_ / "out" / "report.html") << "my notes";
  EXPECT_THROW(write_report(records_, folder_ / "out", {}), InputError);
  EXPECT_EQ(content(folder_ / "out" / "report.html"), "my notes");
  EXPECT_FALSE(fs::exists(folder_ / "out" / "charts"));
}

TEST_F(ReportTest, RejectsWhatItCannotDo) {
  EXPECT_THROW(write_report({}, folder_ / "out", {}), InputError);
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THROW(write_report(records_, folder_ / "file", {}), InputError);
}

}  // namespace
}  // namespace sluice
