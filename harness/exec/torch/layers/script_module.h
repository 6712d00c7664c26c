// Modules for tests, from TorchScript source. Only tests include this.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/read_text.h"
#include "harness/model/module_file.h"

namespace sluice {

// The declaration, with what is in a file that is written for it to `folder`. source: def forward(self, inputs, random,
// weights, buffers) and def evaluate(self, inputs, weights, buffers).
inline Module script_module(const std::string& folder, const std::string& name, Module declared,
                            const std::string& source, const std::vector<at::Tensor>& weights,
                            const std::vector<at::Tensor>& buffers = {}) {
  torch::jit::Module script("script");
  for (const at::Tensor& w : weights) {
    script.register_parameter(module_weight(declared.weights.size()), w, /*is_buffer=*/false);
    declared.weights.push_back(w.sizes().vec());
  }
  for (const at::Tensor& b : buffers) {
    script.register_buffer(module_buffer(declared.buffers.size()), b);
    declared.buffers.push_back(b.sizes().vec());
  }
  script.define(source);
  std::filesystem::create_directories(folder);
  declared.folder = folder;
  declared.file = name + ".pt";
  script.save(folder + "/" + declared.file);
  const std::string content = read_text(folder + "/" + declared.file, std::size_t{1} << 30);
  declared.bytes = static_cast<std::int64_t>(content.size());
  declared.digest = module_digest(content);
  return declared;
}

}  // namespace sluice
