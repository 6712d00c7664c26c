#include "harness/cli/new_templates.h"

#include "harness/base/embedded_files.h"

namespace sluice {

extern const EmbeddedFiles kNewFiles;

const std::vector<BaselineKind>& baseline_kinds() {
  static const std::vector<BaselineKind> all = {{"flush", "all forwards, then all backwards, one update"},
                                                {"split", "input gradients apart from weight gradients"},
                                                {"chunked", "several stages on every rank"},
                                                {"asynchronous", "no flush: weight versions"}};
  return all;
}

std::string new_file(const std::string& file, const std::string& name) {
  return filled_file(kNewFiles, file, {{"NAME", name}});
}

}  // namespace sluice
