// Figures for papers: exact sizes, looks that stay, one time axis, and what records must hold.
#include "plots/figure.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "harness/base/expect_error.h"
#include "harness/base/read_text.h"
#include "harness/base/run_program.h"
#include "harness/base/source_folder.h"
#include "plots/figure_frame.h"
#include "plots/renderer.h"
#include "plots/synthetic_test.h"
#include "results/system_style.h"

namespace sluice {
namespace {

std::vector<Record> figure_runs(const std::vector<std::string>& systems) {
  std::vector<Record> records;
  double seconds = 0.1;
  for (const std::string& system : systems) {
    for (const std::uint64_t seed : {1, 2}) {
      records.push_back(synthetic::record(system, 4, seconds, "virtual", seed));
      records.back().observed.bubble_ratio = 0.25;
    }
    seconds /= 2;
  }
  return records;
}

FigureOptions of_kind(const std::string& kind) { return {.kind = kind, .width = 240, .font_size = 8}; }

// The values of a member of a layer's data or mark.
std::vector<Json> members_named(const Json& json, const std::string& key) {
  std::vector<Json> found;
  if (json.is_object() && json.contains(key)) found.push_back(json[key]);
  const auto add = [&](const Json& part) {
    for (Json& more : members_named(part, key)) found.push_back(std::move(more));
  };
  if (json.is_object())
    for (const auto& [name, part] : json.items()) add(part);
  if (json.is_array())
    for (const Json& part : json) add(part);
  return found;
}

bool shows(const Json& spec, const std::string& key, const Json& value) {
  const std::vector<Json> found = members_named(spec, key);
  return std::ranges::find(found, value) != found.end();
}

TEST(Figure, EveryKindHasItsExactWidthAndOneSizeOfText) {
  std::vector<Record> records = figure_runs({"gpipe", "one_f_one_b"});
  for (Record& r : figure_runs({"gpipe", "one_f_one_b"})) {
    r.ranks = 8;
    r.digest += "8";
    records.push_back(r);
  }
  for (const std::string& kind : kFigureKinds)
    for (const double width : {237.6, 504.0}) {
      FigureOptions options = of_kind(kind);
      options.width = width;
      options.height = 150;
      options.font_size = 7;
      const std::vector<Record> of_four(records.begin(), records.begin() + 4);
      const Json spec = figure_spec(kind == "scaling" ? records : of_four, options);
      const Json& padding = spec["padding"];
      EXPECT_NEAR(spec["width"].get<double>() + padding["left"].get<double>() + padding["right"].get<double>(), width,
                  1e-9)
          << kind;
      EXPECT_NEAR(spec["height"].get<double>() + padding["top"].get<double>() + padding["bottom"].get<double>(), 150,
                  1e-9)
          << kind;
      for (const char* size : {"fontSize", "labelFontSize", "titleFontSize"})
        for (const Json& points : members_named(spec, size)) EXPECT_EQ(points, 7) << kind;
      EXPECT_FALSE(spec.contains("title")) << kind;
    }
}

TEST(Figure, ASystemLooksTheSameWhateverElseIsShown) {
  const std::string color = system_style("gpipe").color;
  for (const char* kind : {"throughput", "pareto", "memory", "loss", "time-to-accuracy", "bubbles"}) {
    EXPECT_TRUE(shows(figure_spec(figure_runs({"gpipe"}), of_kind(kind)), "color", color)) << kind;
    EXPECT_TRUE(shows(figure_spec(figure_runs({"chimera", "fsdp", "gpipe", "zeropp"}), of_kind(kind)), "color", color))
        << kind;
  }
}

TEST(Figure, SystemsHaveTheirTitlesOrTheNamesThatWereGiven) {
  FigureOptions options = of_kind("pareto");
  Json spec = figure_spec(figure_runs({"gpipe", "one_f_one_b"}), options);
  EXPECT_TRUE(shows(spec, "text", "1F1B"));
  options.names = {{"one_f_one_b", "Ours"}};
  options.title = "Both";
  spec = figure_spec(figure_runs({"gpipe", "one_f_one_b"}), options);
  EXPECT_TRUE(shows(spec, "text", "Ours"));
  EXPECT_FALSE(shows(spec, "text", "1F1B"));
  EXPECT_TRUE(shows(spec, "text", "Both"));
}

TEST(Figure, RowsAreInTheOrderThatIsAskedFor) {
  FigureOptions options = of_kind("throughput");
  options.systems = {"zero_bubble", "gpipe", "one_f_one_b"};
  const std::vector<Record> records = figure_runs({"gpipe", "one_f_one_b", "zero_bubble"});  // each twice as fast
  const auto order = [&](const std::string& by) {
    options.order = by;
    return figure_spec(records, options)["layer"][0]["encoding"]["y"]["scale"]["domain"];
  };
  EXPECT_EQ(order("name"), Json::parse(R"(["1F1B", "GPipe", "Zero bubble"])"));
  EXPECT_EQ(order("value"), Json::parse(R"(["Zero bubble", "1F1B", "GPipe"])"));
  EXPECT_EQ(order("given"), Json::parse(R"(["Zero bubble", "GPipe", "1F1B"])"));
}

TEST(Figure, TimelinesShareOneTimeAxis) {
  const Json spec =
      figure_spec(figure_runs({"gpipe", "one_f_one_b"}), of_kind("timelines"));  // 100 ms and 50 ms an update
  std::vector<double> ends;
  for (const Json& layer : spec["layer"])
    if (layer["mark"].value("color", "") == "#ececec")
      for (const Json& idle : layer["data"]["values"]) ends.push_back(idle["end"].get<double>());
  ASSERT_EQ(ends.size(), 8u);  // 4 ranks each; 1F1B, the faster one, above
  EXPECT_NEAR(ends[4], 2 * ends[0], 1e-9);
  for (const Json& layer : spec["layer"])
    if (layer["mark"].value("color", "") == "#ececec") {
      EXPECT_EQ(layer["encoding"]["x"]["scale"]["domain"], Json::array({0.0, ends[4]}));
    }
}

TEST(Figure, ThroughputAgainstMemoryHasTheLimitOfTheDevice) {
  std::vector<Record> records = figure_runs({"gpipe", "one_f_one_b"});
  for (Record& r : records) r.cluster = "flat:4,memory=16GiB";
  const Json spec = figure_spec(records, of_kind("pareto"));
  EXPECT_TRUE(shows(spec, "text", "limit 16 GiB"));
  for (Record& r : records) r.cluster = "this machine";
  EXPECT_EQ(figure_spec(records, of_kind("pareto")).dump().find("limit 1"), std::string::npos);
}

// An axis that one layer leaves to Vega-Lite would thin out the ticks of all layers.
TEST(Figure, EveryLayerGivesTheSameTicks) {
  std::vector<Record> records = figure_runs({"gpipe", "one_f_one_b"});
  for (Record& r : records) r.cluster = "flat:4,memory=1GiB";
  std::vector<Record> of_two_clusters = figure_runs({"gpipe", "one_f_one_b"});
  of_two_clusters.insert(of_two_clusters.end(), records.begin(), records.end());
  for (const auto& [kind, shown] : {std::pair("pareto", records), {"throughput", of_two_clusters}}) {
    const Json spec = figure_spec(shown, of_kind(kind));
    for (const char* along : {"x", "y"})
      for (const Json& place : members_named(spec, along))
        if (place.is_object() && place.contains("type") && place["type"] == "quantitative") {
          EXPECT_TRUE(place.contains("axis") && place["axis"].contains("values")) << kind << " " << place.dump();
        }
  }
}

TEST(Figure, BarsInGroupsHaveTheMarkersOfTheirSystemsForPrintsWithoutColour) {
  std::vector<Record> records = figure_runs({"gpipe", "one_f_one_b"});
  for (Record& r : figure_runs({"gpipe", "one_f_one_b"})) {
    r.ranks = 8;
    r.digest += "8";
    records.push_back(r);
  }
  const Json spec = figure_spec(records, of_kind("throughput"));
  for (const char* shape : {"diamond", "triangle-up"})  // data of two bars, of their markers, and the legend
    EXPECT_EQ(std::ranges::count(members_named(spec, "shape"), Json(shape)), 2 * 2 + 1) << shape;
}

TEST(Figure, ALossHasItsBandOverTheSeeds) {
  std::vector<Record> records = figure_runs({"gpipe"});
  for (Record& r : records)
    r.curve = {{1, 1, 4.0, std::nullopt}, {2, 2, 2.0 + static_cast<double>(r.seed), std::nullopt}};
  const Json spec = figure_spec(records, of_kind("loss"));
  EXPECT_EQ(spec["layer"][0]["mark"]["type"], "area");
  const Json& last = spec["layer"][0]["data"]["values"][1];
  EXPECT_EQ(last["value"], 3);
  EXPECT_EQ(last["high"], 4);
  EXPECT_EQ(spec["layer"][1]["data"]["values"][1]["value"], 3.5);
}

TEST(Figure, WhatARecordLacksIsNamed) {
  std::vector<Record> records = figure_runs({"gpipe"});
  for (Record& r : records) {
    r.timeline.clear();
    r.curve.clear();
    r.observed.bubble_ratio.reset();
    r.peak_bytes.clear();
    r.predicted_peak_bytes.clear();
    r.step_seconds.clear();
  }
  const std::map<std::string, std::string> lacking = {{"throughput", "step after the warm-up"},
                                                      {"scaling", "two rank counts"},
                                                      {"pareto", "peak_bytes"},
                                                      {"time-to-accuracy", "workload_facts.target"},
                                                      {"memory", "timeline"},
                                                      {"timelines", "timeline"},
                                                      {"bubbles", "observed.bubble_ratio"},
                                                      {"loss", "curve"}};
  for (const std::string& kind : kFigureKinds) {
    const std::string error = error_of([&] { figure_spec(records, of_kind(kind)); });
    EXPECT_TRUE(error.starts_with("figure " + kind + ": ")) << error;
    EXPECT_NE(error.find(lacking.at(kind)), std::string::npos) << error;
  }
}

TEST(Figure, ReferencesOfSeveralExperimentsAreNoBars) {
  std::vector<Record> records = figure_runs({"single_device"});
  records.back().batch = 256;
  EXPECT_EQ(error_of([&] { figure_spec(records, of_kind("throughput")); }),
            "figure throughput: of several experiments, only runs on one device have a value: they are what others are "
            "compared with; add records of other systems, or choose one experiment: --filter workload=NAME");
}

TEST(Figure, OneExperimentIsShownAndTheOthersAreTold) {
  std::vector<Record> records = figure_runs({"gpipe"});
  records.back().batch = 256;
  const std::string error = error_of([&] { figure_spec(records, of_kind("loss")); });
  EXPECT_NE(error.find("which differ in batch (128, 256); choose one with --filter, as in --filter batch=128"),
            std::string::npos)
      << error;
}

TEST(Figure, ANameOrASystemThatIsNotThereAndTooLittleRoomAreErrors) {
  FigureOptions options = of_kind("throughput");
  options.names = {{"gpip", "G"}};
  EXPECT_NE(error_of([&] { figure_spec(figure_runs({"gpipe"}), options); }).find("did you mean 'gpipe'"),
            std::string::npos);
  options.names = {{"gpipe", "A name that is much too long for the labels of such a narrow figure"}};
  EXPECT_NE(error_of([&] { figure_spec(figure_runs({"gpipe"}), options); }).find("leave no room"), std::string::npos);
  EXPECT_NE(error_of([&] {
              FigureOptions wide = options;
              wide.kind = "loss";
              wide.names = {{"gpipe", std::string(80, 'm')}};
              figure_spec(figure_runs({"gpipe"}), wide);
            }).find("a name's longest word leaves no room: the legend needs "),
            std::string::npos);
  options = of_kind("throughput");
  options.systems = {"chimera"};
  EXPECT_NE(error_of([&] { figure_spec(figure_runs({"gpipe"}), options); }).find("no record of system 'chimera'"),
            std::string::npos);
}

TEST(Figure, ANameInTheLegendThatIsWiderThanTheFigureHasSeveralLines) {
  FigureOptions options = of_kind("loss");
  options.names = {
      {"gpipe", "A name that is much too long for the legend of such a narrow figure, in three lines or so"}};
  const std::string spec = figure_spec(figure_runs({"gpipe"}), options).dump();
  const std::size_t text = spec.find(R"("text":["A name that is)");
  ASSERT_NE(text, std::string::npos) << spec;
  EXPECT_LT(spec.find("narrow", text), spec.find(']', text));
}

TEST(Figure, TextsAreMeasuredInHelvetica) {
  EXPECT_NEAR(text_width("1F1B", 10), 23.9, 1e-9);  // 556 + 611 + 556 + 667 thousandths
  EXPECT_NEAR(text_width("", 10), 0, 1e-9);
}

TEST(Figure, TicksAreRoundNumbers) {
  EXPECT_EQ(round_ticks(0, 100, 4), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(round_ticks(0, 0.9, 3), (std::vector<double>{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(round_ticks(3, 8, 5), (std::vector<double>{3, 4, 5, 6, 7, 8}));
}

TEST(Figure, FilesHaveThatSizeWithTheirFontsInside) {
  const std::string own = source_folder() + "/.venv/bin/python";
  const std::string python = std::filesystem::exists(own) ? own : "python3";
  if (!run_program({python, "-c", "import vl_convert"}).ok()) GTEST_SKIP() << python << " has no vl-convert-python";
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sluice-figure-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  FigureOptions options = of_kind("pareto");
  options.height = 150;
  write_text(folder / "pareto.vl.json", figure_spec(figure_runs({"gpipe", "one_f_one_b"}), options).dump());
  const Renderer renderer = {python, source_folder() + "/plots/render.py"};
  render_charts(renderer, folder, parse_formats("pdf,png,pgf"), /*in_points=*/true);
  const std::string pdf = read_whole_file(folder / "pareto.pdf");
  EXPECT_NE(pdf.find("/MediaBox [0 0 240 150]"), std::string::npos);
  EXPECT_NE(pdf.find("/FontFile"), std::string::npos);
  EXPECT_NE(read_whole_file(folder / "pareto.svg").find("width=\"240pt\" height=\"150pt\""), std::string::npos);
  const std::string png = read_whole_file(folder / "pareto.png");  // big-endian width and height from byte 16 on
  const auto big_endian = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value * 256 + static_cast<unsigned char>(png.at(at + i));
    return value;
  };
  EXPECT_EQ(big_endian(16), 1000);  // 240 / 72 * 300
  EXPECT_EQ(big_endian(20), 625);
  const std::string pgf = read_whole_file(folder / "pareto.pgf");
  EXPECT_NE(pgf.find("\\pgfpathrectangle{\\pgfpointorigin}{\\pgfqpoint{240bp}{150bp}}"), std::string::npos);
  EXPECT_NE(pgf.find("\\fontsize{8bp}{9.6bp}\\selectfont 1F1B}"), std::string::npos);
  if (run_program({"pdflatex", "--version"}).ok() && run_program({"kpsewhich", "pgflibrarysvg.path.code.tex"}).ok()) {
    write_text(folder / "page.tex",
               "\\documentclass{article}\n\\usepackage{pgf,xcolor}\n\\usepgflibrary{svg.path}\n"
               "\\begin{document}\n\\input{" +
                   (folder / "pareto.pgf").string() + "}\n\\end{document}\n");
    const ProgramEnd ended = run_program({"pdflatex", "-interaction=nonstopmode", "-halt-on-error",
                                          "-output-directory=" + folder.string(), (folder / "page.tex").string()},
                                         {.with_errors = true, .max_output = 4000});
    EXPECT_TRUE(ended.ok()) << ended.output;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice
