#include "harness/program/profiler_trace.h"

#include <gtest/gtest.h>
#include <sluice_build.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/program/trace_figures.h"

namespace sluice {
namespace {

// An event of a profiler's trace; times in microseconds.
Json event(const char* category, const std::string& name, double start, double duration, const Json& args = {}) {
  return {{"ph", "X"}, {"cat", category}, {"name", name},    {"pid", 7},
          {"tid", 7},  {"ts", start},     {"dur", duration}, {"args", args.is_null() ? Json::object() : args}};
}
Json trace(int rank, const std::vector<Json>& events) {
  return {{"traceEvents", events}, {"distributedInfo", {{"rank", rank}}}, {"baseTimeNanoseconds", 1000}};
}

class ProfilerTrace : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-trace-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return folder_ + "/" + name;
  }
  std::string put(const std::string& name, const Json& json) const { return put(name, json.dump()); }
  // Two stages, two micro-batches, GPipe; F takes 1 s (rank 1: 2 s), B 2 s, a message 0.5 s; in order:
  //   rank 0  F0 F1 .......... B0 B1        from 0, 1; 7, 9.5
  //   rank 1  ... F0 F1 B0 B1               from 1.5, 3.5; 5.5 (to 6.5), 6.5 (to 9)
  std::vector<std::string> gpipe() const {
    const auto op = [](const std::string& name, double start, double end) {
      return event("user_annotation", name, start * 1e6, (end - start) * 1e6);
    };
    return {put("r0.json", trace(0, {op("Forward 0", 0, 1), op("Forward 1", 1, 2), op("Backward 0", 7, 9),
                                     op("Backward 1", 9.5, 11.5)})),
            put("r1.json", trace(1, {op("Forward 0", 1.5, 3.5), op("Forward 1", 3.5, 5.5), op("Backward 0", 5.5, 6.5),
                                     op("Backward 1", 6.5, 9)}))};
  }
  std::string folder_;
};

std::vector<std::string> stored(const std::string& name) {
  const std::string file = SLUICE_SOURCE_DIR "/harness/tests/data/traces/" + name;
  return {file + "_rank0.json", file + "_rank1.json"};
}

