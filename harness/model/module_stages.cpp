#include "harness/model/module_stages.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/json.h"

namespace sluice {

namespace {

constexpr const char* kForm = R"(write [["tok_embeddings", "layers.0"], ["layers.1", "output"]])";

struct StagedModule {
  int stage = 0;
  bool used = false;
};

// By name.
std::map<std::string, StagedModule> modules_of(const std::string& text, const std::string& where) {
  const Json list = Json::parse(text, where);
  if (!list.is_array()) throw InputError(where, "is no list of stages", kForm);
  std::map<std::string, StagedModule> modules;
  int stage = 0;
  for (const Json& names : list) {
    if (!names.is_array()) throw InputError(where, fmt::format("stage {} is no list of modules", stage), kForm);
    if (names.empty()) throw InputError(where, fmt::format("stage {} has no module", stage), "leave the stage out");
    for (const Json& name : names) {
      if (!name.is_string()) throw InputError(where, fmt::format("stage {} has what is no name", stage), kForm);
      if (!modules.try_emplace(name.get<std::string>(), StagedModule{stage}).second)
        throw InputError(where, "the module '" + name.get<std::string>() + "' is given twice", "give it once");
    }
    ++stage;
  }
  if (modules.empty()) throw InputError(where, "the list has no stage", kForm);
  return modules;
}

// The module with the layer's name, or else with the longest part of it that ends before a dot.
StagedModule* module_of(std::map<std::string, StagedModule>& modules, const std::string& layer) {
  for (std::size_t length = layer.size(); length != std::string::npos && length > 0;
       length = layer.rfind('.', length - 1))
    if (const auto found = modules.find(layer.substr(0, length)); found != modules.end()) return &found->second;
  return nullptr;
}

}  // namespace

bool is_module_list(const std::string& text) { return text.starts_with('['); }

std::vector<int> stages_of_modules(const std::string& text, std::span<const NamedLayer> layers,
                                   const std::string& where) {
  std::map<std::string, StagedModule> modules = modules_of(text, where);
  std::vector<int> first_layers;
  int stage = 0;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    StagedModule* const module = module_of(modules, layers[k].name);
    if (!module) {
      if (!layers[k].needs_module) continue;
      throw InputError(where, "no stage has the layer '" + layers[k].name + "'", "name its module in one of them");
    }
    module->used = true;
    if (module->stage < stage || module->stage > stage + 1)
      throw InputError(where,
                       fmt::format("the layer '{}' is in stage {} and comes after one of stage {}", layers[k].name,
                                   module->stage, stage),
                       "stages have the modules in the order in which they run");
    if (module->stage > stage) first_layers.push_back(static_cast<int>(k)), ++stage;
  }
  for (const auto& [name, module] : modules)
    if (!module.used)
      throw InputError(where, "no layer is of the module '" + name + "'", "sluice list FILE names them");
  return first_layers;
}

}  // namespace sluice
