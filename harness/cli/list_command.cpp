#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "harness/case/sweep.h"
#include "harness/cli/commands.h"
#include "harness/model/cluster.h"
#include "harness/pipeline/system.h"
#include "workloads/models/registry.h"

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

static std::string text(const nlohmann::json& item, const char* key) { return item[key].get<std::string>(); }

static void print_system(const nlohmann::json& item) {
  fmt::print("  {:<16} {}{}\n", text(item, "name"), text(item, "title"),
             item["synchronous"].get<bool>() ? "" : " (asynchronous)");
  for (const auto& o : item["options"]) {
    std::string choices;
    for (const auto& c : o["choices"]) choices += (choices.empty() ? "" : "|") + c.get<std::string>();
    fmt::print("  {:<16}   --set {}={}  {}\n", "", text(o, "name"), choices.empty() ? "N" : choices, text(o, "help"));
  }
}

static void print_workload(const nlohmann::json& item) {
  fmt::print("  {:<24} {}; {:.3g} M parameters{}\n", text(item, "name"), text(item, "title"),
             item["parameters"].get<double>() / 1e6, item["runs_for_real"].get<bool>() ? "" : "; virtual clock only");
}

static void print_cluster(const nlohmann::json& item) {
  fmt::print("  {:<16} {} x {}; {}\n", text(item, "name"), item["devices"].get<std::size_t>(), text(item, "device"),
             text(item, "source"));
}

static void print_sweep(const nlohmann::json& item) {
  fmt::print("  {:<16} {} ({} cases)\n", text(item, "name"), text(item, "title"), item["cases"].get<std::size_t>());
}

namespace {
struct List {
  std::string name;
  nlohmann::json (*items)();
  void (*print)(const nlohmann::json& item);
};
}  // namespace

int list_command(const ListArguments& a) {
  const List lists[] = {{"systems", systems_json, print_system},
                        {"workloads", workloads_json, print_workload},
                        {"clusters", clusters_json, print_cluster},
                        {"sweeps", sweeps_json, print_sweep}};
  nlohmann::json document;
  std::vector<std::string> names;
  for (const List& list : lists) {
    names.push_back(list.name);
    if (a.what.empty() || a.what == list.name) document[list.name] = list.items();
  }
  if (document.is_null()) throw InputError("list", "unknown list '" + a.what + "'", suggestion(a.what, names));
  if (a.json) {
    fmt::print("{}\n", (a.what.empty() ? document : document[a.what]).dump(2));
    return 0;
  }
  for (const List& list : lists) {
    if (!document.contains(list.name)) continue;
    fmt::print("{}\n", list.name);
    for (const nlohmann::json& item : document[list.name]) list.print(item);
  }
  return 0;
}

}  // namespace sluice
