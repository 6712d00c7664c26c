// Templates of `sluice new`: the files of harness/cli/templates, valid to start from. {{NAME}} stands for the name.
#pragma once

#include <string>
#include <vector>

namespace sluice {

struct BaselineKind {
  std::string kind, what;  // of harness/cli/templates/KIND.cpp.in
};
const std::vector<BaselineKind>& baseline_kinds();  // the first is the default

// harness/cli/templates/FILE with the name filled in. Throws std::logic_error if there is no such file.
std::string new_file(const std::string& file, const std::string& name);

}  // namespace sluice
