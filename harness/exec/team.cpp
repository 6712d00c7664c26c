#include "harness/exec/team.h"

#include "harness/exec/bytes.h"

namespace sluice {

void together(Team* team, const std::function<void()>& work) {
  if (!team) return work();
  std::string error;
  try {
    work();
  } catch (const std::exception& e) {
    error = e.what();
    if (error.empty()) error = "failed";
  }
  const std::vector<std::string> errors = team->all_gather(error);
  for (std::size_t r = 0; r < errors.size(); ++r)
    if (!errors[r].empty())
      throw AgreedError("", r == 0 ? errors[r] : "process " + std::to_string(r) + ": " + errors[r]);
}

}  // namespace sluice
