// Which Sluice this is, and what it was built with.
#pragma once

#include <string>

namespace sluice {

// "sluice 0.1.0" and a line for each thing that a build may lack.
std::string version_text();

// "" where ranks can run for real; else the sentence that says that this build is torch-free.
std::string torch_free_notice();

}  // namespace sluice
