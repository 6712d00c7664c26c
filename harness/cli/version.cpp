#include "harness/cli/version.h"

#include <fmt/format.h>
#include <sluice_build.h>

#include "harness/exec/mpi/mpi.h"
#include "harness/exec/pinning.h"
#include "harness/exec/session.h"

namespace sluice {

std::string torch_free_notice() {
#ifdef SLUICE_HAVE_TORCH
  return "";
#else
  return "This build is torch-free: planners, schedules and the virtual clock without training.";
#endif
}

std::string version_text() {
  const std::string notice = torch_free_notice();
  std::string text = fmt::format("sluice {}\n", SLUICE_VERSION);
  text += notice.empty() ? fmt::format("real executor: LibTorch {}\n", torch_version())
                         : "real executor: none (a torch-free build)\n";
  text += fmt::format("transports: threads{}\n", mpi_built() ? ", mpi" : "; built without MPI");
  text += fmt::format("pinning of ranks: {}\n", hwloc_built() ? "yes" : "built without hwloc");
  return text;
}

}  // namespace sluice
