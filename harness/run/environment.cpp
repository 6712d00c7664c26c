#include "harness/run/environment.h"

#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "harness/base/json.h"
#include "harness/base/run_program.h"
#include "harness/base/source_folder.h"
#include "harness/exec/mpi/mpi.h"
#include "harness/exec/pinning.h"
#include "harness/exec/session.h"

namespace sluice {

// Of the checkout, or of the one that a bundle was made from (exec/torch/cuda/bundle writes the file); "unknown" where
// there is neither, or git does not answer.
static std::string commit_name() {
  std::string text;
  if (std::ifstream of_bundle(source_folder() + "/commit"); of_bundle) {
    std::getline(of_bundle, text);
  } else {
    // Without the variables by which a hook of another repository would name that one.
    const ProgramEnd end = run_program({"env", "-u", "GIT_DIR", "-u", "GIT_WORK_TREE", "-u", "GIT_INDEX_FILE", "git",
                                        "-C", source_folder(), "describe", "--always", "--dirty"},
                                       {.limit = Seconds(5)});
    if (end.ok()) text = end.output;
  }
  while (text.ends_with('\n')) text.pop_back();
  return text.empty() ? "unknown" : text;
}

static std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

// Of CUDA's versions and devices, as describe_cuda() (exec/session.h) has them; null: a program without CUDA.
static void add_gpus(Environment::Machine& machine, const Json& cuda) {
  if (cuda.is_null()) return;
  machine.nccl = {.header = cuda["nccl"]["header"].get<std::string>(),
                  .library = cuda["nccl"]["library"].get<std::string>()};
  for (const Json& gpu : cuda["devices"])
    machine.gpus.push_back({.name = gpu["name"].get<std::string>(),
                            .memory_bytes = gpu["memory_bytes"].get<std::uint64_t>(),
                            .compute_capability = gpu["compute_capability"].get<std::string>()});
  machine.cuda = {.runtime = cuda["runtime"].get<std::string>()};
  if (!cuda["driver"].is_null()) machine.cuda->driver = cuda["driver"].get<std::string>();
}

Environment describe_environment() {
  static const Environment::Machine fixed = [] {
    Environment::Machine machine;
    machine.commit = commit_name();
    machine.compiler = std::string("g++ ") + __VERSION__;
    machine.torch = torch_version();
    if (mpi_built()) machine.mpi = mpi_library();
    if (hwloc_built()) machine.hwloc = hwloc_library();
    machine.cpu = cpu_name();
    machine.cores = static_cast<int>(std::thread::hardware_concurrency());
    add_gpus(machine, describe_cuda());
    utsname system{};
    uname(&system);
    machine.kernel = system.release;
    return machine;
  }();
  Environment environment{.machine = fixed};
  double load[1] = {0};
  if (getloadavg(load, 1) == 1) environment.machine->load = load[0];
  return environment;
}

}  // namespace sluice
