// The program as a user meets it, one command after the other: exit codes, and what is on stdout and on stderr.
#include "harness/cli/cli_test_support.h"
#include "results/store.h"

namespace sluice {
namespace {

TEST_F(Cli, HelpOfEveryCommandNamesItsFlags) {
  const std::map<std::string, std::vector<std::string>> flags = {
      {"list", {"--json"}},
      {"plan",
       {"--system", "--workload", "--cluster", "--ranks", "--batch", "--microbatches", "--costs", "--set", "--json"}},
      {"schedule",
       {"--system", "--ranks", "--microbatches", "--chunks", "--costs", "--set", "--json", "--text", "--trace"}},
      {"verify", {"--cases", "--tolerance", "--json"}},
      {"profile", {"--workload", "--device", "--neighbours", "--co-run", "--published", "--out"}},
      {"validate", {"--filter", "--quick", "--rounds", "--records", "--chart", "--out", "--json"}},
      {"run",
       {"--system", "--workload", "--clock", "--transport", "--device", "--ranks", "--out", "--resume", "--shard",
        "--seed", "--dry-run", "--progress", "--json"}},
      {"compare", {"--baseline", "--metric", "--json"}},
      {"report", {"--out"}},
      {"export", {"--format"}},
      {"new", {"name"}}};
  const Finished all = sluice({"--help"});
  EXPECT_EQ(all.code, 0);
  for (const auto& [command, names] : flags) {
    EXPECT_NE(all.out.find(command), std::string::npos) << command;
    const Finished f = sluice({command, "--help"});
    EXPECT_EQ(f.code, 0);
    EXPECT_EQ(f.err, "");
    for (const std::string& name : names) EXPECT_NE(f.out.find(name), std::string::npos) << command << " " << name;
  }
}

TEST_F(Cli, ListIsOneJsonDocument) {
  const Json all = document({"list", "--json"});
  for (const char* kind : {"systems", "workloads", "clusters", "calibrations", "sweeps"})
    EXPECT_TRUE(all.at(kind).is_array()) << kind;
  EXPECT_EQ(document({"list", "systems", "--json"}), all["systems"]);
  std::set<std::string> names;
  for (const Json& system : all["systems"]) names.insert(system["name"].get<std::string>());
  EXPECT_TRUE(names.contains("gpipe"));
  const Json& workload = all["workloads"].front();
  EXPECT_EQ(workload["name"], "fmnist_mlp");
  EXPECT_EQ(workload["optimizer"], "sgd, learning rate 0.02, momentum 0.9");
}

TEST_F(Cli, PlanIsOneJsonDocument) {
  const Json plan = document({"plan", "--system", "gpipe", "--workload", "vgg16", "--cluster", "flat:4", "--json"});
  for (const char* field : {"system", "objective", "simulated_seconds", "stages", "edges", "micro_batch", "states",
                            "search_seconds", "complete"})
    EXPECT_TRUE(plan.contains(field)) << field;
  EXPECT_EQ(plan["stages"].size(), 4u);
}

TEST_F(Cli, ScheduleHasExactlyItsFields) {
  const Json s = document({"schedule", "--system", "gpipe", "--ranks", "2", "--microbatches", "3", "--json"});
  std::set<std::string> keys;
  for (const auto& item : s.items()) keys.insert(item.first);
  EXPECT_EQ(keys, (std::set<std::string>{"system", "options", "ranks", "microbatches", "chunks", "costs", "ops",
                                         "makespan", "idle", "bubble_ratio", "span_bubble", "peak", "peak_until_W"}));
  EXPECT_EQ(s["costs"], (Json{{"F", 1}, {"I", 1}, {"W", 1}, {"latency", 0}}));
  // (m + p - 1) (F + I + W) = 4 x 3, of which each rank idles 3.
  EXPECT_EQ(s["makespan"], 12);
  EXPECT_EQ(s["idle"], (Json{3, 3}));
  EXPECT_EQ(s["peak"], (Json{3, 3}));
  EXPECT_EQ(s["ops"]["0"].size(), 6u);
}

TEST_F(Cli, ScheduleKnowsTheStagesOfARank) {
  const auto schedule = [&](const std::string& system, const Arguments& more) {
    Arguments all{"schedule", "--system", system, "--ranks", "2", "--microbatches", "4", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return document(all);
  };
  EXPECT_EQ(schedule("interleaved_1f1b", {})["chunks"], 2);
  EXPECT_EQ(schedule("interleaved_1f1b", {"--chunks", "4"})["chunks"], 4);
  EXPECT_EQ(schedule("interleaved_1f1b", {"--chunks", "4"})["options"]["chunks"], "4");
  EXPECT_EQ(schedule("hanayo", {"--set", "waves=2"})["chunks"], 4);
  EXPECT_EQ(schedule("zero_bubble", {"--set", "variant=v", "--chunks", "2"})["chunks"], 2);
  // Micro-batches of one replica of the whole model; a pair of ops is one step.
  EXPECT_EQ(schedule("fsdp", {})["ops"]["1"], (Json{"0F4", "0B4", "0F5", "0B5", "0F6", "0B6", "0F7", "0B7"}));
  EXPECT_EQ(schedule("dualpipe", {})["ops"]["0"], (Json{"0F0", "1F2", "0F1", "1B2", "(1F3;0B0)", "1B3", "0I1", "0W1"}));
  rejects({"schedule", "--system", "gpipe", "--chunks", "2"}, {"--chunks", "gpipe places 1 stage on a rank"});
  rejects({"schedule", "--system", "gpipe", "--chunks", "0"}, {"--chunks", "out of range"});
  rejects({"schedule", "--system", "zeropp", "--chunks", "2", "--set", "chunks=3"},
          {"--chunks", "is 2, but chunks=3 is set"});
  rejects({"schedule", "--system", "hanayo", "--microbatches", "9999999"}, {"--microbatches"});
}

TEST_F(Cli, ScheduleDrawsAGridThatFitsATerminal) {
  const Finished drawn = sluice({"schedule", "--system", "1f1b", "--text"});
  EXPECT_EQ(drawn.code, 0);
  std::istringstream lines(drawn.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "rank 0  F0F1F2F3............B0--F4B1--F5B2--F6B3--F7B4--..B5--..B6--..B7--");
}

TEST_F(Cli, ScheduleTracesOpsAndWhatRanksHold) {
  const std::string file = at("t.json");
  const Finished traced =
      sluice({"schedule", "--system", "zero_bubble", "--ranks", "2", "--microbatches", "3", "--trace", file});
  EXPECT_EQ(traced.code, 0);
  std::map<std::string, int> kinds;
  int most = 0;
  const Json trace = Json::parse(content(file));
  for (const Json& event : trace["traceEvents"]) {
    ++kinds[event["ph"].get<std::string>()];
    if (event["ph"] == "C" && event["name"] == "rank 0 holds")
      most = std::max(most, event["args"]["for the input gradient"].get<int>());
  }
  EXPECT_EQ(kinds["X"], 2 * 3 * 3 + 2);  // F, I, W and a step a rank
  EXPECT_EQ(kinds["C"], 2 * 3 * 3);
  EXPECT_EQ(most, 2);
}

TEST_F(Cli, ScheduleTracesGathersReductionsAndPairs) {
  const std::string file = at("t.json");
  const auto traced = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "schedule");
    arguments.insert(arguments.end(), {"--ranks", "2", "--trace", file});
    EXPECT_EQ(sluice(arguments).code, 0);
    return Json::parse(content(file))["traceEvents"];
  };
  std::map<std::string, double> at_second;  // of rank 0
  for (const Json& event : traced({"--system", "zeropp", "--set", "unit=4", "--microbatches", "4"}))
    if (event["ph"] == "i" && event["tid"] == 0)
      at_second[event["name"].get<std::string>()] = event["ts"].get<double>() / 1e6;
  // Stage 0's weights are gathered again for its backwards; the gradients of 2 leave after its
  // last.
  EXPECT_EQ(at_second,
            (std::map<std::string, double>{{"gather 0", 16}, {"gather 2", 4}, {"reduce 0", 24}, {"reduce 2", 16}}));
  int pairs = 0;
  for (const Json& event : traced({"--system", "dualpipe", "--microbatches", "8"}))
    if (event.contains("args") && event["args"].contains("overlapped with")) ++pairs;
  EXPECT_GT(pairs, 0);
}

TEST_F(Cli, RunAndCompareAreOneJsonDocumentEach) {
  const std::string out = at("r.jsonl");
  document({"run", sweep(1, 4), "--out", out, "--json"});
  EXPECT_TRUE(document({"compare", out, "--json"}).is_array());
  EXPECT_EQ(document({"run", sweep(3, 4), "--dry-run", "--json"}).size(), 3u);
}

TEST_F(Cli, VerifyIsOneJsonDocument) {
  const Json v = document({"verify", "--cases", std::string(SLUICE_SOURCE_DIR) + "/harness/tests/data/weights.json",
                           "--only", "pipedream-K2-sgd", "--json"});
  EXPECT_EQ(v["pass"], 1);
  EXPECT_EQ(v["mismatch"], 0);
}

TEST_F(Cli, UnknownNamesAreSuggested) {
  rejects({"rum"}, {"unknown command 'rum'", "did you mean 'run'?"});
  rejects({"--hepl"}, {"unknown flag '--hepl'"});
  rejects({}, {"no command"});
  rejects({"schedule", "--system", "gpipe", "--rank", "3"},
          {"schedule: unknown flag '--rank'", "did you mean '--ranks'?"});
  rejects({"schedule"}, {"schedule: --system is missing"});
  rejects({"list", "sytems"}, {"did you mean 'systems'?"});
  rejects({"schedule", "--system", "gpip"}, {"did you mean 'gpipe'?"});
  rejects({"schedule", "--system", "gpipe", "--set", "bakward=lifo"}, {"did you mean 'backward'?"});
  rejects({"schedule", "--system", "gpipe", "--set", "backward"}, {"is not key=value"});
  rejects({"plan", "--system", "gpipe", "--workload", "tinny"}, {"did you mean 'tiny'?"});
  rejects({"plan", "--system", "gpipe", "--workload", "tiny", "--cluster", "flatt:4"}, {"did you mean 'flat:4'?"});
  rejects({"run", "--system", "gpip", "--workload", "tiny"}, {"--system", "did you mean 'gpipe'?"});
  rejects({"run", "quik"}, {"no such sweep", "did you mean 'quick'?"});
}

TEST_F(Cli, NumbersThatAreNone) {
  for (const char* ranks : {"0", "-1"}) {
    rejects({"schedule", "--system", "gpipe", "--ranks", ranks}, {"--ranks"});
    rejects({"run", "--system", "gpipe", "--workload", "tiny", "--ranks", ranks}, {"--ranks", "must be at least 1"});
  }
  rejects({"schedule", "--system", "gpipe", "--ranks", "two"}, {"--ranks", "two"});
  rejects({"run", "--system", "gpipe", "--workload", "tiny", "--ranks", "two"}, {"--ranks", "two"});
  rejects({"run", "--system", "gpipe", "--workload", "tiny", "--timeout", "soon"}, {"--timeout:"});
  rejects({"run", sweep(1, 4), "--seed", "one"}, {"--seed", "one"});
  rejects({"run", sweep(1, 4), "--inject-failure", "1:3x"}, {"1:3x"});
  rejects({"run", sweep(1, 4), "--inject-failure", "7:3"}, {"no case has a rank 7"});
  rejects({"run", sweep(1, 4), "--shard", "2/2"}, {"--shard"});
  rejects({"run", sweep(1, 4), "--ranks", "3"}, {"--ranks", "goes with a single case"});
  rejects({"run", sweep(1, 4), "--set", "backward=fifo"}, {"--set", "goes with a single case"});
}

TEST_F(Cli, PlansThatCannotBe) {
  rejects({"plan", "--system", "gpipe", "--workload", "tiny", "--cluster", "flat:40"}, {"40 stages", "use at most"});
  rejects({"plan", "--system", "gpipe", "--workload", "vgg16", "--cluster", "flat:2,memory=1MiB"},
          {"needs", "has 1 MiB", "more memory"});
  const std::string apart = put("apart.json", R"({"name": "apart", "devices": [{"count": 2}]})");
  rejects({"plan", "--system", "gpipe", "--workload", "tiny", "--cluster", apart}, {"no path between devices 0 and 1"});
  const std::string cyclic = put("cyclic.json", R"({"schema": "sluice/cost_graph/1", "model": "m",
    "source": "profile", "device": "d", "micro_batch": 8, "layers": [
    {"name": "a", "inputs": [1], "forward": 1, "input_gradient": 1, "weight_gradient": 1,
     "update": 0, "parameters": 4, "output": 4},
    {"name": "b", "inputs": [0], "forward": 1, "input_gradient": 1, "weight_gradient": 1,
     "update": 0, "parameters": 4, "output": 4}]})");
  rejects({"plan", "--system", "gpipe", "--workload", "tiny", "--costs", cyclic},
          {"/layers/0/inputs", "must name earlier layers"});
}

