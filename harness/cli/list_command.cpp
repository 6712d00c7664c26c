#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/case/case.h"
#include "harness/case/prepare.h"
#include "harness/cli/commands.h"
#include "harness/pipeline/system.h"

namespace sluice {

static nlohmann::json systems_json() {
  nlohmann::json list = nlohmann::json::array();
  for (const System* s : all_systems()) {
    nlohmann::json options = nlohmann::json::array();
    for (const OptionSpec& o : s->options)
      options.push_back({{"name", o.name}, {"default", o.default_value}, {"choices", o.choices}, {"help", o.help}});
    list.push_back({{"name", s->name},
                    {"aliases", s->aliases},
                    {"title", s->title},
                    {"synchronous", s->synchronous},
                    {"citation", s->citation},
                    {"options", options}});
  }
  return list;
}

static nlohmann::json workloads_json() {
  nlohmann::json list = nlohmann::json::array();
  for (const Workload& w : all_workloads())
    list.push_back({{"name", w.name},
                    {"title", w.title},
                    {"task", w.task},
                    {"dataset", w.dataset},
                    {"layers", w.model.layers.size()},
                    {"parameters", parameter_count(w.model)},
                    {"batch", w.batch},
                    {"microbatches", w.microbatches},
                    {"epochs", w.epochs},
                    {"metric", w.metric},
                    {"target", w.target ? nlohmann::json(*w.target) : nlohmann::json(nullptr)},
                    {"runs_for_real", w.runs_for_real},
                    {"source", w.source}});
  return list;
}

static nlohmann::json clusters_json() {
  nlohmann::json list = nlohmann::json::array();
  const std::string folder = source_folder() + "/workloads/clusters";
  for (const std::string& name : listed_clusters(folder)) {
    const Cluster c = load_cluster(name, folder);
    list.push_back({{"name", name},
                    {"title", c.name},
                    {"devices", c.devices.size()},
                    {"device", c.devices.front().name},
                    {"source", c.source}});
  }
  return list;
}

static nlohmann::json sweeps_json() {
  nlohmann::json list = nlohmann::json::array();
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() + "/harness/sweeps"))
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  std::ranges::sort(files);
  for (const std::string& file : files) {
    const Sweep sweep = load_sweep(file);
    list.push_back({{"name", sweep.name}, {"title", sweep.title}, {"cases", sweep.cases.size()}});
  }
  return list;
}

static void print_list(const std::string& what, const nlohmann::json& list) {
  fmt::print("{}\n", what);
  for (const auto& item : list) {
    const std::string name = item["name"];
    if (what == "systems") {
      fmt::print("  {:<16} {}{}\n", name, item["title"].get<std::string>(),
                 item["synchronous"].get<bool>() ? "" : " (asynchronous)");
      for (const auto& o : item["options"]) {
        std::string choices;
        for (const auto& c : o["choices"]) choices += (choices.empty() ? "" : "|") + c.get<std::string>();
        fmt::print("  {:<16}   --set {}={}  {}\n", "", o["name"].get<std::string>(), choices.empty() ? "N" : choices,
                   o["help"].get<std::string>());
      }
    } else if (what == "workloads") {
      fmt::print("  {:<24} {}; {:.3g} M parameters{}\n", name, item["title"].get<std::string>(),
                 item["parameters"].get<double>() / 1e6,
                 item["runs_for_real"].get<bool>() ? "" : "; virtual clock only");
    } else if (what == "clusters") {
      fmt::print("  {:<16} {} x {}; {}\n", name, item["devices"].get<std::size_t>(), item["device"].get<std::string>(),
                 item["source"].get<std::string>());
    } else {
      fmt::print("  {:<16} {} ({} cases)\n", name, item["title"].get<std::string>(), item["cases"].get<std::size_t>());
    }
  }
}

int list_command(const ListArguments& a) {
  const std::vector<std::pair<std::string, nlohmann::json (*)()>> kinds = {
      {"systems", systems_json}, {"workloads", workloads_json}, {"clusters", clusters_json}, {"sweeps", sweeps_json}};
  nlohmann::json document;
  std::vector<std::string> names;
  for (const auto& [name, make] : kinds) {
    names.push_back(name);
    if (a.what.empty() || a.what == name) document[name] = make();
  }
  if (document.is_null()) throw InputError("list", "unknown list '" + a.what + "'", suggestion(a.what, names));
  if (a.json) {
    fmt::print("{}\n", (a.what.empty() ? document : document[a.what]).dump(2));
    return 0;
  }
  for (const std::string& name : names)
    if (document.contains(name)) print_list(name, document[name]);
  return 0;
}

}  // namespace sluice
