// A metric in two dimensions: places, digits, the best of a column, and LaTeX.
#include "results/pivot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "harness/base/expect_error.h"
#include "harness/base/run_program.h"
#include "results/compare.h"

namespace sluice {
namespace {

Record pivot_run(const std::string& system, int microbatches, double seconds) {
  Record r;
  r.system = system;
  r.workload = "mlp";
  r.workload_facts = {.title = "A small MLP"};
  r.cluster = "flat:4";
  r.clock = Clock::virtual_clock;
  r.transport = "none";
  r.ranks = 4;
  r.batch = 100;
  r.microbatches = microbatches;
  r.options = {{"microbatches", std::to_string(microbatches)}};
  r.samples_per_step = 100;
  r.step_seconds.assign(8, seconds);
  r.peak_bytes = {{.total = std::int64_t{3} << 29}};
  r.digest = system + std::to_string(microbatches);
  return r;
}

std::vector<Record> pivot_runs() {
  std::vector<Record> records = {pivot_run("gpipe", 16, 0.5),       pivot_run("gpipe", 4, 20),
                                 pivot_run("one_f_one_b", 16, 0.4), pivot_run("one_f_one_b", 4, 20),
                                 pivot_run("zero_bubble", 16, 1),   pivot_run("chimera", 4, 0.01)};
  records[4].outcome = RecordOutcome::out_of_memory;
  return records;
}

PivotOptions pivot_options() {
  return {.rows = "system", .columns = "microbatches", .metric = "throughput", .bold = true};
}

TEST(Pivot, ALatexTableHasEqualDigitsInAColumnAndItsBestInBold) {
  // 100 samples in 0.5, 0.4 s: 200, 250; in 20 s: 5, in 0.01 s: 10000, so that 4 micro-batches keep five digits.
  PivotOptions o = pivot_options();
  o.caption = "Throughput, 50% more";
  o.label = "tab:rates";
  const std::string latex = to_latex(pivot(compare(pivot_runs()), o), o);
  EXPECT_TRUE(latex.starts_with(R"(% \usepackage{booktabs,siunitx}
\begin{table}
\centering
\caption{Throughput, 50\% more}
\label{tab:rates}
\begin{tabular}{lS[table-format=5.0,detect-weight]S[table-format=3.0,detect-weight]}
\toprule
 & \multicolumn{2}{c}{samples/s, by micro-batches} \\
\cmidrule(l){2-3}
system & {4} & {16} \\
\midrule
)")) << latex;
  for (const char* line : {"1F1B & 5 & \\bfseries 250 \\\\\n", "GPipe & 5 & 200 \\\\\n",
                           "Chimera & \\bfseries 10000 & {--} \\\\\n", "Zero bubble & {--} & {OOM} \\\\\n"})
    EXPECT_NE(latex.find(line), std::string::npos) << latex;
  EXPECT_TRUE(latex.ends_with("\\bottomrule\n\\end{tabular}\n\\end{table}\n")) << latex;
}

TEST(Pivot, TheSmallestOfAColumnHasThreeDigits) {
  const PivotTable table =
      pivot(compare(std::vector<Record>{pivot_run("gpipe", 4, 80), pivot_run("one_f_one_b", 4, 4)}), pivot_options());
  ASSERT_EQ(table.columns, std::vector<std::string>{"4"});
  std::map<std::string, std::string> shown;  // 100 in 80 s: 1.25; in 4 s: 25
  for (std::size_t i = 0; i < table.rows.size(); ++i) shown[table.rows[i]] = table.cells[i][0].text;
  EXPECT_EQ(shown, (std::map<std::string, std::string>{{"GPipe", "1.25"}, {"1F1B", "25.00"}}));
}

TEST(Pivot, MemoryIsInOneUnitAndItsLeastIsBest) {
  PivotOptions o = pivot_options();
  o.metric = "peak_memory";
  std::vector<Record> records = {pivot_run("gpipe", 4, 1), pivot_run("one_f_one_b", 4, 1)};
  records[1].peak_bytes[0].total = std::int64_t{1} << 29;
  const PivotTable table = pivot(compare(records), o);
  EXPECT_EQ(table.measure, "peak in GiB");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(table.cells[i][0].best, table.rows[i] == "1F1B");
    EXPECT_EQ(table.cells[i][0].text, table.rows[i] == "1F1B" ? "0.500" : "1.500");
  }
}

TEST(Pivot, ASettingThatNoRunHasAndACellOfTwoRunsAreErrors) {
  PivotOptions o = pivot_options();
  o.columns = "microbatch";
  const auto error = [&] { return error_of([&] { pivot(compare(pivot_runs()), o); }); };
  EXPECT_NE(error().find("no run has a setting 'microbatch'"), std::string::npos) << error();
  o.columns = "ranks";
  EXPECT_NE(error().find("two runs share the cell GPipe, 4: gpipe microbatches="), std::string::npos) << error();
}

TEST(Pivot, TheLatexTableCompiles) {
  namespace fs = std::filesystem;
  if (!run_program({"pdflatex", "--version"}, {}).ok()) GTEST_SKIP() << "pdflatex is not installed";
  for (const char* package : {"booktabs.sty", "siunitx.sty"})
    if (!run_program({"kpsewhich", package}, {}).ok()) GTEST_SKIP() << package << " is not installed";
  const fs::path folder = fs::temp_directory_path() / ("sluice-pivot-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const PivotOptions o = pivot_options();
  std::ofstream(folder / "table.tex") << "\\documentclass{article}\n\\usepackage{booktabs,siunitx}\n\\begin{document}\n"
                                      << to_latex(pivot(compare(pivot_runs()), o), o) << "\\end{document}\n";
  const ProgramEnd ended = run_program({"pdflatex", "-interaction=nonstopmode", "-halt-on-error",
                                        "-output-directory=" + folder.string(), (folder / "table.tex").string()},
                                       {.with_errors = true, .max_output = 4000});
  EXPECT_TRUE(ended.ok()) << ended.output;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace sluice
