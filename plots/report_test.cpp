// The report with stand-ins for the renderer: what it writes, what it escapes, how it fails.
#include "plots/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "harness/base/error.h"
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

  // A renderer in shell: called with CHARTS --bundle FILE.
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

TEST_F(ReportTest, WritesThePageAndTheSpecs) {
  const Report report = write_report(records_, folder_ / "out", renderer("echo 'var vegaEmbed; // </script>' > $3"));
  const std::string html = content(report.html);
  EXPECT_NE(html.find("var vegaEmbed; // <\\/script>"), std::string::npos);
  EXPECT_EQ(html.find("http://"), std::string::npos);  // nothing is fetched
  EXPECT_EQ(html.find("src="), std::string::npos);
  EXPECT_NE(html.find("Theory and observation"), std::string::npos);
  EXPECT_FALSE(report.charts.empty());
  for (const fs::path& chart : report.charts) EXPECT_TRUE(fs::exists(chart)) << chart;
  EXPECT_FALSE(fs::exists(folder_ / "out" / "charts" / ".vega.js"));
}

TEST_F(ReportTest, SaysInWordsWhatTheStudyShows) {
  const std::vector<Record> study = synthetic::study();
  const std::string html = report_html(make_charts(study), study, "");
  for (const char* text :
       {"Results, 8 ranks, learning rate tuned", "cannot be told apart: ", "How the learning rates were tuned",
        "0.05: 0.83", "seeds diverged, the first at update", "Divergence boundaries",
        "a result, and counts as not reaching the", "without<br>drain", "2/5"})
    EXPECT_NE(html.find(text), std::string::npos) << text;
}

TEST_F(ReportTest, RemovesChartsOfAnEarlierReport) {
  fs::create_directories(folder_ / "out" / "charts");
  for (const char* name : {"old.vl.json", "old.png", "mine.png"})
    std::ofstream(folder_ / "out" / "charts" / name) << "x";
  write_report(records_, folder_ / "out", renderer("touch $3"));
  EXPECT_FALSE(fs::exists(folder_ / "out" / "charts" / "old.png"));
  EXPECT_TRUE(fs::exists(folder_ / "out" / "charts" / "mine.png"));  // not a chart of ours
}

TEST_F(ReportTest, EscapesWhatRecordsSay) {
  records_[1].system = "<script>alert(1)</script>";
  records_[1].reason = "a < b & \"c\"";
  records_[1].environment = {{"cpu", "<img>"}};
  const std::string html = report_html(make_charts(records_), records_, "");
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("</script>alert"), std::string::npos);
  EXPECT_EQ(html.find("<img>"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert(1)&lt;/script&gt;"), std::string::npos);
  EXPECT_NE(html.find("\\u003cscript>alert"), std::string::npos);  // in the specs
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
  std::ofstream(folder_ / "out" / "report.html") << "earlier";
  failure(renderer("exit 1"));
  EXPECT_EQ(content(folder_ / "out" / "report.html"), "earlier");
}

TEST_F(ReportTest, RefusesWhatItCannotDo) {
  EXPECT_THROW(write_report({}, folder_ / "out", {}), InputError);
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THROW(write_report(records_, folder_ / "file", {}), InputError);
}

}  // namespace
}  // namespace sluice