TEST_F(Cli, OutputsThatCannotBeWritten) {
  const auto to = [&](const std::string& out) { return Arguments{"run", sweep(1, 4), "--out", out}; };
  rejects(to(folder_), {folder_, "is a folder"});
  rejects(to(put("file", "x") + "/r.jsonl"), {at("file")});
  rejects(to("/proc/nowhere/r.jsonl"), {"/proc/nowhere"});
  rejects({"schedule", "--system", "gpipe", "--trace", at("no/t.json")}, {"cannot be written"});
}

TEST_F(Cli, AFullDiskIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  expect_error(sluice({"run", sweep(1, 4), "--out", "/dev/full"}), 2, {"/dev/full", "is a device"});
  expect_error(wait(start({"list", "--json"}, {}, "/dev/full")), 1, {"stdout", "the disk is full"});
}

TEST_F(Cli, SweepFilesThatCannotBeRead) {
  rejects({"run", at("no.json")}, {at("no.json"), "no such file"});
  rejects({"run", "no_such_sweep"}, {"no_such_sweep", "sluice list sweeps"});
  rejects({"run", put("broken.json", "{\n\"grid\": [\n{]}")}, {at("broken.json") + ":3:"});
  rejects({"run", put("empty.json", R"({"grid": []})")}, {"/grid"});
  rejects({"compare", at("no.jsonl")}, {"no such file"});
  rejects({"compare", put("none.jsonl", "")}, {"holds no record"});
}

