#include "harness/tests/fuzz/targets.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <new>
#include <numeric>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "harness/base/options.h"
#include "harness/base/quantities.h"
#include "harness/base/source_folder.h"
#include "harness/base/stop.h"
#include "harness/case/sweep.h"
#include "harness/claims/claim.h"
#include "harness/claims/outcome.h"
#include "harness/exec/checkpoint_header.h"
#include "harness/model/calibrated_costs.h"
#include "harness/model/calibration.h"
#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "harness/model/kernel_times.h"
#include "harness/model/load_interference.h"
#include "harness/model/module_file.h"
#include "harness/model/module_stages.h"
#include "harness/model/pipeline_layout.h"
#include "harness/model/throttle.h"
#include "harness/program/check_schedule.h"
#include "harness/program/pytorch_table.h"
#include "harness/program/trace_figures.h"
#include "harness/run/weight_case.h"
#include "plots/study.h"
#include "results/store.h"
#include "systems/dynpipe/forest.h"
#include "workloads/data/cifar10.h"
#include "workloads/data/idx.h"
#include "workloads/data/language.h"
#include "workloads/data/sentiment.h"
#include "workloads/data/translation.h"
#include "workloads/models/registry.h"
#include "workloads/models/workload_file.h"
#include "workloads/profiles/operator_profile.h"
#include "workloads/profiles/profile.h"

