#include "harness/exec/process_group.h"

#include "harness/exec/bytes.h"

namespace sluice {

void agree_on_error(ProcessGroup* processes, const std::function<void()>& work) {
  if (!processes) return work();
  std::string error;
  try {
    work();
  } catch (const std::exception& e) {
    error = e.what();
    if (error.empty()) error = "failed";
  }
  const std::vector<std::string> errors = processes->all_gather(error);
  for (std::size_t r = 0; r < errors.size(); ++r)
    if (!errors[r].empty())
      throw AgreedError("", r == 0 ? errors[r] : "process " + std::to_string(r) + ": " + errors[r]);
}

}  // namespace sluice
