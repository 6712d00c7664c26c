// torchtitan's module_fqns_per_model_part: which modules of a PyTorch model each stage has, as JSON, so that a line
// of a settings file can be given as it stands: [["tok_embeddings", "layers.0"], ["layers.1", "norm", "output"]]. A
// layer is of the module with its own name or with one that its name goes on from: "layers.0" holds
// "layers.0.attention".
#pragma once

#include <span>
#include <string>
#include <vector>

namespace sluice {

// Whether a text of stages is such a list.
bool is_module_list(const std::string& text);

struct NamedLayer {
  std::string name;
  bool needs_module;  // without one, it is of the stage of the layer before it
};

// The first layer of every stage but the first. Throws InputError at `where` for a text of another form, a name that
// names no layer or is given twice, a layer that needs a module and has none, and stages that are not in the order of
// the layers.
std::vector<int> stages_of_modules(const std::string& text, std::span<const NamedLayer> layers,
                                   const std::string& where);

}  // namespace sluice