TEST_F(Cli, CoRunsTakeWhatIsTheirsOnly) {
  const Arguments profile = {"profile", "--workload", "tiny"};
  const auto with = [&](const Arguments& more) {
    Arguments all = profile;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  rejects(with({"--published", at("p.csv")}), {"--published", "give --co-run"});
  rejects(with({"--seconds", "2"}), {"--seconds", "is for --co-run"});
  rejects(with({"--co-run", "--neighbours", "0"}), {"--neighbours", "leave it out"});
  rejects(with({"--co-run", "--seconds", "0"}), {"--seconds", "above 0"});
  rejects(with({"--co-run", "--device", "cuda"}), {"--co-run", "CPU"});
  rejects(with({"--co-run", "--published", put("p.csv", "h\na,b\n")}), {at("p.csv"), "6 fields"});
}

// LD_TRACE_LOADED_OBJECTS: the loader lists the libraries instead of starting the program.
TEST_F(Cli, LibTorchIsLoadedOnlyByWhatTrains) {
  const std::string libraries = sluice({}, {{"LD_TRACE_LOADED_OBJECTS", "1"}}).out;
  EXPECT_NE(libraries.find("libfmt"), std::string::npos) << libraries;
  EXPECT_EQ(libraries.find("torch"), std::string::npos) << libraries;
}

TEST_F(Cli, AProgramWithoutItsTrainingLibraryStillPlansAndSaysWhatTrainingNeeds) {
  fs::copy_file(SLUICE_PROGRAM, at("sluice"));
  const auto run = [&](const std::string& arguments) {
    return WEXITSTATUS(std::system((at("sluice") + " " + arguments + " > " + at("out") + " 2> " + at("err")).c_str()));
  };
  EXPECT_EQ(run("plan --system gpipe --workload vgg16 --cluster flat:4"), 0) << content(at("err"));
  EXPECT_EQ(run("profile --workload tiny"), 2);
  EXPECT_NE(content(at("err")).find("training needs libsluice_training.so, which cannot be opened"), std::string::npos)
      << content(at("err"));
}

TEST_F(Cli, AGpuThatIsNotThereIsOneClearError) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a GPU";
  // Either sluice-cuda is in the program's folder and finds none, or the program says what to build.
  rejects({"run", "--system", "gpipe", "--workload", "tiny", "--device", "cuda"}, {"--device cuda", "CUDA"});
  rejects({"run", "gpu"}, {"--device cuda", "CUDA"});
  rejects({"profile", "--workload", "tiny", "--device", "cuda"}, {"--device cuda", "CUDA"});
  rejects({"run", "--system", "gpipe", "--workload", "tiny", "--transport", "nccl"},
          {"nccl connects GPUs", "--device cuda"});
  // What a sweep for GPUs would run can be listed anywhere.
  EXPECT_EQ(sluice({"run", "gpu", "--dry-run"}).code, 0);
}

