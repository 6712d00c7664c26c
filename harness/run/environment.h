// The environment of a run, as its record keeps it.
#pragma once

#include <nlohmann/json.hpp>

namespace sluice {

// Commit, compiler, LibTorch, CPU, cores, GPUs, load: what a reader needs to judge the numbers. Nothing that names the
// machine or its user.
nlohmann::json describe_environment();

}  // namespace sluice