// Busy 6 and 7.5 s of 11.5 s each; stage 0: F 1, B 2; stage 1: F 2, B 1.75.
TEST_F(ProfilerTrace, OfGPipeGivesBubbleExposedCommunicationAndCosts) {
  const TraceFigures f = figures_of(read_traces(gpipe(), {}));
  EXPECT_EQ(f.updates, 1);
  EXPECT_EQ(f.microbatches, 2);
  EXPECT_DOUBLE_EQ(f.makespan, 11.5);
  EXPECT_DOUBLE_EQ(f.bubble_ratio, (5.5 + 4) / 23);
  EXPECT_DOUBLE_EQ(f.span_bubble, 1 - 7.5 / 11.5);
  EXPECT_EQ(f.steady_bubble, std::nullopt);
  // Rank 0 waits for B0 of stage 1, which ends at 6.5, until 7, and for B1, which has ended at 9, from 9 to 9.5. Rank 1
  // waits from 1 to 1.5; F1 is there when F0 ends.
  EXPECT_DOUBLE_EQ(f.ranks[0].exposed, 1);
  EXPECT_DOUBLE_EQ(f.ranks[1].exposed, 0.5);
  EXPECT_DOUBLE_EQ(f.exposed_share, 1.5 / 23);
  EXPECT_DOUBLE_EQ(f.latency, 0.5);
  ASSERT_EQ(f.stages.size(), 2u);
  EXPECT_DOUBLE_EQ(f.stages[1].forward, 2);
  EXPECT_DOUBLE_EQ(f.stages[1].input_gradient, 0.875);
  EXPECT_DOUBLE_EQ(f.stages[1].weight_gradient, 0.875);
  EXPECT_DOUBLE_EQ(f.imbalance, 3.75 / ((3 + 3.75) / 2));
  EXPECT_EQ(table_of(read_traces(gpipe(), {})), "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
}

TEST_F(ProfilerTrace, FilesMayComeInAnyOrderAndCompressed) {
  std::vector<std::string> files = gpipe();
  std::ifstream plain(files[1]);
  const std::string text((std::istreambuf_iterator<char>(plain)), {});
  const std::string packed = folder_ + "/r1.json.gz";
  const gzFile out = gzopen(packed.c_str(), "wb");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
  const TracedRun run = read_traces({packed, files[0]}, {});
  EXPECT_EQ(run.ranks[0].file, files[0]);
  EXPECT_EQ(run.ranks[1].file, packed);
  EXPECT_DOUBLE_EQ(figures_of(run).bubble_ratio, 9.5 / 23);
}

// The receive inside a forward is no compute; the clocks of the files begin at different times.
TEST_F(ProfilerTrace, ReceivesAndSendsInsideARangeAreCommunication) {
  Json second = trace(1, {event("user_annotation", "Forward 0", 0, 5e6), event("cpu_op", "c10d::recv_", 1e5, 2e5),
                          event("user_annotation", "gloo:recv", 3e5, 1.7e6), event("cpu_op", "c10d::send", 4.5e6, 1e5),
                          event("user_annotation", "Backward 0", 5e6, 1e6)});
  second["baseTimeNanoseconds"] = 500'001'000;
  const auto first =
      put("0.json",
          trace(0, {event("user_annotation", "Forward 0", 0, 1e6), event("user_annotation", "Backward 0", 8e6, 1e6)}));
  const TracedRun run = read_traces({first, put("1.json", second)}, {});
  const TracedOp& forward = run.ranks[1].updates[0][0];
  EXPECT_DOUBLE_EQ(forward.start, 2.5);
  EXPECT_DOUBLE_EQ(forward.end, 5);
}

// As in PyTorch's multi-stage schedules, which post a receive before the range of the op that waits for it.
TEST_F(ProfilerTrace, AReceiveOfAnEarlierRangeIsWaitedForWhereNoOpBegins) {
  const auto file =
      put("p.json",
          trace(0, {event("user_annotation", "PP:0RECV_F1", 0, 1e6), event("user_annotation", "gloo:recv", 5e5, 2.5e6),
                    event("user_annotation", "PP:0F1", 1e6, 4e6), event("cpu_op", "aten::mm", 3.5e6, 1e6),
                    event("user_annotation", "gloo:recv", 5e6, 4e6),  // of another op
                    event("user_annotation", "PP:0B1", 6e6, 4e6), event("cpu_op", "aten::mm", 6.5e6, 3e6)}));
  const std::vector<TracedOp> ops = read_traces({file}, {}).ranks[0].updates[0];
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_DOUBLE_EQ(ops[0].start, 3);
  EXPECT_DOUBLE_EQ(ops[0].end, 5);
  EXPECT_DOUBLE_EQ(ops[1].start, 6);
}

// Kernels run after they are launched; NCCL's are communication, hidden from 3 to 4 s and exposed from 4 to 6 s.
TEST_F(ProfilerTrace, OnAGpuTheKernelsThatARangeLaunchesCount) {
  const auto launch = [](int id, double at) {
    return event("cuda_runtime", "cudaLaunchKernel", at, 1, {{"correlation", id}});
  };
  const auto kernel = [](int id, const std::string& name, double start, double end) {
    return event("kernel", name, start * 1e6, (end - start) * 1e6, {{"correlation", id}});
  };
  const auto file =
      put("gpu.json",
          trace(0, {event("user_annotation", "PP:0F0", 0, 100), event("user_annotation", "PP:0I0", 200, 100),
                    event("user_annotation", "PP:0W0", 400, 100), event("gpu_user_annotation", "PP:0F0", 0, 9e6),
                    launch(1, 10), launch(2, 20), launch(3, 210), launch(4, 410), launch(5, 420),
                    kernel(1, "gemm", 1, 2), kernel(2, "gemm", 2.5, 3), kernel(3, "gemm", 3, 4),
                    kernel(4, "gemm", 6, 7), kernel(5, "ncclDevKernel_AllReduce_Sum", 3, 6), kernel(9, "gemm", 8, 9)}));
  const TracedRun run = read_traces({file}, {});
  EXPECT_TRUE(run.on_gpu);
  const TraceFigures f = figures_of(run);
  EXPECT_DOUBLE_EQ(f.stages[0].forward, 2);  // the gap between its two kernels is part of it
  EXPECT_DOUBLE_EQ(f.stages[0].input_gradient, 1);
  EXPECT_DOUBLE_EQ(f.stages[0].weight_gradient, 1);
  EXPECT_DOUBLE_EQ(f.makespan, 6);
  EXPECT_DOUBLE_EQ(f.ranks[0].idle, 2);
  EXPECT_DOUBLE_EQ(f.ranks[0].exposed, 2);
}

// As nsys stats writes them: nanoseconds, the default domain's colon, rows without a name.
TEST_F(ProfilerTrace, ProjectedRangesOfNsightSystemsAreRead) {
  const auto row = [](const Json& name, double start, double duration, int process) {
    return Json{{"Name", name},
                {"Projected Start (ns)", start},
                {"Projected Duration (ns)", duration},
                {"Orig Start (ns)", nullptr},
                {"PID", process}};
  };
  const auto file = [&](const std::string& name, const std::vector<Json>& rows) { return put(name, Json(rows)); };
  const std::string first =
      file("a.json", {row(nullptr, 0, 9e9, 1), row(":fwd 0", 0, 1e9, 1), row(":bwd 0", 5e9, 2e9, 1)});
  const std::string second = file("b.json", {row(":fwd 0", 2e9, 1e9, 2), row(":bwd 0", 3e9, 1.5e9, 2)});
  const RangePatterns patterns{.forward = "^fwd (\\d+)", .backward = "^bwd (\\d+)"};
  const TracedRun run = read_traces({first, second}, patterns);
  EXPECT_TRUE(run.on_gpu);
  const TraceFigures f = figures_of(run);
  EXPECT_DOUBLE_EQ(f.makespan, 7);
  EXPECT_DOUBLE_EQ(f.bubble_ratio, (4 + 4.5) / 14);
  EXPECT_DOUBLE_EQ(f.ranks[0].exposed, 0.5);
  EXPECT_DOUBLE_EQ(f.ranks[1].exposed, 1);
  const std::string both = file("c.json", {row("fwd 0", 0, 1, 1), row("fwd 1", 1, 1, 2)});
  EXPECT_NE(error_of([&] { read_traces({both}, patterns); }).find("c.json: /1/PID: is another process"),
            std::string::npos);
}

TEST_F(ProfilerTrace, UpdatesAreDividedByStepsOfTheProfilerOrWhereAnOpComesAgain) {
  std::vector<Json> events;
  for (int update = 0; update < 3; ++update)
    for (const char* name : {"Forward 0", "Backward 0"})
      events.push_back(event("user_annotation", name, 1e6 * (10 * update + (name[0] == 'B')), 1e6));
  const TraceFigures f = figures_of(read_traces({put("a.json", trace(0, events))}, {}));
  EXPECT_EQ(f.updates, 3);
  EXPECT_DOUBLE_EQ(f.period.value(), 10);
  EXPECT_DOUBLE_EQ(f.bubble_ratio, 0);
  // Without numbers of micro-batches, the steps say it.
  for (Json& e : events) e["name"] = e["name"].get<std::string>().substr(0, 7);
  const RangePatterns patterns{.forward = "^Forward", .backward = "^Backwar"};
  EXPECT_EQ(figures_of(read_traces({put("b.json", trace(0, events))}, patterns)).microbatches, 3);
  for (const double at : {-0.5, 9.5, 19.5}) events.push_back(event("user_annotation", "ProfilerStep#1", 1e6 * at, 5e6));
  EXPECT_EQ(figures_of(read_traces({put("c.json", trace(0, events))}, patterns)).updates, 3);
}

TEST_F(ProfilerTrace, PatternsGiveStageAndMicroBatchInTheirGroups) {
  const auto file = put("m.json", trace(0, {event("user_annotation", "fwd chunk=1 mb=4", 0, 1e6),
                                            event("user_annotation", "fwd chunk=0 mb=4", 1e6, 1e6),
                                            event("user_annotation", "bwd chunk=1 mb=4", 2e6, 3e6)}));
  const TracedRun run =
      read_traces({file}, {.forward = "fwd chunk=(\\d+) mb=(\\d+)", .backward = "bwd chunk=(\\d+) mb=(\\d+)"});
  const std::vector<TracedOp>& ops = run.ranks[0].updates[0];
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops[0].stage, 1);
  EXPECT_EQ(ops[1].stage, 0);
  EXPECT_EQ(ops[2].micro, "4");
  EXPECT_EQ(ops[2].opcode, Opcode::backward);
}