TEST_F(Cli, MissingDataSaysWhereToPutIt) {
  if (fs::exists("/usr/share/datasets/cifar10")) GTEST_SKIP() << "CIFAR-10 is on this machine";
  // A record that says so, so that the sweep goes on.
  EXPECT_EQ(sluice({"run", "--system", "gpipe", "--workload", "cifar10_cnn", "--costs", "analytic", "--out",
                    at("r.jsonl"), "--progress", "none"},
                   {{"SLUICE_DATA", folder_}, {"SLUICE_HOME", folder_}})
                .code,
            1);
  const Record record = read_records(at("r.jsonl")).records.at(0);
  EXPECT_EQ(record.outcome, RecordOutcome::failed);
  EXPECT_NE(record.reason.find("cifar10"), std::string::npos) << record.reason;
  EXPECT_NE(record.reason.find("$SLUICE_DATA"), std::string::npos) << record.reason;
}

TEST_F(Cli, TruncatedDataNamesItsFile) {
  fs::create_directory(at("fashion-mnist"));
  const std::string file = put("fashion-mnist/train-images-idx3-ubyte", std::string("\0\0\x08", 3));
  EXPECT_EQ(sluice({"run", "--system", "gpipe", "--workload", "fmnist_mlp", "--costs", "analytic", "--out",
                    at("r.jsonl"), "--progress", "none"},
                   {{"SLUICE_DATA", folder_}})
                .code,
            1);
  const Record record = read_records(at("r.jsonl")).records.at(0);
  EXPECT_EQ(record.outcome, RecordOutcome::failed);
  EXPECT_NE(record.reason.find(file), std::string::npos) << record.reason;
  EXPECT_NE(record.reason.find("cut off"), std::string::npos) << record.reason;
}
TEST_F(Cli, ExportIsATable) {
  const std::string out = at("r.jsonl");
  ASSERT_EQ(sluice({"run", sweep(2, 4), "--out", out}).code, 0);
  const Finished f = sluice({"export", out, "--format", "csv"});
  EXPECT_EQ(f.code, 0);
  // Fields of each line; commas inside quotes do not count.
  std::set<long> widths;
  for (const std::string& line : lines(f.out)) {
    bool quoted = false;
    long commas = 0;
    for (const char c : line) {
      quoted ^= c == '"';
      commas += !quoted && c == ',';
    }
    EXPECT_FALSE(quoted) << line;
    widths.insert(commas);
  }
  EXPECT_EQ(lines(f.out).size(), 3u);
  EXPECT_EQ(widths.size(), 1u);
  EXPECT_GT(*widths.begin(), 5);
  rejects({"export", out, "--format", "cvs"}, {"--format", "csv"});
}

