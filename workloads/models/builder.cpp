#include "workloads/models/models.h"

namespace sluice {

ChainBuilder::ChainBuilder(std::string name, ModelInput input) {
  model_.name = std::move(name);
  model_.inputs = {std::move(input)};
}

int ChainBuilder::add_input(ModelInput input) {
  model_.inputs.push_back(std::move(input));
  return -static_cast<int>(model_.inputs.size());
}

int ChainBuilder::add(const std::string& name, LayerKind kind) { return add(name, std::move(kind), {last()}); }

int ChainBuilder::add(const std::string& name, LayerKind kind, std::vector<int> inputs) {
  model_.layers.push_back({.name = name, .kind = std::move(kind), .inputs = std::move(inputs), .block = block_});
  return last();
}

ModelGraph ChainBuilder::finish() {
  model_.shapes();  // throws if the declaration does not fit together
  return std::move(model_);
}

}  // namespace sluice
