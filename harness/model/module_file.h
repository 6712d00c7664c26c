// The TorchScript file of a Module, checked against its declaration in the model file.
#pragma once

#include <string>
#include <string_view>

#include "harness/model/model.h"

namespace sluice {

std::string module_path(const LayerSpec& layer);
std::string module_digest(std::string_view content);

// The contents. Throws InputError at the file: it is missing, or has another size or digest.
std::string read_module_file(const LayerSpec& layer);

// Throws InputError if the file of a Module is missing or has another size or digest. Reads each file once.
void require_module_files(const ModelGraph& model);

}  // namespace sluice