// Counted by a program of its own (Python) from the same files.
TEST_F(ProfilerTrace, OfPyTorchsGPipeHasEveryOpOfBothUpdates) {
  const TracedRun run = read_traces(stored("gpipe"), {});
  const TraceFigures f = figures_of(run);
  EXPECT_EQ(f.updates, 2);
  EXPECT_EQ(f.microbatches, 4);
  EXPECT_EQ(table_of(run), "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3\n");
  EXPECT_NEAR(f.bubble_ratio, 0.8121908, 1e-6);
  EXPECT_NEAR(f.stages[0].forward, 0.0003284454, 1e-9);
  EXPECT_NEAR(f.stages[1].input_gradient + f.stages[1].weight_gradient, 0.0009067999, 1e-9);
  EXPECT_EQ(f.steady_bubble, std::nullopt);
}

TEST_F(ProfilerTrace, FewerFilesThanRanksAreSaid) {
  const TracedRun run = read_traces({stored("gpipe")[1]}, {});
  ASSERT_EQ(run.notes.size(), 1u);
  EXPECT_EQ(run.notes[0], "these are 1 of the run's 2 ranks, taken to be all stages of one pipeline");
}

TEST_F(ProfilerTrace, OfPyTorchs1F1BHasItsOrder) {
  const TracedRun run = read_traces(stored("1f1b"), {});
  EXPECT_EQ(table_of(run), "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
  const TraceFigures f = figures_of(run);
  EXPECT_NEAR(f.bubble_ratio, 0.5024157, 1e-6);
  EXPECT_TRUE(f.steady_bubble);
}

// Two stages on each of two ranks, in a V; backwards in two halves, of the last micro-batches.
TEST_F(ProfilerTrace, OfPyTorchsZBVHasStagesAndHalves) {
  const TracedRun run = read_traces(stored("zbv"), {});
  const TraceFigures f = figures_of(run);
  EXPECT_EQ(f.updates, 2);
  EXPECT_EQ(f.microbatches, 4);
  ASSERT_EQ(f.stages.size(), 4u);
  EXPECT_EQ(f.ranks[0].stages, (std::vector<int>{0, 3}));
  EXPECT_EQ(f.ranks[1].stages, (std::vector<int>{1, 2}));
  EXPECT_TRUE(std::ranges::all_of(f.stages, [](const TracedStage& s) { return s.split_known; }));
  for (const TracedRank& rank : run.ranks)
    for (const auto& update : rank.updates)
      EXPECT_EQ(std::ranges::count(update, Opcode::forward, &TracedOp::opcode), 8);
  EXPECT_TRUE(f.notes.empty()) << f.notes.front();
}

// Schedule1F1B without with_stack=True: autograd's ops tell forwards from backwards, in nearly the same time.
TEST_F(ProfilerTrace, WithoutRangesAutogradTellsForwardsFromBackwards) {
  std::vector<std::string> files;
  for (const std::string& file : stored("1f1b")) {
    Json json = parse_json_file(file);
    Json events = Json::array();
    for (const Json& e : json["traceEvents"])
      if (e["cat"] != "python_function") events.push_back(e);
    json["traceEvents"] = events;
    files.push_back(put("plain" + std::to_string(files.size()) + ".json", json));
  }
  const TracedRun plain = read_traces(files, {}), with_stack = read_traces(stored("1f1b"), {});
  EXPECT_EQ(plain.notes.size(), 1u);
  EXPECT_EQ(table_of(plain), table_of(with_stack));
  const TraceFigures a = figures_of(plain), b = figures_of(with_stack);
  EXPECT_EQ(a.updates, 2);
  EXPECT_NEAR(a.makespan, b.makespan, 0.05 * b.makespan);
  // What Python does before the first and after the last op of a range is no part of it.
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_LT(a.stages[s].total(), b.stages[s].total());
    EXPECT_GT(a.stages[s].total(), 0.5 * b.stages[s].total());
  }
}

