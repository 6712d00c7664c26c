#include "workloads/profiles/profile.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <queue>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/source_folder.h"

namespace sluice {

namespace {

struct PathAndModel {
  std::string path, model;
};

PathAndModel split(const std::string& name) {
  std::error_code ignored;
  const std::size_t hash = name.rfind('#');
  if (hash == std::string::npos || std::filesystem::exists(name, ignored)) return {name, ""};
  return {name.substr(0, hash), name.substr(hash + 1)};
}

}  // namespace

std::string published_profile_path(const std::string& file) {
  return source_folder() + "/workloads/profiles/published/" + file;
}

bool is_profile_path(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(split(path).path, ignored);
}

// FlexFlow's, of GraphPipe's early runtime: whole numbers and nothing else.
static bool is_stage_file(const std::string& text) {
  return text.find_first_of("0123456789") != std::string::npos &&
         text.find_first_not_of("0123456789 \t\r\n") == std::string::npos;
}

static PublishedProfile read_any_profile(const std::string& name, ProfileUnits units) {
  const auto [path, model] = split(name);
  const std::string text = read_text_file(path);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos) throw InputError(path, "is empty");
  if (text[start] == '{') {
    const Json json = Json::parse(text, path);
    if (json.contains("schema")) return {.costs = cost_graph_from_json(json, path)};
    if (json.contains("mbsInBatch")) return read_piper_profile(json, path, units);
    if (json.contains("maxFPGAs")) return read_operator_profile(json, path, units);
    throw InputError(path, "is JSON of no known profile",
                     "known: workloads, models and costs of this project (schema), Piper (mbsInBatch), "
                     "dnn-partitioning (maxFPGAs)");
  }
  if (text.find("forward_compute_time=") != std::string::npos) return read_pipedream_profile(text, path);
  if (text.find("parameters_out:") != std::string::npos || text.find("model_profiles:") != std::string::npos)
    return read_pipeedge_profile(path, model);
  if (is_stage_file(text))
    throw InputError(path, "is a FlexFlow stage file: it says where operators run, not what they take",
                     "give a profile");
  throw InputError(path + ":1", "is no known workload, model or profile",
                   "known: JSON with a schema of this project (workloads, models, costs of sluice profile or "
                   "import_pytorch.py), Hugging Face's config.json, Piper and dnn-partitioning JSON, PipeDream graph "
                   "text, PipeEdge YAML");
}

PublishedProfile load_profile(const std::string& name, ProfileUnits units) {
  PublishedProfile profile = read_any_profile(name, units);
  check_bounds(profile.costs, name);
  if (profile.microbatches > kMaxSamples)
    throw InputError(name, "a batch of " + std::to_string(profile.microbatches) + " micro-batches",
                     "possible are at most " + std::to_string(kMaxSamples));
  exact_product(profile.costs.micro_batch, std::max<std::int64_t>(1, profile.microbatches));
  return profile;
}

Bytes rounded_bytes(double value, const std::string& where) {
  if (!(value >= 0 && value <= static_cast<double>(kMaxTensorBytes)))
    throw InputError(where, "a number of bytes that no machine has",
                     "possible are 0 to " + std::to_string(kMaxTensorBytes));
  return Bytes(std::llround(value));
}

std::vector<int> topological_order(const std::vector<std::pair<int, int>>& edges, const std::vector<std::string>& names,
                                   const std::string& file) {
  std::vector<int> waits(names.size(), 0);
  std::vector<std::vector<int>> readers(names.size());
  for (const auto& [from, to] : edges) {
    ++waits[to];
    readers[from].push_back(to);
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (waits[i] == 0) ready.push(static_cast<int>(i));
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int reader : readers[order.back()])
      if (--waits[reader] == 0) ready.push(reader);
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (waits[i] > 0) throw InputError(file, "the graph has a cycle through or before '" + names[i] + "'");
  return order;
}

}  // namespace sluice