namespace sluice {

namespace {

std::string put(const std::string& folder, const std::string& name, std::string_view bytes) {
  const std::string path = folder + "/" + name;
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// Inputs of two files hold this line between them.
std::pair<std::string_view, std::string_view> two_files(std::string_view bytes) {
  constexpr std::string_view between = "\n-- second file --\n";
  const std::size_t at = bytes.find(between);
  if (at == std::string_view::npos) return {bytes, {}};
  return {bytes.substr(0, at), bytes.substr(at + between.size())};
}

constexpr TextLimits kTranslates{16, 1000, 16, 1000}, kClassifies{16, 1000, 0, 0}, kPredicts{8, 300, 0, 0, true};

void read_sweep(std::string_view bytes, const std::string& folder) { load_sweep(put(folder, "sweep.json", bytes)); }

void read_cluster(std::string_view bytes, const std::string& folder) {
  load_cluster(put(folder, "cluster.json", bytes), folder);
}

// Clusters of thousands of devices have millions of links: good input, which only takes long under sanitizers.
void read_cluster_text(std::string_view bytes, const std::string& folder) {
  constexpr std::int64_t max_devices = 200, max_read = 4096;
  const std::string_view count = bytes.substr(0, bytes.find_first_not_of("0123456789"));
  const std::int64_t devices = whole_number_in(count).value_or(0);
  if (devices > max_devices && devices <= max_read) return;
  load_cluster("flat:" + std::string(bytes), folder);
}

// What it holds is also used, on shapes small and large.
void read_a_calibration(std::string_view bytes, const std::string& folder) {
  const std::string path = put(folder, "calibration.json", bytes);
  const Calibration c = calibration_from_json(parse_json_file(path), path);
  for (const double size : {1.0, 333.0, 1e9}) product_seconds(c, {size, size, size, size});
  if (!c.convolutions) return;
  for (const auto pass : {ConvolutionPass::forward, ConvolutionPass::input_gradient, ConvolutionPass::weight_gradient})
    convolution_seconds(c, pass,
                        {.images = 7,
                         .in = 64,
                         .height = 9,
                         .width = 9,
                         .out = 5,
                         .out_height = 9,
                         .out_width = 9,
                         .kernel_height = 3,
                         .kernel_width = 3});
}

void read_cost_graph(std::string_view bytes, const std::string& folder) {
  const std::string path = put(folder, "costs.json", bytes);
  cost_graph_from_json(parse_json_file(path), path);
}

void read_profile(std::string_view bytes, const std::string& folder) {
  const std::string path = put(folder, "profile", bytes);
  load_profile(path);
  load_profile(path, ProfileUnits::published);
}

// What it holds is also used as plan and run use it: shapes, costs and bytes.
void read_a_workload(std::string_view bytes, const std::string& folder) {
  const Workload w = read_workload(put(folder, "workload.json", bytes), "fuzz");
  const std::vector<Shape> shapes = w.model.shapes();
  static const Calibration calibration = load_calibration("v100_sxm2_fp32", source_folder() + "/workloads/devices");
  check_bounds(calibrated_costs(w.model, w.batch / w.microbatches, Device{}, calibration), "fuzz");
  std::vector<int> layers(w.model.layers.size());
  std::iota(layers.begin(), layers.end(), 0);
  for (const Storage& storage : {Storage(), Storage(Precision::mixed, AttentionScores::kept_with_dropout)}) {
    check_bounds(analytic_costs(w.model, w.batch / w.microbatches, Device{}, storage), "fuzz");
    stage_stash(w.model, shapes, layers, w.batch / w.microbatches, storage);
    live_bytes(w.model, shapes, layers, w.batch / w.microbatches, storage);
  }
}

// A model file and the file of its Modules, m.pt.
void read_module(std::string_view bytes, const std::string& folder) {
  const auto [model, module] = two_files(bytes);
  put(folder, "m.pt", module);
  const Workload w = read_workload(put(folder, "workload.json", model), "fuzz");
  for (const LayerSpec& layer : w.model.layers)
    if (std::holds_alternative<Module>(layer.kind)) read_module_file(layer);
  require_module_files(w.model);
}

void read_operators(std::string_view bytes, const std::string& folder) {
  const std::string path = put(folder, "operators.json", bytes);
  read_operator_graph(parse_json_file(path), path);
}

void read_pipeedge(std::string_view bytes, const std::string& folder) {
  const auto [models, types] = two_files(bytes);
  put(folder, "device_types.yml", types);
  read_pipeedge_profile(put(folder, "models.yml", models), "");
}

void read_records_file(std::string_view bytes, const std::string& folder) {
  read_records(put(folder, "records.jsonl", bytes));
}

void read_weight_cases(std::string_view bytes, const std::string& folder) {
  const std::string path = put(folder, "cases.json", bytes);
  const Json json = parse_json_file(path);
  JsonReader reader(json, path);
  for (JsonReader& entry : reader.objects("cases")) read_weight_case(reader, entry);
}

void read_checkpoint_header(std::string_view bytes, const std::string& folder) {
  const std::size_t end = std::min(bytes.find('\n'), bytes.size());
  const std::size_t after = bytes.size() - std::min(bytes.size(), end + 1);
  parse_checkpoint_header(std::string(bytes.substr(0, end)), folder + "/state", after, 4);
}

void read_idx_files(std::string_view bytes, const std::string& folder) {
  const auto [images, labels] = two_files(bytes);
  const std::string path = put(folder, "images", images);
  read_idx(path, put(folder, "labels", labels), 10);
}

void read_cifar(std::string_view bytes, const std::string& folder) {
  const std::string files = folder + "/cifar";
  std::filesystem::create_directory(files);
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"})
    put(files, name, bytes);
  read_cifar10_folder(files);
}

void read_tsv(std::string_view bytes, const std::string& folder) {
  const std::string files = folder + "/tsv";
  std::filesystem::create_directory(files);
  for (const char* name : {"train.tsv", "dev.tsv", "test.tsv"}) put(files, name, bytes);
  read_labelled_folder(files, "fuzz", kClassifies);
}

void read_ratings(std::string_view bytes, const std::string& folder) {
  const std::string files = folder + "/rated";
  std::filesystem::create_directory(files);
  put(files, "movieReviewSnippets_GroundTruth.txt", bytes);
  read_rated_folder(files, "fuzz", kClassifies);
}

void read_catalogues(std::string_view bytes, const std::string& folder) {
  const std::string files = folder + "/catalogues";
  std::filesystem::create_directory(files);
  put(files, "one.mo", bytes);
  read_catalogue_folder(files, "fuzz", kTranslates);
}

void read_parallel_text(std::string_view bytes, const std::string& folder) {
  const auto [source, target] = two_files(bytes);
  const std::string files = folder + "/parallel";
  std::filesystem::create_directory(files);
  for (const char* part : {"train", "test"}) {
    put(files, std::string(part) + ".en", source);
    put(files, std::string(part) + ".de", target);
  }
  read_parallel_folder(files, "fuzz", kTranslates);
}

// A dictionary's index and its text; of one file, plain text.
void read_running_text(std::string_view bytes, const std::string& folder) {
  const auto [index, text] = two_files(bytes);
  const std::string files = folder + (text.empty() ? "/plain" : "/dictionary");
  std::filesystem::create_directory(files);
  if (text.empty()) {
    for (const char* name : {"train.txt", "test.txt"}) put(files, name, bytes);
    read_plain_text_folder(files, "fuzz", kPredicts);
  } else {
    put(files, "d.index", index);
    put(files, "d.dict", text);
    read_dictionary_folder(files, "fuzz", kPredicts);
  }
}

void read_a_study(std::string_view bytes, const std::string& folder) { read_study(put(folder, "study.json", bytes)); }

constexpr int kDevices = 4;

void read_interference(std::string_view bytes, const std::string& folder) {
  load_interference(put(folder, "interference.json", bytes), kDevices, "fuzz");
}

// A description, in which FILE stands for a file of slowdowns, and that file.
void read_interference_text(std::string_view bytes, const std::string& folder) {
  const auto [description, slowdowns] = two_files(bytes);
  std::string text(description);
  const std::string file = put(folder, "slowdowns.csv", slowdowns);
  if (const std::size_t at = text.find("FILE"); at != std::string::npos) text.replace(at, 4, file);
  if (text.find(".json") == std::string::npos) load_interference(text, kDevices, "fuzz");
}

void read_co_runs(std::string_view bytes, const std::string& folder) {
  read_forest_rows(put(folder, bytes.starts_with('{') ? "rows.json" : "rows.csv", bytes));
}

void read_table_of_pytorch(std::string_view bytes, const std::string&) {
  const OrderFromTable table = read_pytorch_table(std::string(bytes), "table.csv");
  check(table.schedule, table.graph, table.placement);
}

// The traces of one rank or two, also with patterns that match most names.
void read_profiler_traces(std::string_view bytes, const std::string& folder) {
  const auto [first, second] = two_files(bytes);
  std::vector<std::string> files = {put(folder, "rank0.json", first)};
  if (!second.empty()) files.push_back(put(folder, "rank1.json", second));
  for (const char* forward : {"", "^\\D*(\\d+)"}) {
    const TracedRun run = read_traces(files, {.forward = forward});
    figures_of(run);
    table_of(run);
  }
}

// The claims of a paper and what they gave.
void read_claims_and_outcomes(std::string_view bytes, const std::string& folder) {
  const auto [claims, outcomes] = two_files(bytes);
  if (!outcomes.empty()) {
    const std::string path = put(folder, "paper.results.json", outcomes);
    outcomes_from_json(parse_json_file(path), path);
  }
  read_claims(put(folder, "paper.json", claims));
}

void read_quantities(std::string_view bytes, const std::string&) {
  const std::string text(bytes);
  const auto tried = [](const auto& read) {
    try {
      read();
    } catch (const InputError&) {
    }
  };
  tried([&] { parse_bytes(text, "fuzz"); });
  tried([&] { parse_rate(text, "fuzz"); });
  tried([&] { Throttle::parse(text, kDevices, "fuzz"); });
  tried([&] { parse_slowdowns(text, kDevices, "fuzz"); });
  parse_seconds(text, "fuzz");
  static const ModelGraph model = find_workload("gpt_tiny").model;
  tried([&] { stages_of_layout(text, model, "fuzz"); });
  static const std::vector<NamedLayer> layers = {{"embed", true}, {"layers.0.mlp", true}, {"view", false}};
  tried([&] { stages_of_modules(text, layers, "fuzz"); });
}

}  // namespace

std::span<const FuzzTarget> fuzz_targets() {
  static const std::vector<FuzzTarget> all = {{"sweep", read_sweep},
                                              {"cluster", read_cluster},
                                              {"cluster_text", read_cluster_text},
                                              {"calibration", read_a_calibration},
                                              {"cost_graph", read_cost_graph},
                                              {"profile", read_profile},
                                              {"workload", read_a_workload},
                                              {"module", read_module},
                                              {"operators", read_operators},
                                              {"pipeedge", read_pipeedge},
                                              {"records", read_records_file},
                                              {"weight_cases", read_weight_cases},
                                              {"checkpoint", read_checkpoint_header},
                                              {"idx", read_idx_files},
                                              {"cifar", read_cifar},
                                              {"tsv", read_tsv},
                                              {"ratings", read_ratings},
                                              {"catalogues", read_catalogues},
                                              {"parallel_text", read_parallel_text},
                                              {"running_text", read_running_text},
                                              {"study", read_a_study},
                                              {"interference", read_interference},
                                              {"interference_text", read_interference_text},
                                              {"co_runs", read_co_runs},
                                              {"pytorch_table", read_table_of_pytorch},
                                              {"trace", read_profiler_traces},
                                              {"claims", read_claims_and_outcomes},
                                              {"quantities", read_quantities}};
  return all;
}

const FuzzTarget& fuzz_target(const std::string& name) {
  std::vector<std::string> names;
  for (const FuzzTarget& target : fuzz_targets()) {
    if (target.name == name) return target;
    names.push_back(target.name);
  }
  throw InputError("fuzz", "unknown target '" + name + "'", suggestion(name, names));
}

// A message's text without the bytes that are escaped in it: the last digit of one and what follows are no word.
static std::string without_escapes(std::string text) {
  for (std::size_t at = text.find("\\x"); at != std::string::npos; at = text.find("\\x", at + 1))
    text.replace(at, 4, " ");
  return text;
}

std::string defect_of(const FuzzTarget& target, std::string_view bytes, const std::string& folder, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  const StopScope limit(nullptr, Seconds(seconds));
  try {
    target.read(bytes, folder);
  } catch (const InputError& e) {
    const std::string text = without_escapes(e.what());
    for (const char* word : {"json.exception", "vector::", "basic_string", "filesystem error", "std::", "c10::", "stol",
                             "stod", "stoi", "terminate", "map::at"})
      if (text.find(word) != std::string::npos && bytes.find(word) == std::string_view::npos)
        return "a library's words: " + text;
    if (text.empty()) return "an empty message";
  } catch (const Stopped&) {  // it asks whether to go on, so that a signal or a time limit ends it
    return "";
  } catch (const std::bad_alloc&) {
    return "asks for more memory than there is";
  } catch (const std::exception& e) {
    return std::string("an exception of another kind: ") + e.what();
  }
  // Twenty times as long: a machine that does other things, too, is no defect.
  const double gone = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return gone > 20 * seconds ? "takes " + std::to_string(gone) + " s" : "";
}

const std::string& fuzz_folder() {
  struct Folder {
    std::string path;
    Folder() {
      std::error_code ignored;
      const bool memory = std::filesystem::is_directory("/dev/shm", ignored);
      path = (memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/sluice-fuzz-XXXXXX";
      if (!::mkdtemp(path.data())) path = ".";
    }
    ~Folder() {
      std::error_code ignored;
      if (path != ".") std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

}  // namespace sluice
