// Templates of `sluice new`: valid files to start from. {0} stands for the name.
#pragma once

#include <string>
#include <vector>

namespace sluice {

struct BaselineTemplate {
  std::string kind, what, text;
};
const std::vector<BaselineTemplate>& baseline_templates();  // the first is the default kind

extern const char* const kWorkloadTemplate;
extern const char* const kClusterTemplate;

}  // namespace sluice
