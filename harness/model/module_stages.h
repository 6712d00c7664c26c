// torchtitan's module_fqns_per_model_part: the modules of a PyTorch model in each stage, as JSON, so that a line of a
// settings file can be pasted: [["tok_embeddings", "layers.0"], ["layers.1", "norm", "output"]]. A layer belongs to the
// module with its own name, or with the beginning of its name: "layers.0" contains "layers.0.attention".
#pragma once

#include <span>
#include <string>
#include <vector>

namespace sluice {

// Whether a text of stages is such a list.
bool is_module_list(const std::string& text);

struct NamedLayer {
  std::string name;
  bool needs_module;  // false: without a module, it is in the stage of the layer before it
};

// The first layer of every stage except the first. Throws InputError at `where` for a text of another form, a name that
// matches no layer or is given twice, a layer that needs a module and has none, and stages that are not in the order of
// the layers.
std::vector<int> stages_of_modules(const std::string& text, std::span<const NamedLayer> layers,
                                   const std::string& where);

}  // namespace sluice