TEST_F(ProfilerTrace, BadInputIsOneErrorWithItsPlace) {
  const auto files = gpipe();
  const auto error = [](const std::vector<std::string>& given, const RangePatterns& patterns = {}) {
    return error_of([&] { figures_of(read_traces(given, patterns)); });
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  holds(error({put("list.json", Json{{"a", 1}})}), "has no array traceEvents");
  holds(error({put("cut.json", std::string(R"({"traceEvents":[{"ph":"X")"))}), "cut.json:1:");
  holds(error({put("ts.json", trace(0, {event("user_annotation", "x", 0, 1), Json{{"ph", "X"}, {"cat", "cpu_op"}}}))}),
        "ts.json: /traceEvents/1/ts: is missing");
  holds(error({put("number.json", trace(0, {Json(1)}))}), "/traceEvents/0: must be an object");
  holds(error({put("none.json", trace(0, {event("cpu_op", "aten::mm", 0, 1)}))}), "has no range of a forward");
  holds(error({files[0], files[0]}), "is of rank 0, as is");
  holds(error({put("s1.json", trace(0, {event("user_annotation", "PP:1F0", 0, 1)}))}),
        "there is no forward of stage 0");
  holds(error(files, {.forward = "("}), "--forward: '(' is not a regular expression");
  holds(error(files, {.forward = "(a)(b)(c)"}), "more than two groups");
  Json other = parse_json_file(files[1]);
  other["distributedInfo"]["rank"] = 5;
  for (Json& e : other["traceEvents"]) e["ts"] = 1e12 + e["ts"].get<double>();
  holds(error({files[0], put("late.json", other)}), "has no time in common with");
  const auto twice = trace(1, {event("user_annotation", "PP:0F0", 0, 1e6)});
  holds(error({put("p0.json", trace(0, {event("user_annotation", "PP:0F0", 0, 1e6)})), put("p1.json", twice)}),
        "has the forward of micro-batch 0 in stage 0, as has rank 0");
}

// Of a pair that overlaps both inputs are read before it, and each op is given half of its time.
TEST_F(ProfilerTrace, AnOverlappedPairIsTwoHalves) {
  const auto file = put("pair.json", trace(0, {event("user_annotation", "PP:0F0", 0, 1e6),
                                               event("user_annotation", "PP:(0F1;0B0)OVERLAP_F_B", 2e6, 4e6),
                                               event("user_annotation", "PP:0B1", 6e6, 3e6)}));
  const TracedRun run = read_traces({file}, {});
  const std::vector<TracedOp>& ops = run.ranks[0].updates[0];
  ASSERT_EQ(ops.size(), 4u);
  EXPECT_EQ(ops[1].opcode, Opcode::forward);
  EXPECT_DOUBLE_EQ(ops[1].end, 4);
  EXPECT_DOUBLE_EQ(ops[1].made, 6);
  EXPECT_DOUBLE_EQ(ops[2].reads, 2);
  const TraceFigures f = figures_of(run);
  EXPECT_DOUBLE_EQ(f.bubble_ratio, 1.0 / 9);
  EXPECT_DOUBLE_EQ(f.stages[0].forward, 1);
  EXPECT_DOUBLE_EQ(f.stages[0].input_gradient, 1.5);
}

TEST(TimeSpans, AreMergedSubtractedAndMeasured) {
  const TimeSpans spans = merged({{4, 6}, {0, 2}, {1, 3}, {5, 5}});
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_DOUBLE_EQ(spans[0].end, 3);
  EXPECT_DOUBLE_EQ(seconds_in(spans, 2, 5), 2);
  const TimeSpans left = without(spans, merged({{1, 2}, {2.5, 4.5}}));
  ASSERT_EQ(left.size(), 3u);
  EXPECT_DOUBLE_EQ(seconds_in(left, 0, 10), 1 + 0.5 + 1.5);
}

}  // namespace
}  // namespace sluice
