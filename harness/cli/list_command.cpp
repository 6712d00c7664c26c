#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "harness/base/source_folder.h"
#include "harness/base/visible_text.h"
#include "harness/case/sweep.h"
#include "harness/cli/commands.h"
#include "harness/cli/describe.h"
#include "harness/cli/help_format.h"
#include "harness/model/calibration.h"
#include "harness/model/cluster.h"
#include "harness/pipeline/system.h"
#include "workloads/models/registry.h"
#include "workloads/profiles/profile.h"

namespace sluice {

static Json systems_json() {
  Json list = Json::array();
  for (const System* s : all_systems()) {
    Json options = Json::array();
    for (const OptionSpec& o : s->options) {
      Json only_with = Json::array();
      for (const OptionCondition& condition : o.only_with) only_with.push_back(to_text(condition));
      if (o.training_only) only_with.push_back("training");
      if (o.replicas_only) only_with.push_back("replicas");
      options.push_back({{"name", o.name},
                         {"default", o.default_value},
                         {"choices", o.choices},
                         {"help", o.help},
                         {"only_with", only_with}});
    }
    list.push_back({{"name", s->name},
                    {"aliases", s->aliases},
                    {"title", s->title},
                    {"synchronous", s->synchronous},
                    {"inference_only", s->inference_only},
                    {"citation", s->citation},
                    {"sources", sources_text(s->written_from)},  // the column of the list
                    {"written_from", parts_text(s->written_from)},
                    {"ours", s->written_from.ours},
                    {"options", options}});
  }
  return list;
}

static Json workloads_json() {
  Json list = Json::array();
  for (const Workload& w : all_workloads()) list.push_back(summary_of(w));
  return list;
}

static Json clusters_json() {
  Json list = Json::array();
  const std::string folder = source_folder() + "/workloads/clusters";
  for (const std::string& name : names_of_json_files(folder)) {
    const Cluster c = load_cluster(name, folder);
    std::string kinds;
    std::set<std::string> seen;
    for (const Device& device : c.devices)
      if (seen.insert(device.name).second) kinds += (kinds.empty() ? "" : ", ") + device.name;
    list.push_back(
        {{"name", name}, {"title", c.name}, {"devices", c.devices.size()}, {"device", kinds}, {"source", c.source}});
  }
  return list;
}

static Json calibrations_json() {
  Json list = Json::array();
  const std::string folder = source_folder() + "/workloads/devices";
  const auto errors = [](const KernelFit& fit) {
    return fmt::format("off by {:.3f} in the median, {:.2f} at the 90th percentile", fit.held_out.median,
                       fit.held_out.ninetieth);
  };
  for (const std::string& name : names_of_json_files(folder)) {
    const Calibration c = load_calibration(name, folder);
    std::string cautions;
    for (const std::string& caution : c.cautions) cautions += (cautions.empty() ? "" : " ") + caution;
    Json item = {
        {"name", name},
        {"device", c.device},
        {"precision", c.precision},
        {"peak", fmt::format("{:.4g} TFLOP/s", c.peak / 1e12)},
        {"memory_bandwidth", fmt::format("{:.4g} GB/s", c.memory_bandwidth / 1e9)},
        {"products", errors(c.products)},
        {"convolutions", c.convolutions ? "forward: " + errors(c.convolutions->forward) : "derived from products"},
        {"evidence", c.evidence},
        {"source", c.source},
        {"cautions", cautions}};
    if (c.convolutions) {
      item["input_gradients"] = errors(c.convolutions->input_gradient);
      item["weight_gradients"] = errors(c.convolutions->weight_gradient);
    }
    list.push_back(item);
  }
  return list;
}

static std::vector<std::string> names_of_sweeps() { return names_of_json_files(source_folder() + "/harness/sweeps"); }

static std::string sweep_file(const std::string& name) { return source_folder() + "/harness/sweeps/" + name + ".json"; }

static Json sweep_json(const std::string& name) {
  const Sweep sweep = load_sweep(sweep_file(name));
  return {{"name", name}, {"title", sweep.title}, {"cases", sweep.cases.size()}};
}

static Json sweeps_json() {
  Json list = Json::array();  // without the number of cases, which takes seconds
  for (const std::string& name : names_of_sweeps())
    list.push_back({{"name", name}, {"title", parse_json_file(sweep_file(name)).value("title", name)}});
  return list;
}

static std::string text(const Json& item, const char* key) { return visible(item[key].get<std::string>()); }

constexpr const char* kSystemLine = "  {:<22} {:<29} {}\n";

static void print_system(const Json& item) {
  constexpr std::size_t column = 52;
  const std::size_t width = terminal_width();
  fmt::print(kSystemLine, text(item, "name"), text(item, "sources"),
             wrapped(text(item, "title") + (item["synchronous"].get<bool>() ? "" : " (asynchronous)"), column, width));
}

// All about one thing: "name: value" lines, wrapped; the options of a system below.
static void print_details(const Json& item) {
  constexpr std::size_t column = 16;
  const std::size_t width = terminal_width();
  const auto row = [&](const std::string& name, const std::string& value) {
    if (!value.empty())
      fmt::print("{:<{}}{}\n", name + (name.size() < column ? "" : " "), column,
                 wrapped(visible(value), column, width));
  };
  std::vector<std::string> keys = {"name", "title", "kind"};
  for (const auto& [key, value] : item.items())
    if (std::ranges::count(keys, key) == 0 && key != "options" && key != "sources") keys.push_back(key);
  for (const std::string& key : keys) {
    if (!item.contains(key) || item[key].is_null()) continue;
    const Json& value = item[key];
    std::string shown;
    if (value.is_array()) {
      for (const auto& v : value) shown += (shown.empty() ? "" : ", ") + v.get<std::string>();
    } else {
      shown = value.is_string()    ? value.get<std::string>()
              : value.is_boolean() ? (value.get<bool>() ? "yes" : "no")
                                   : value.dump();
    }
    std::string name = key;
    std::ranges::replace(name, '_', ' ');
    row(name, shown);
  }
  if (!item.contains("options")) return;
  if (item["options"].empty()) return row("options", "none");
  fmt::print("options, given as --set NAME=VALUE:\n");
  for (const auto& o : item["options"]) {
    std::string choices;
    for (const auto& c : o["choices"]) choices += (choices.empty() ? "" : ", ") + c.get<std::string>();
    std::string only_with;
    for (const auto& c : o["only_with"])
      only_with += (only_with.empty() ? "; only with " : ", ") + c.get<std::string>();
    if (choices.empty()) choices = number_in(text(o, "default")) ? "a number" : "text";
    row("  " + text(o, "name"),
        fmt::format("{}: {} (default: {}{})", choices, text(o, "help"), text(o, "default"), only_with));
  }
}

static void print_workload(const Json& item) {
  const double millions = item["parameters"].get<double>() / 1e6;
  const bool billions = millions >= 1000;
  fmt::print("  {:<24} {}; {:.3g} {} parameters{}\n", text(item, "name"), text(item, "title"),
             billions ? millions / 1000 : millions, billions ? "billion" : "million",
             item["runs_for_real"].get<bool>() ? "" : "; virtual clock only");
}

static void print_cluster(const Json& item) {
  fmt::print("  {:<18} {} devices: {}\n", text(item, "name"), item["devices"].get<std::size_t>(), text(item, "device"));
}

static void print_calibration(const Json& item) {
  fmt::print("  {:<20} {}, {}; products {}; convolutions {}\n", text(item, "name"), text(item, "device"),
             text(item, "precision"), text(item, "products"),
             item.contains("input_gradients") ? "measured" : "derived from products");
}

static void print_sweep(const Json& item) { fmt::print("  {:<16} {}\n", text(item, "name"), text(item, "title")); }

namespace {
struct List {
  std::string name;
  std::string heading;  // of its columns
  Json (*items)();
  void (*print)(const Json& item);
};
}  // namespace

static int print_one(const Json& item, bool json) {
  if (json) {
    fmt::print("{}\n", item.dump(2));
  } else {
    print_details(item);
  }
  return 0;
}

// The thing of that name or alias in any list. Of sweeps, which take seconds to read, only the one that is meant is
// read.
static int list_one(std::span<const List> lists, std::vector<std::string> names, const ListArguments& a) {
  const std::vector<std::string> sweeps = names_of_sweeps();
  for (const List& list : lists) {
    if (list.items == sweeps_json) {
      if (std::ranges::count(sweeps, a.what) > 0) return print_one(sweep_json(a.what), a.json);
      names.insert(names.end(), sweeps.begin(), sweeps.end());
      continue;
    }
    for (const Json& item : list.items()) {
      const auto aliases = item.value("aliases", std::vector<std::string>{});
      if (item["name"] == a.what || std::ranges::count(aliases, a.what) > 0)
        return print_one(list.name == "workloads" ? describe_workload(find_workload(a.what)) : item, a.json);
      names.push_back(text(item, "name"));
      names.insert(names.end(), aliases.begin(), aliases.end());
    }
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(a.what, ignored))
    throw InputError("list", "'" + a.what + "' is a folder", "give a file, or a name that sluice list prints");
  const std::string near = nearest(a.what, names);
  throw InputError("list", "there is no '" + a.what + "'",
                   near.empty() ? "known: systems, workloads, clusters, calibrations, sweeps, and what these list"
                                : "did you mean '" + near + "'?");
}

int list_command(const ListArguments& a) {
  const List lists[] = {
      {"systems", fmt::format(kSystemLine, "name", "written from", "title"), systems_json, print_system},
      {"workloads", "", workloads_json, print_workload},
      {"clusters", "", clusters_json, print_cluster},
      {"calibrations", "", calibrations_json, print_calibration},
      {"sweeps", "", sweeps_json, print_sweep}};
  Json document;
  std::vector<std::string> names;
  for (const List& list : lists) {
    names.push_back(list.name);
    if (a.what.empty() || a.what == list.name) document[list.name] = list.items();
  }
  if (document.is_null() && is_profile_path(a.what)) return print_one(describe_file(a.what), a.json);
  if (document.is_null()) return list_one(lists, names, a);
  if (a.json) {
    fmt::print("{}\n", (a.what.empty() ? document : document[a.what]).dump(2));
    return 0;
  }
  for (const List& list : lists) {
    if (!document.contains(list.name)) continue;
    fmt::print("{}\n{}", list.name, list.heading);
    for (const Json& item : document[list.name]) list.print(item);
  }
  fmt::print("sluice list NAME tells all about one of them\n");
  return 0;
}

}  // namespace sluice