TEST_F(Cli, RecordsFitTheSchema) {
  // ./check puts jsonschema into .venv; a hand-written build may have it in the system's Python.
  const std::string own = SLUICE_SOURCE_DIR "/.venv/bin/python";
  const std::string python = fs::exists(own) ? own : "python3";
  if (std::system(("'" + python + "' -c 'import jsonschema' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "neither .venv nor python3 has jsonschema: the schema is not checked";
  const std::string out = at("r.jsonl");
  sluice({"run", sweep(1, 4), "--out", out});
  sluice({"run", sweep(1, 20), "--inject-failure", "1:3", "--out", out});
  sluice({"run", "--system", "gpipe", "--workload", "vgg16", "--clock", "virtual", "--cluster", "flat:2,memory=1MiB",
          "--out", out});
  write_test_data(folder_);
  sluice({"run",
          training(
              {{"optimizer", {{"learning_rate", {3, "tuned"}}}}, {"tune", {{"learning_rate", {0.02}}, {"steps", 4}}}}),
          "--out", out},
         {{"SLUICE_DATA", folder_}});
  EXPECT_EQ(records(out).size(), 8u);
  EXPECT_EQ(records(out)[2]["outcome"], "out_of_memory");
  EXPECT_EQ(records(out)[3]["outcome"], "diverged");
  const std::string script = SLUICE_SOURCE_DIR "/results/check_records.py";
  EXPECT_EQ(std::system(("'" + python + "' '" + script + "' '" + out + "'").c_str()), 0);
}

TEST_F(Cli, NewBaselineIsOneFileWithAPlainName) {
  fs::create_directory(at("baselines"));
  const Variables home = {{"SLUICE_HOME", folder_}};
  EXPECT_EQ(sluice({"new", "baseline", "my_system2"}, home).code, 0);
  EXPECT_NE(content(at("baselines/my_system2.cpp")).find("const System my_system2 = {"), std::string::npos);
  rejects({"new", "baseline", "my_system2"}, {"exists already"}, home);
  for (const char* name : {"Bad", "2nd", "a-b", "../x", "class", "my_test", "gpipe", "dp"})
    rejects({"new", "baseline", name}, {"new: "}, home);
  rejects({"new", "baseline", ""}, {"name: its value is empty"}, home);
  rejects({"new", "basline", "x"}, {"did you mean 'baseline'?"}, home);
  EXPECT_EQ(std::distance(fs::directory_iterator(at("baselines")), {}), 1);
}

TEST_F(Cli, AReportWithoutItsRendererSaysSo) {
  const std::string out = at("r.jsonl");
  ASSERT_EQ(sluice({"run", sweep(1, 4), "--out", out}).code, 0);
  const Finished f = sluice({"report", out, "--out", at("report")}, {{"SLUICE_PYTHON", "/nonexistent"}});
  expect_error(f, 1, {"/nonexistent"});
}

}  // namespace
}  // namespace sluice
